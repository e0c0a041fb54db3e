"""The page of one graph's attention, as a file."""

import base64
import json
import re
from dataclasses import replace

import numpy as np
import pytest

from lrga.errors import OptionError
from lrga.explain import explorer
from lrga.explain.attention import explain
from lrga.explain.explorer import explorer_page, packed, write_explorer


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


def test_a_large_graph_draws_some_of_its_edges_only(trained, monkeypatch):
    found = explain(trained)
    monkeypatch.setattr(explorer, "DRAWN_EDGES", 10)
    data = data_of(explorer_page(found))
    assert len(unpacked(data["edges"], "<i4")) == 20
    assert data["all_edges"] == len(found.edges)
    assert len(unpacked(data["neighbours"], "<i4")) == 2 * len(found.edges)


def test_more_than_a_browser_opens_is_refused(trained, monkeypatch):
    monkeypatch.setattr(explorer, "LARGEST", 100)
    with pytest.raises(OptionError, match="--layers"):
        explorer_page(explain(trained))


def test_names_stay_text(trained):
    nasty = "</script><script>alert(1)</script>"
    found = explain(trained)
    page = explorer_page(replace(found, run=nasty, dataset=nasty, graph_id=nasty, node_ids=[nasty] * found.num_nodes))
    assert "<script>alert" not in page
    assert data_of(page)["ids"][0] == nasty
