"""The command line, in the process of the tests."""

from typer.testing import CliRunner

from lrga.cli.main import app


def lrga(*arguments, code=0):
    """Runs ``lrga …``: an error of the library is raised, and another exit code than the expected one fails."""
    result = CliRunner().invoke(app, list(map(str, arguments)))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, result.output
    return result
