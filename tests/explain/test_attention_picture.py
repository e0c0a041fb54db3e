"""The attention of a graph as a figure."""

import numpy as np
import pytest

from lrga.errors import OptionError
from lrga.explain.attention import LayerFactors, explain
from lrga.explain.attention_picture import BLOCKS, WHOLE, order_of, plot_attention, shown_matrix


@pytest.mark.parametrize("order", ["community", "degree", "prediction", "label", "number"])
def test_the_matrix_is_drawn_in_each_order(trained, tmp_path, order):
    found = explain(trained)
    assert sorted(order_of(found, order)) == list(range(found.num_nodes))
    path = plot_attention(found, tmp_path / "a.pdf", order=order, layer=1, head=2, log=order == "degree")
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
def test_a_choice_that_is_not_there_is_refused(trained, tmp_path, options):
    with pytest.raises(OptionError, match="choose one of these"):
        plot_attention(explain(trained), tmp_path / "a.png", **options)
