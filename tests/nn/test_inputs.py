from functools import partial

import pytest
import torch
from torch import nn
from torch_geometric.nn import GCNConv
from torch_geometric.utils import to_torch_coo_tensor, to_torch_csc_tensor, to_torch_csr_tensor

import lrga
from lrga.errors import DTypeError, ShapeError
from lrga.models.link import LinkGNN
from lrga.nn.blocks import attend_in_blocks
from lrga.nn.inputs import as_edges, edge_graph_norm, graph_norm
from lrga.nn.layers.gat import GATLayer
from lrga.nn.layers.gated_gcn import GatedGCNLayer
from lrga.nn.layers.gcn import GCNLayer
from lrga.nn.layers.gin import GINLayer
from lrga.nn.layers.lrga import LRGALayer
from lrga.nn.layers.sage import SAGELayer
from lrga.ops.attention.segments import Segments
from lrga.ops.neighbors.edges import EdgeLayout

EDGES = torch.tensor([[0, 1, 2, 3, 0], [1, 0, 3, 2, 2]])


def pairs(edge_index):
    return sorted(zip(*edge_index.tolist(), strict=True))


@pytest.mark.parametrize("convert", [to_torch_coo_tensor, to_torch_csr_tensor, to_torch_csc_tensor])
def test_sparse_adjacency_has_targets_as_rows(convert):
    adj_t = convert(EDGES.flip(0), size=4)
    assert pairs(as_edges(adj_t, torch.randn(4, 2))) == pairs(EDGES)


@pytest.mark.parametrize(
    ("edge_index", "error"),
    [
        ("edges", DTypeError),
        (torch.eye(3).to_sparse(), ShapeError),
        (torch.tensor([[0], [4]]), ShapeError),
        (EdgeLayout.from_edge_index(EDGES, 5)[0], ShapeError),
    ],
)
def test_edges_that_do_not_fit_the_nodes_are_refused(edge_index, error):
    with pytest.raises(error):
        as_edges(edge_index, torch.randn(4, 2))


@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr])
def test_sparse_features_are_refused_by_every_module(layout):
    x, edges = torch.eye(4), torch.tensor([[0, 1, 2], [1, 2, 3]])
    sparse = x.to_sparse(layout=layout)
    layers = [GATLayer(4, 4), GCNLayer(4, 4), GINLayer(4, 4), SAGELayer(4, 4), SAGELayer(4, 4, preset="2020")]
    layers += [LRGALayer(GCNLayer(4, 4), 4, 2), lrga.LRGAConv(GCNConv(4, 4), 4, 4, 2), lrga.GNN(4, 4, 2, 1, conv="gcn")]
    options = [{"batch": None} if isinstance(layer, lrga.LRGAConv) else {} for layer in layers]
    calls = [partial(layer, sparse, edges, **given) for layer, given in zip(layers, options, strict=True)]
    calls += [partial(GatedGCNLayer(4, 4), sparse, edges, x[:3]), partial(lrga.LowRankGlobalAttention(4, 2), sparse)]
    calls += [partial(attend_in_blocks, lrga.LowRankGlobalAttention(4, 2), sparse)]
    calls += [partial(lrga.low_rank_attention, sparse, x, x), partial(lrga.low_rank_attention, x, x, sparse)]
    calls += [partial(lrga.RandomFeatures(nn.Linear(6, 1), 2), sparse)]
    calls += [partial(LinkGNN(4, 4, 1, conv="gcn"), sparse, edges)]
    for call in calls:
        with pytest.raises(DTypeError, match="dense tensor.*sparse.*to_dense"):
            call()


def test_sparse_edge_features_are_refused():
    with pytest.raises(DTypeError, match=r"edge_attr\.to_dense"):
        GatedGCNLayer(4, 4)(torch.eye(4), torch.tensor([[0, 1, 2], [1, 2, 3]]), torch.eye(4)[:3].to_sparse())


def test_graph_norm_in_float16_of_more_nodes_than_it_counts():
    segments = Segments.from_batch(torch.zeros(70_000, dtype=torch.int64).index_fill_(0, torch.tensor([0]), 1), 70_000)
    h = graph_norm(torch.ones(70_000, 1, dtype=torch.float16), segments)
    torch.testing.assert_close(h[1:].float(), torch.full((69_999, 1), 69_999**-0.5), rtol=1e-3, atol=0.0)
    edges = torch.ones(2, 70_000, dtype=torch.int64)
    scale = edge_graph_norm(edges, segments, torch.float16)
    torch.testing.assert_close(scale.float(), torch.full((70_000, 1), 70_000**-0.5), rtol=1e-3, atol=0.0)
