"""Attention where links are predicted."""

import json
import re

import numpy as np
import pytest
import torch

import lrga
from lrga.errors import OptionError, UnsupportedError
from lrga.explain import attention
from lrga.explain.attention import explain
from lrga.explain.explorer import explorer_page
from lrga.training import train
from lrga.training.presets import make_config


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A run with LRGA and one without, on a list of edges between named nodes."""
    root = tmp_path_factory.mktemp("links")
    generator = torch.Generator().manual_seed(0)
    pairs = {tuple(sorted(pair)) for pair in torch.randint(0, 40, (160, 2), generator=generator).tolist()}
    lines = [f"n{a},n{b}" for a, b in sorted(pairs) if a != b]
    (root / "edges.csv").write_text("source,target\n" + "\n".join(lines) + "\n")
    for name, with_lrga in (("lrga", True), ("plain", False)):
        rank = {"rank": 3} if with_lrga else {}
        config = make_config(str(root / "edges.csv"), data_options={"task": "link"}, lrga=with_lrga, hidden=8,
                             max_epochs=1, device="cpu", **rank)  # fmt: skip
        train(config, root / name)
    return root


def test_factors_pairs_and_predictions_are_those_of_the_network(runs):
    found = explain(runs / "lrga")
    assert [layer.u.shape for layer in found.layers] == [(found.num_nodes, 1, 3)] * 2
    assert found.node_ids[0].startswith("n")
    assert len(found.pairs) == len(found.labels) == len(found.predictions)
    assert set(found.labels.tolist()) == {0, 1}
    judged, known = ({tuple(sorted(pair)) for pair in part.tolist()} for part in (found.pairs, found.edges))
    assert not judged & known
    model, _ = lrga.training.load_run(runs / "lrga")
    with torch.no_grad():
        u, v = model.gnn.attentions[0].factors(model.embedding.weight)
    np.testing.assert_allclose(found.layers[0].matrix(), (u @ v.T).numpy(), atol=1e-6)


def test_the_page_has_the_graph_behind_its_pairs(runs):
    found = explain(runs / "lrga", layers=[1])
    page = explorer_page(found)
    data = json.loads(re.search(r'id="data">(.*?)</script>', page)[1])
    assert data["classes"] == ["no link", "link"]
    assert data["background"] is not None
    assert "pairs predicted rightly" in page


def test_what_is_not_there_is_refused_in_words(runs, monkeypatch):
    with pytest.raises(OptionError, match="only one"):
        explain(runs / "lrga", graph=1)
    with pytest.raises(OptionError, match="train, val, test"):
        explain(runs / "lrga", split="all")
    with pytest.raises(UnsupportedError, match="plain network"):
        explain(runs / "plain")
    monkeypatch.setattr(attention, "MOST_NODES", 3)
    with pytest.raises(UnsupportedError, match="at most 3 nodes"):
        explain(runs / "lrga")
