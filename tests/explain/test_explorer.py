"""The page of one graph's attention, and its figure, as files."""

import base64
import json
import re
from dataclasses import replace

import numpy as np
import pytest

from lrga.errors import OptionError
from lrga.explain import explorer
from lrga.explain.attention import LayerFactors, explain
from lrga.explain.attention_picture import BLOCKS, ORDERS, WHOLE, order_of, plot_attention, shown_matrix
from lrga.explain.explorer import explorer_page, packed, write_explorer


@pytest.fixture(scope="module")
def found(trained):
    return explain(trained)


def data_of(page):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page)[1])


def unpacked(text, kind="<f4"):
    return np.frombuffer(base64.b64decode(text), dtype=kind)


def test_the_page_holds_the_factors_to_the_bit(trained, tmp_path):
    found = write_explorer(trained, tmp_path / "page.html", graph=1)
    data = data_of((tmp_path / "page.html").read_text())
    assert [layer["name"] for layer in data["layers"]] == ["layers.0.attention", "layers.1.attention"]
    for layer, written in zip(found.layers, data["layers"], strict=True):
        for head in range(2):
            for name in ("u", "v"):
                values = unpacked(written["heads"][head][name]).reshape(-1, 5)
                assert (values == getattr(layer, name)[:, head]).all()
    assert unpacked(data["labels"], "<i4").tolist() == found.labels.tolist()
    right = int((found.labels == found.predictions).sum())
    assert f"{right:,} of {found.num_nodes:,}" in (tmp_path / "page.html").read_text()


def test_numbers_are_little_endian_of_four_bytes():
    assert unpacked(packed(np.array([1.5, -2.0], dtype=">f8"))).tolist() == [1.5, -2.0]
    assert unpacked(packed(np.array([7], dtype=np.int64)), "<i4").tolist() == [7]


def test_a_large_graph_draws_some_of_its_edges_only(found, monkeypatch):
    monkeypatch.setattr(explorer, "DRAWN_EDGES", 10)
    data = data_of(explorer_page(found))
    assert len(unpacked(data["edges"], "<i4")) == 20
    assert data["all_edges"] == len(found.edges)
    assert len(unpacked(data["neighbours"], "<i4")) == 2 * len(found.edges)


def test_more_than_a_browser_opens_is_refused(found, monkeypatch):
    monkeypatch.setattr(explorer, "MAX_BYTES", 100)
    with pytest.raises(OptionError, match="--layers"):
        explorer_page(found)


def test_names_stay_text(found):
    nasty = "</script><script>alert(1)</script>"
    page = explorer_page(replace(found, run=nasty, dataset=nasty, graph_id=nasty, node_ids=[nasty] * found.num_nodes))
    assert "<script>alert" not in page
    assert data_of(page)["ids"][0] == nasty


def test_the_matrix_is_drawn_in_each_order(found, tmp_path):
    for order in ORDERS:
        assert sorted(order_of(found, order)) == list(range(found.num_nodes))
    path = plot_attention(found, tmp_path / "a.pdf", order="degree", layer=1, head=2, log=True)
    assert path.read_bytes().startswith(b"%PDF")


def test_a_small_matrix_is_whole_and_a_large_one_is_means_over_blocks():
    rng = np.random.default_rng(0)
    for nodes in (WHOLE, WHOLE + 337):
        u, v = rng.random((2, nodes, 2, 3)).astype(np.float32)
        layer, order = LayerFactors("l", u, v), rng.permutation(nodes)
        whole = layer.matrix(1)[np.ix_(order, order)]
        if nodes > WHOLE:
            cuts = [order.size * b // BLOCKS for b in range(BLOCKS + 1)]
            block = whole[cuts[7] : cuts[8], cuts[400] : cuts[401]]
            shown = shown_matrix(layer, 1, order)
            assert shown.shape == (BLOCKS, BLOCKS)
            assert np.isclose(shown[7, 400], block.mean())
        else:
            np.testing.assert_allclose(shown_matrix(layer, 1, order), whole)


@pytest.mark.parametrize("options", [{"layer": 0}, {"layer": 3}, {"head": 3}, {"order": "colour"}])
def test_a_choice_that_is_not_there_is_refused(found, tmp_path, options):
    with pytest.raises(OptionError, match="choose one of these"):
        plot_attention(found, tmp_path / "a.png", **options)
