import inspect
import json
import subprocess
import sys

import pytest
from typer.main import get_command
from typer.models import OptionInfo
from typer.testing import CliRunner

import lrga
from lrga.cli.main import app


def test_the_version_is_printed_and_an_unknown_command_fails():
    assert CliRunner().invoke(app, ["--version"]).stdout.strip() == lrga.__version__
    assert CliRunner().invoke(app, ["paint"]).exit_code == 2


def test_an_error_is_one_line_that_helps_and_a_failure(entry_point):
    done = entry_point("train", "no-such-data-set")
    assert done.returncode != 0
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert "no-such-data-set" in done.stderr
    assert "To fix:" in done.stderr


def test_of_several_ranks_the_first_alone_prints(monkeypatch, entry_point):
    for name, value in {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("RANK", "1")
    assert entry_point("train", "ZINC", "--dry-run", "--json").stdout == ""
    assert "no-such-data-set" in entry_point("train", "no-such-data-set", "--dry-run").stderr
    monkeypatch.setenv("RANK", "0")
    assert json.loads(entry_point("train", "ZINC", "--dry-run", "--json").stdout)["parameters"] == 92_311


def commands(command, *names):
    below = getattr(command, "commands", {})
    for name in below:
        yield from commands(below[name], *names, name)
    if not below:
        yield " ".join(names)


@pytest.mark.parametrize("name", list(commands(get_command(app))))
def test_help_fits_two_screens_and_has_an_example(name, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    result = CliRunner().invoke(app, [*name.split(), "--help"])
    assert result.exit_code == 0
    lines = result.output.splitlines()
    assert len(lines) <= 80
    assert any(f"lrga {name}" in line and "Usage" not in line for line in lines)


def test_help_does_not_wait_for_torch():
    code = "import sys; import lrga.cli.main; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def callbacks(group):
    for command in group.registered_commands:
        yield command.callback
    for below in group.registered_groups:
        yield from callbacks(below.typer_instance)


def test_options_shown_with_their_own_name_in_capitals_declare_it():
    # versions 0.27 of typer call an option --NODE whose metavar is NODE, unless its name is declared
    unnamed, seen = [], 0
    for callback in callbacks(app):
        for name, parameter in inspect.signature(callback).parameters.items():
            for option in getattr(parameter.annotation, "__metadata__", ()):
                if not isinstance(option, OptionInfo) or (option.metavar or "").lower() != name:
                    continue
                seen += 1
                declared = [option.default, *(option.param_decls or ())]  # typer.Option takes the first for a value
                if f"--{name}" not in declared:
                    unnamed.append(f"{callback.__module__}: {name}")
    assert seen >= 4
    assert not unnamed


def test_every_option_is_written_in_small_letters():
    def options(command):
        for below in getattr(command, "commands", {}).values():
            yield from options(below)
        yield from (word for option in command.params for word in option.opts if word.startswith("--"))

    found = set(options(get_command(app)))
    assert {"--node", "--test", "--format", "--device", "--data-root"} <= found
    assert found == {word.lower() for word in found}
