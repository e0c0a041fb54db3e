import subprocess
import sys

import pytest
from typer.testing import CliRunner

import lrga
from lrga.cli.main import app


def command(*arguments):
    return subprocess.run([sys.executable, "-m", "lrga", *arguments], capture_output=True, text=True, check=False)


def test_the_version_is_printed():
    done = command("--version")
    assert done.returncode == 0
    assert done.stdout.strip() == lrga.__version__


def test_an_error_is_one_line_that_helps_and_a_failure():
    done = command("train", "no-such-data-set")
    assert done.returncode != 0
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert "no-such-data-set" in done.stderr
    assert "To fix:" in done.stderr


def test_an_unknown_command_fails():
    assert command("paint").returncode != 0


COMMANDS = ["params", "demo", "train", "compare", "sweep", "reproduce", "predict", "wl", "theory", "data"]


@pytest.mark.parametrize("name", [*COMMANDS, "data ls", "data build", "data verify"])
def test_every_command_explains_itself(name):
    result = CliRunner().invoke(app, [*name.split(), "--help"])
    assert result.exit_code == 0
    assert "Usage" in result.output


def test_help_does_not_wait_for_torch():
    code = "import sys; import lrga.cli.main; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
