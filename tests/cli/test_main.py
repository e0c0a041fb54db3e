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


def test_of_several_ranks_the_first_alone_prints(monkeypatch):
    for name, value in {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("RANK", "1")
    assert command("train", "ZINC", "--dry-run", "--json").stdout == ""
    assert "no-such-data-set" in command("train", "no-such-data-set", "--dry-run").stderr
    monkeypatch.setenv("RANK", "0")
    assert json.loads(command("train", "ZINC", "--dry-run", "--json").stdout)["parameters"] == 92_311


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


def callbacks(commands):
    for command in commands.registered_commands:
        yield command.callback
    for group in commands.registered_groups:
        yield from callbacks(group.typer_instance)


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
