"""The charts, as Plotly itself checks them."""

import pytest

from lrga.experiments.loading import Run, grouped_rows, rank_series
from lrga.paper.reference import THE_PAPER
from lrga.report.figures import rank_figure, result_figures

go = pytest.importorskip("plotly.graph_objects")


def cells_of(*records):
    return grouped_rows([Run(record, record.run) for record in records], THE_PAPER)


def test_results_stand_beside_the_paper_s_with_error_bars(make_record):
    cells = cells_of(*(make_record(seed=s, test=t) for s, t in ((41, 68.0), (95, 70.0))), make_record(lrga=False))
    ((name, figure),) = result_figures(cells)
    drawn = go.Figure(figure)  # refuses what Plotly does not know
    assert name == "CLUSTER"
    ours, paper = drawn.data
    places = {cell.cell.labels["model"]: place for place, cell in enumerate(cells)}
    place = places["LRGA + GCN 100K"]
    assert (ours.y[place], ours.x[place], ours.error_x.array[place]) == (place, 69.0, 2**0.5)
    assert (paper.x[place], paper.error_x.array[place]) == (68.44, 0.16)


def test_a_name_of_tags_stays_a_name(make_record):
    cells = cells_of(make_record(dataset="<b>x</b>", rank=5), make_record("o", dataset="<b>x</b>", rank=9))
    assert "<b>" not in str(result_figures(cells)[0][1])
    assert "<b>" not in str(rank_figure(rank_series(cells)))


def test_the_rank_curve_has_its_error_bars_beside_the_published_number(make_record):
    cells = cells_of(*(make_record(rank=r, seed=s, test=60.0 + r + s) for r in (5, 30) for s in (1, 2)))
    ours, paper = go.Figure(rank_figure(rank_series(cells))).data
    assert list(ours.x) == [5, 30]
    assert list(ours.error_y.array) == [0.5**0.5] * 2
    assert (list(paper.x), list(paper.y), paper.name) == ([30], [68.44], "published, κ 30")
