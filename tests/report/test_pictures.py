"""Figures as files."""

import sys
from itertools import product
from xml.etree import ElementTree

import pytest
from PIL import Image

from lrga.errors import DataError, LRGAError, MissingDependencyError, OptionError
from lrga.explain.style import save_figure
from lrga.report.pictures import plot_curves, plot_rank
from lrga.report.sources import gather

STARTS = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}


@pytest.fixture
def found(make_record, write_records):
    records = [make_record(rank=r, seed=s, test=60.0 + r / 10 + s) for r in (5, 30) for s in (1, 2)]
    records.append(make_record("odd $name$ <b> κ", dataset="my $data$ _x_", seed=3))
    return gather([write_records(*records)])


@pytest.mark.parametrize(("plot", "kind"), [(plot_curves, "png"), (plot_rank, "svg"), (plot_curves, "pdf")])
def test_each_is_drawn_in_each_format(found, tmp_path, plot, kind):
    path = plot(found, tmp_path / f"a.{kind}", title="with $ and <b>")
    assert path.read_bytes().startswith(STARTS[kind])
    assert (tmp_path / f"a.{kind}").stat().st_size > 3000


def test_text_in_an_svg_is_text_and_a_hostile_title_sound_xml(found, tmp_path):
    text = plot_rank(found, tmp_path / "a.svg").read_text()
    for word in ("rank κ", "published, κ 30", "CLUSTER", "LRGA + GCN"):
        assert word in text
    picture = plot_curves(found, tmp_path / "a.svg", title="<b>\x01 & \x1b[31m $x$")
    assert "&lt;b&gt;" in ElementTree.tostring(ElementTree.parse(picture).getroot(), encoding="unicode")


def test_equal_runs_give_equal_files(found, tmp_path):
    for kind in ("svg", "pdf"):
        first, second = (plot_rank(found, tmp_path / f"{n}.{kind}").read_bytes() for n in "ab")
        assert first == second


def test_a_picture_is_as_wide_as_was_asked(found, tmp_path):
    with Image.open(plot_curves(found, tmp_path / "a.png", width=3.0, quantity="loss", splits=("test",))) as image:
        assert image.width == 900


def test_what_cannot_be_drawn_is_refused_in_words(found, make_record, write_records, tmp_path):
    for wrong, options in (("a.bmp", {}), ("a", {}), ("a.png", {"width": 0.0})):
        with pytest.raises(OptionError):
            plot_rank(found, tmp_path / wrong, **options)
    with pytest.raises(OptionError, match="metric, loss"):
        plot_curves(found, tmp_path / "a.png", quantity="speed")
    with pytest.raises(OptionError, match="train, val, test"):
        plot_curves(found, tmp_path / "a.png", splits=("all",))
    one = gather([write_records(make_record(epochs=0, status="failed", metric_free=True), folder="one")])
    for plot, word in ((plot_rank, "rank"), (plot_curves, "curves")):
        with pytest.raises(DataError, match=word):
            plot(one, tmp_path / "a.png")
    (tmp_path / "file").write_text("")
    with pytest.raises(LRGAError, match="-o figure.pdf"):
        plot_rank(found, tmp_path / "file" / "a.png")


def test_a_missing_package_is_named_with_its_extra(found, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingDependencyError, match=r"lrga\[plot\]"):
        plot_rank(found, tmp_path / "a.png")


def test_a_png_too_tall_to_be_drawn_is_refused_with_a_remedy(tmp_path):
    with pytest.raises(OptionError, match=r"write tall\.pdf"):
        save_figure(tmp_path / "tall.png", lambda figure: None, width=6.4, height=250.0)
    assert save_figure(tmp_path / "tall.pdf", lambda figure: None, width=6.4, height=250.0).stat().st_size > 0


def test_a_legend_of_very_many_series_leaves_room_for_them(make_record, write_records, tmp_path):
    records = [make_record(f"r{rank}", rank=rank) for rank in range(1, 16)]
    text = plot_curves(gather([write_records(*records)]), tmp_path / "many.svg").read_text(encoding="utf-8")
    assert "the first 12 of 15" in text  # a warning of axes without room would be an error here


def test_networks_of_two_budgets_share_a_panel_only_while_colours_last(make_record, write_records, tmp_path):
    def titles(models):
        made = {"model": models, "budget": ("100K", "500K"), "lrga": (False, True)}
        records = [make_record(f"{one}", **dict(zip(made, one, strict=True))) for one in product(*made.values())]
        folder = write_records(*records, folder=f"{len(records)} runs")
        text = plot_curves(gather([folder]), tmp_path / "a.svg").read_text(encoding="utf-8")
        return [name for name in ("CLUSTER", "CLUSTER, 100K", "CLUSTER, 500K") if f">{name}<" in text]

    assert titles(["gcn", "gat"]) == ["CLUSTER"]  # eight networks, eight colours
    assert titles(["gcn", "gat", "gatedgcn"]) == ["CLUSTER, 100K", "CLUSTER, 500K"]
