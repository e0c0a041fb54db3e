"""Curves are drawn whole or not at all, and without matplotlib the missing extra is named."""

import sys

import pytest

from lrga.bench.curves import draw_curves, require_matplotlib
from lrga.bench.protocols import paper_config
from lrga.bench.records import RunRecord
from lrga.errors import DataError, MissingDependencyError


def a_record(**changes):
    values = {
        "run": "r", "status": "finished", "reason": "", "data": {}, "model": {"parameters": 7},
        "config": paper_config("ZINC").to_json(), "seed": 41, "metric": "mae", "epochs": 2, "seconds": 1.0,
        "last": None, "best": None, "environment": [], "published": None, "time": "",
        "curve": {"epoch": [1, 2], "train_metric": [0.9, 0.5], "val_metric": [0.8, 0.6]},
    }  # fmt: skip
    return RunRecord(**values | changes)


@pytest.mark.parametrize(("name", "magic"), [("a.png", b"\x89PNG"), ("a.svg", b"<?xml"), ("a.pdf", b"%PDF")])
def test_a_picture_is_written_in_the_format_of_its_name(name, magic, tmp_path):
    path = draw_curves({"GCN": a_record(), "LRGA + GCN": a_record()}, tmp_path / name, title="t", paper={"GCN": 0.4})
    assert path.read_bytes().startswith(magic)
    assert [entry.name for entry in tmp_path.iterdir()] == [name]


def test_an_svg_names_the_runs_and_the_metric(tmp_path):
    import matplotlib as mpl

    with mpl.rc_context({"svg.fonttype": "none"}):
        text = draw_curves({"LRGA + GCN": a_record()}, tmp_path / "a.svg", title="CLUSTER, small").read_text()
    assert all(word in text for word in ("LRGA + GCN (7 parameters)", "MAE", "epoch", "CLUSTER, small"))


def test_runs_that_cannot_be_drawn_together_are_refused(tmp_path):
    for records in ({}, {"a": a_record(), "b": a_record(metric="accuracy")}, {"a": a_record(curve={})}):
        with pytest.raises(DataError, match="curves of one metric"):
            draw_curves(records, tmp_path / "a.png")
    assert list(tmp_path.iterdir()) == []


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingDependencyError, match=r"lrga\[plot\]"):
        require_matplotlib()
