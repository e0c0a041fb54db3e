"""What the commands that run campaigns share."""

import json
import os
import signal
from pathlib import Path

import pytest
from typer.main import get_command

from lrga.cli.main import app
from lrga.cli.options import (
    DATA,
    INCOMPLETE,
    MODEL,
    PROTOCOL,
    PUBLISHED,
    RARE,
    RUN,
    carry_out,
    data_options,
    parse_sizes,
    training_options,
    with_options,
)
from lrga.cli.printing import show
from lrga.errors import OptionError
from lrga.experiments.comparison import comparison
from lrga.training.config import SECTION_OF
from lrga.training.presets import flag_of, make_config

TINY = {"hidden": 8, "layers": 1, "max_epochs": 1, "batch_size": 4, "device": "cpu"}


@pytest.fixture
def study(tmp_path):
    return comparison("CLUSTER", root=str(tmp_path / "data"), data_options={"sizes": (8, 4, 4)}, **TINY)


def test_options_left_out_are_left_to_the_protocol():
    given = {"settings": ["lr=0.1"], "data_root": Path("there"), "epochs": 3, "preset": None}
    assert training_options(given) == {"max_epochs": 3, "root": "there", "lr": 0.1}
    assert data_options({"sizes": "3,2,1"})["sizes"] == (3, 2, 1)
    found = data_options({"data_seed": 5, "split": "0.8,0.1,0.1"})
    assert (found["seed"], found["split"]) == (5, (0.8, 0.1, 0.1))
    with pytest.raises(OptionError, match="lr once"):
        training_options({"settings": ["lr=0.1"], "lr": 0.2})


@pytest.mark.parametrize("names", [["train"], ["compare"], ["sweep"], ["reproduce", "run"], ["reproduce", "ablation"]])
def test_commands_that_train_accept_the_same_words(names):
    command = get_command(app)
    for name in names:
        command = command.commands[name]
    known = {parameter.name for parameter in command.params}
    shared = {*MODEL, *PROTOCOL, *DATA, *RUN, *PUBLISHED, *RARE}
    left_out = {"compare": {"lrga"}, "run": {"recipe"}, "ablation": {"recipe", "rank"}}  # said elsewhere, or no paper's
    assert shared - known == left_out.get(names[-1], set())
    assert sum(not getattr(parameter, "hidden", False) for parameter in command.params) < 50  # two screens


def all_given(output, **changes):
    given = {"output": output, "as_json": True, "dry_run": False, "quiet": False, "time_limit": None, "retry": False}
    return given | {"parallel": 1, "shard": None} | changes


def test_json_is_all_of_stdout(study, tmp_path, capsys):
    carry_out(study, all_given(tmp_path))
    printed = capsys.readouterr()
    assert json.loads(printed.out)["complete"]
    assert "[2/2] LRGA + GCN" in printed.err


def test_a_shard_runs_its_own_part_alone_and_the_parts_make_the_table(study, tmp_path, capsys):
    for part in ("1/2", "2/2"):
        carry_out(study, all_given(tmp_path, shard=part, quiet=True))
        assert len(json.loads(capsys.readouterr().out)["rows"]) == 1
    assert study.table(tmp_path).complete
    with pytest.raises(OptionError, match="2/8"):
        carry_out(study, all_given(tmp_path, shard="3/2"))


def test_tables_are_printed_with_their_notes(study, tmp_path, capsys):
    show(study.plan(tmp_path))
    printed = capsys.readouterr().out
    assert "2 runs: 2 pending." in printed
    assert max(map(len, printed.splitlines())) <= 100
    with pytest.raises(OptionError, match="markdown, latex"):
        show(study.plan(tmp_path), form="docx")


def test_a_message_names_an_option_as_the_command_line_accepts_it():
    flags = {flag for parameter in get_command(app).commands["train"].params for flag in parameter.opts}
    for option in set(SECTION_OF) - {"name", "options"}:
        form = flag_of(option)
        assert form in flags or (form == f"--set {option}" and f"--{option.replace('_', '-')}" not in flags), option
    with pytest.raises(OptionError, match="got --set momentum: only sgd uses it, not adam"):
        make_config("ZINC", momentum=0.5)


@pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="no SIGUSR1")
def test_a_batch_systems_signal_during_the_start_ends_with_the_code_for_resumable_work():
    before = signal.signal(signal.SIGUSR1, signal.SIG_DFL)

    @with_options(RUN)
    def command(given):
        os.kill(os.getpid(), signal.SIGUSR1)

    try:
        with pytest.raises(SystemExit) as stop:
            command(**dict.fromkeys(RUN))
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert stop.value.code == INCOMPLETE


@pytest.mark.parametrize("text", ["a,b,c", "1;2;3", "", "1,,2"])
def test_text_that_is_no_size_is_refused(text):
    assert parse_sizes("1500,250,250") == (1500, 250, 250)
    with pytest.raises(OptionError, match="1500,250,250"):
        parse_sizes(text)
