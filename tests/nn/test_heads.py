import pytest
import torch

from lrga.errors import OptionError
from lrga.nn.heads import Head, LayerwiseHead, readout
from lrga.ops.attention.segments import Segments
from lrga.ops.neighbors.edges import EdgeLayout

N, D = 5, 8
EDGES = torch.tensor([[0, 1, 4, 2], [1, 2, 3, 0]])
BATCH = torch.tensor([0, 2, 0, 2, 2])


@pytest.mark.parametrize("how", ["mean", "sum"])
def test_readout_is_over_the_nodes_of_each_graph_and_zero_for_an_empty_one(how):
    h = torch.randn(N, D)
    out = readout(h, Segments.from_batch(BATCH, N, 4), how)
    for graph in range(4):
        rows = h[graph == BATCH]
        expected = torch.zeros(D) if not len(rows) else rows.mean(0) if how == "mean" else rows.sum(0)
        torch.testing.assert_close(out[graph], expected)
    torch.testing.assert_close(readout(h, Segments.from_batch(None, N), how)[0], getattr(h, how)(0))


@pytest.mark.parametrize("form", ["plain", "layout"])
def test_edge_head_reads_source_and_target(form):
    edges = EDGES if form == "plain" else EdgeLayout.from_edge_index(EDGES, N)[0]
    source, target = edges if form == "plain" else (edges.source, edges.target)
    head, h = Head(D, 2, task="edge").double(), torch.randn(N, D, dtype=torch.float64)
    out = head([h], edges, Segments.from_batch(None, N))
    expected = torch.cat([h[source], h[target]], dim=1)
    for i, lin in enumerate(head.mlp.lins):
        expected = lin(expected.relu() if i else expected)
    torch.testing.assert_close(out, expected, rtol=1e-12, atol=1e-12)


def test_a_head_has_any_number_of_linear_maps():
    widths = {
        layers: [lin.in_features for lin in Head(8, 2, task="node", layers=layers).mlp.lins] for layers in (1, 3, 5)
    }
    assert widths == {1: [8], 3: [8, 4, 2], 5: [8, 4, 2, 1, 1]}
    h, head = torch.randn(N, D), Head(D, 2, task="node", layers=1)
    assert torch.equal(head([h], EDGES, Segments.from_batch(None, N)), head.mlp.lins[0](h))


@pytest.mark.parametrize("task", ["node", "graph", "edge"])
def test_layerwise_head_adds_a_prediction_from_every_layer(task):
    head = LayerwiseHead(D, 3, 2, task=task).double()
    hidden = [torch.randn(N, D, dtype=torch.float64) for _ in range(3)]
    segments = Segments.from_batch(BATCH, N, 3)
    out = head(hidden, EDGES, segments)
    expected = 0
    for mlp, h in zip(head.mlps, hidden, strict=True):
        if task == "edge":
            first, second = mlp.lins
            expected = expected + second(first(torch.cat([h[EDGES[0]], h[EDGES[1]]], dim=1)).relu())
        else:
            pooled = torch.stack([h[graph == BATCH].sum(0) for graph in range(3)]) if task == "graph" else h
            expected = expected + mlp.lins[0](pooled)
    torch.testing.assert_close(out, expected, rtol=1e-12, atol=1e-12)


def test_unknown_tasks_and_readouts_are_refused():
    with pytest.raises(OptionError, match="'node', 'graph', 'edge'"):
        Head(D, 2, task="link")
    with pytest.raises(OptionError, match="'mean', 'sum', 'max'"):
        LayerwiseHead(D, 2, 2, task="graph", readout="median")


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("graphs", [1, 2])
def test_the_mean_of_many_rows_does_not_overflow(dtype, graphs):
    batch = None if graphs == 1 else torch.arange(2000) // 1000
    mean = readout(torch.full((2000, 3), 100.0, dtype=dtype), Segments.from_batch(batch, 2000))
    assert torch.equal(mean, torch.full((graphs, 3), 100.0, dtype=dtype))
