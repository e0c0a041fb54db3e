"""``lrga explain`` as a user types it."""

import json
import re

import pytest

from lrga.errors import CheckpointError, OptionError
from tests.helpers.commands import lrga


def test_a_page_is_written_beside_or_where_one_says(trained, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = lrga("explain", trained, "--graph", "2")
    assert "layers.1.attention" in result.stdout
    assert (tmp_path / "cluster-run-graph2.html").is_file()
    told = json.loads(lrga("explain", trained, "--best", "--layers", "2", "-o", "b.html", "--json").stdout)
    assert told["page"] == "b.html"
    (layer,) = told["layers"]
    assert (layer["name"], layer["rank"], len(layer["spectrum"][0])) == ("layers.1.attention", 5, 5)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (["--graph", "4"], OptionError, "0 to 3"),
        (["--layers", "x"], OptionError, "1,4"),
        (["--layers", "3"], OptionError, "1 to 2"),
        (["--split", "all"], OptionError, "train, val, test"),
    ],
)
def test_what_is_not_there_is_refused_in_words(trained, arguments, error, message):
    with pytest.raises(error, match=re.escape(message)):
        lrga("explain", trained, *arguments)


def test_a_folder_without_a_run_is_refused(tmp_path):
    with pytest.raises(CheckpointError, match="run folder"):
        lrga("explain", tmp_path)
