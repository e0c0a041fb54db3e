import pytest

from lrga.errors import OptionError
from lrga.paper.counts import RANDOM_FEATURES, sizes
from lrga.paper.printed import published


@pytest.fixture(scope="module")
def cells():
    return sizes()


def test_every_cell_is_listed_with_fields_without_meaning_empty(cells):
    assert len(cells) == len(published()) == 94
    assert len({(c.dataset, c.model, c.budget, c.lrga) for c in cells}) == 94
    plain = next(c for c in cells if c.model == "GCN" and not c.lrga)
    assert plain.rank is None
    embedding = next(c for c in cells if c.model == "MF")
    assert (embedding.hidden, embedding.layers, embedding.rank, embedding.budget) == (256, None, None, None)


def units(printed):
    return float(printed[:-1]) * {"K": 1e3, "M": 1e6}[printed[-1]]


def test_printed_counts_are_the_exact_ones_cut_or_rounded_but_for_known_misprints(cells):
    notes = {(c.dataset, c.model, c.budget, c.lrga): c.note for c in published() if c.table < 3}
    for cell in cells:
        if cell.printed is None:
            continue
        digits = len(cell.printed.split(".")[1]) - 1 if "." in cell.printed else 0
        unit = {"K": 1e3, "M": 1e6}[cell.printed[-1]] / 10**digits
        cut, rounded = int(cell.parameters / unit), round(cell.parameters / unit)
        agrees = round(units(cell.printed) / unit) in (cut, rounded)
        assert agrees == (not notes[cell.dataset, cell.model, cell.budget, cell.lrga]), cell


def test_table_3_prints_no_counts_and_has_its_own_data_set(cells):
    random = [c for c in cells if c.printed is None]
    assert len(random) == 10
    assert {c.dataset for c in random} == {RANDOM_FEATURES}
    gcn = next(c for c in random if c.model == "GCN" and c.lrga)
    assert (gcn.hidden, gcn.layers, gcn.rank, gcn.parameters) == (100, 8, 30, 396_137)
    for cell in random:
        assert cell.parameters == pytest.approx(500_000, rel=0.21)


def test_filters_select(cells):
    assert {c.dataset for c in sizes(dataset="pattern")} == {"PATTERN", RANDOM_FEATURES}
    assert [c.parameters for c in sizes(dataset="ogbl-collab", model="gcn", lrga=True)] == [1_069_489]
    assert [c.parameters for c in sizes(dataset="DDI", model="node2vec")] == [645_249]
    assert len(sizes(budget="500k", model="gated_gcn", lrga=False)) == 6
    assert {c.model for c in sizes(model="sage")} == {"GraphSAGE"}
    with pytest.raises(OptionError, match="PATTERN, CLUSTER"):
        sizes(dataset="cora")
