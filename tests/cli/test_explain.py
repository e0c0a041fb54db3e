"""``lrga explain`` as a user types it."""

import json
import re

import pytest
import torch
from typer.testing import CliRunner

from lrga.cli.main import app
from lrga.errors import CheckpointError, OptionError


def lrga(*arguments):
    result = CliRunner().invoke(app, list(map(str, arguments)))
    if result.exception is not None:
        raise result.exception
    return result


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    root = tmp_path_factory.mktemp("explain")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    lrga("train", "CLUSTER", "--sizes", "8,4,4", "--hidden", "8", "--layers", "2", "--rank", "3", "--epochs", "1",
         "--batch-size", "4", "--device", "cpu", "--data-root", root, "--output", root, "--run-name", "a",
         "--quiet")  # fmt: skip
    torch.set_num_threads(threads)
    return root / "a"


def test_a_page_is_written_beside_or_where_one_says(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = lrga("explain", run, "--graph", "2")
    assert "layers.1.attention" in result.stdout
    assert (tmp_path / "a-graph2.html").is_file()
    told = json.loads(lrga("explain", run, "--best", "--layers", "2", "-o", "b.html", "--json").stdout)
    assert told["page"] == "b.html"
    (layer,) = told["layers"]
    assert (layer["name"], layer["rank"], len(layer["spectrum"][0])) == ("layers.1.attention", 3, 3)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (["--graph", "4"], OptionError, "0 to 3"),
        (["--layers", "x"], OptionError, "1,4"),
        (["--layers", "3"], OptionError, "1 to 2"),
        (["--split", "all"], OptionError, "train, val, test"),
    ],
)
def test_what_is_not_there_is_refused_in_words(run, arguments, error, message):
    with pytest.raises(error, match=re.escape(message)):
        lrga("explain", run, *arguments)


def test_a_folder_without_a_run_is_refused(tmp_path):
    with pytest.raises(CheckpointError, match="run folder"):
        lrga("explain", tmp_path)
