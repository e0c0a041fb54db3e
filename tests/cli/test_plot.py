"""``lrga plot`` as a user types it."""

from pathlib import Path

import pytest

from lrga.errors import OptionError
from tests.helpers.commands import lrga

pytestmark = pytest.mark.usefixtures("one_thread")
RESULTS = Path(__file__).resolve().parents[2] / "reproduction" / "results"


@pytest.mark.parametrize(
    ("kind", "source", "options"),
    [
        ("curves", "rank", ["--show", "loss", "--splits", "train,test", "--log-x", "--log-y", "--width", "4"]),
        ("rank", "rank", ["--title", "Ours"]),
    ],
)
def test_a_figure_of_records_is_written_and_named(tmp_path, kind, source, options):
    result = lrga("plot", kind, RESULTS / source, "-o", tmp_path / "a.pdf", *options)
    assert result.stdout.strip() == str(tmp_path / "a.pdf")
    assert (tmp_path / "a.pdf").read_bytes().startswith(b"%PDF")


def test_ranks_and_attention_are_drawn_of_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shape = ["--sizes", "8,4,4", "--hidden", "8", "--layers", "1", "--epochs", "1", "--batch-size", "4", "--device",
             "cpu", "--data-root", "data", "--quiet"]  # fmt: skip
    for rank in ("2", "4"):
        lrga("train", "CLUSTER", *shape, "--rank", rank, "--run-name", f"rank{rank}")
    lrga("plot", "rank", "runs")
    assert (tmp_path / "rank.png").read_bytes().startswith(b"\x89PNG")
    lrga("plot", "attention", "runs/rank4", "--graph", "1", "--order", "degree", "--log", "-o", "a.svg")
    assert "singular value" in (tmp_path / "a.svg").read_text()


def test_another_ending_is_refused(tmp_path):
    with pytest.raises(OptionError, match=".png, .svg or .pdf"):
        lrga("plot", "rank", RESULTS / "rank", "-o", tmp_path / "a.gif")
