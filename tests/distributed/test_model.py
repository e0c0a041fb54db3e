import pytest
import torch
from torch import nn
from torch_geometric.nn import GAT, GCN, GIN, MLP, PNA, GCNConv, GPSConv, GraphSAGE, Sequential
from torch_geometric.nn.aggr import SumAggregation

import lrga
from lrga.distributed import partition_model
from lrga.errors import UnsupportedError
from lrga.models.link import LinkGNN
from lrga.nn import (
    GatedGCNLayer,
    GATLayer,
    GCNLayer,
    GINLayer,
    GPSAttention,
    Head,
    LayerwiseHead,
    NodeEmbedding,
    SAGELayer,
)

CONVOLUTIONS = ("gcn", "gat", "gatedgcn", "graphsage", "gin")


@pytest.mark.parametrize("conv", CONVOLUTIONS)
def test_several_ranks_give_the_loss_and_gradients_of_one_process(ranks, conv):
    """Two ranks, three with LRGA; edge and graph tasks, the preset 2020, METIS, more ranks than nodes, no edges."""
    for rank, report in enumerate(ranks):
        for kind in ("plain", "lrga") if rank < 2 else ("lrga",):
            found = report["models"][f"{conv} {kind}"]
            assert found["loss"] < 1e-12, rank
            assert found["gradient"] < 1e-12, rank
            assert found["output"] < 1e-8, rank  # after a step of Adam, in evaluation
        variants = {case: values for case, values in report["variants"].items() if case.split()[0] == conv}
        assert len(variants) >= 5
        for case, values in variants.items():
            bound = 1e-5 if "float32" in case else 1e-8
            assert values["loss"] < bound, (rank, case)
            assert values["gradient"] < bound, (rank, case)


def test_ten_steps_and_an_augmented_model_of_pyg_give_what_one_process_does(ranks):
    for report in ranks:
        assert all(found["loss"] < 1e-8 for found in report["ten steps"].values())
    for report in ranks:
        assert report["augmented"] < 1e-12


def test_the_original_stays_and_weights_cross_both_ways(ring):
    whole = lrga.GNN(4, 8, 2, 2, conv="gatedgcn", rank=3)
    ours = partition_model(whole, ring)
    assert type(whole.layers[0].attention) is lrga.LowRankGlobalAttention
    ours.load_state_dict(whole.state_dict())
    whole.load_state_dict(ours.state_dict())


class OwnAttention(lrga.LowRankGlobalAttention):
    def forward(self, x, batch=None, num_graphs=None):
        return 2 * super().forward(x, batch, num_graphs)


class OwnNorm(nn.BatchNorm1d):
    pass


class OwnEmbedding(NodeEmbedding):
    pass


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: GIN(4, 8, num_layers=2, aggr="max"), r"convs\.0: GINConv"),
        (
            lambda: PNA(4, 8, 2, aggregators=["mean"], scalers=["identity"], deg=torch.tensor([0, 1])),
            r"convs\.0: PNAConv",
        ),
        (lambda: lrga.GNN(5, 8, 2, 1, encoding="rwse:3"), "without positional encodings"),
        (lambda: GCN(4, 8, 2, norm="graph_norm"), r"norms\.0: GraphNorm"),
        (lambda: GCN(4, 8, 2, norm="layer_norm"), r"norms\.0: LayerNorm"),
        (lambda: MLP([4, 8, 8], norm="pair_norm"), "PairNorm"),
        (lambda: Sequential("x, e", [(GCNConv(4, 8), "x, e -> x"), (SumAggregation(), "x -> x")]), "SumAggregation"),
        (lambda: GPSConv(4, GCNConv(4, 4)), "the model: GPSConv"),
        (lambda: lrga.GNN(4, 8, 2, 2, random_features=True, resample_features=False), "the model: GNN"),
        (lambda: lrga.RandomFeatures(lrga.GNN(6, 8, 2, 2), 2, resample=False), "the model: RandomFeatures"),
        *(
            (lambda kind=kind, sizes=sizes: nn.Sequential(kind(*sizes)), "0: Own.*own code would not run")
            for kind, sizes in ((OwnAttention, (4, 2)), (OwnNorm, (4,)), (OwnEmbedding, (3, 4)))
        ),
    ],
)
def test_what_would_take_the_nodes_of_one_rank_for_the_whole_graph_is_named(make, named, ring):
    with pytest.raises(UnsupportedError, match=named):
        partition_model(make(), ring)


def test_models_of_pyg_and_ours_are_divided_augmented_or_not(ring):
    layer = GPSConv(4, GCNConv(4, 4))
    layer.attn = GPSAttention(4, rank=2)
    edge_index, x = torch.tensor([[0, 1, 2], [1, 2, 0]]), torch.randn(3, 4)
    for model in (
        layer,
        GraphSAGE(4, 8, 2),
        GAT(4, 8, 2),
        GCN(4, 8, 2, 3, norm="batch_norm"),
        lrga.augment(GCN(4, 8, 2, 3), 2, single_graph=True, init="paper"),
        lrga.GNN(4, 8, 3, 2, resample_features=False),
        lrga.RandomFeatures(lrga.GNN(6, 8, 2, 2), 2).eval(),
        lrga.GNN(4, 8, 2, 2, conv="gine", rank=3, block="residual"),
    ):
        divided = partition_model(model, ring)
        torch.manual_seed(0)
        expected = model(x, edge_index)
        torch.manual_seed(0)
        assert torch.allclose(divided(x, ring.edges), expected, atol=1e-6)


@pytest.mark.parametrize("kind", [GCNLayer, Head, LayerwiseHead])
def test_a_subclass_of_a_layer_or_head_is_refused(kind, ring):
    """It would take the nodes of one rank for the whole graph."""
    model = lrga.GNN(4, 8, 2, 2, conv="gin" if kind is LayerwiseHead else "gcn", task="graph")
    found = next(module for module in model.modules() if type(module) is kind)
    found.__class__ = type("Own", (kind,), {})
    with pytest.raises(UnsupportedError, match="Own"):
        partition_model(model, ring)


@pytest.mark.parametrize(
    "make",
    [
        *(lambda kind=kind: kind(4, 4) for kind in (GCNLayer, GATLayer, GatedGCNLayer, GINLayer, SAGELayer)),
        lambda: lrga.GNN(4, 8, 2, 2),
        lambda: LinkGNN(4, 8, 2, conv="gcn"),
        lambda: LinkGNN(4, 8, 2, conv="graphsage", rank=2),
        lambda: lrga.LRGAConv(GCNConv(4, 4), 4, 4, rank=2, single_graph=True),
        lambda: lrga.augment(GCN(4, 8, 2), rank=2, single_graph=True),
    ],
)
def test_a_layer_that_is_not_partitioned_refuses_the_edges_of_a_part(make, ring):
    with pytest.raises(UnsupportedError, match="partition_model"):
        make()(torch.randn(3, 4), ring.edges)
