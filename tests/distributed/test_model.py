import pytest
import torch
from torch_geometric.nn import GIN, PNA

import lrga
from lrga.distributed import partition_graph, partition_model
from lrga.errors import UnsupportedError

MODELS = [f"{conv} {kind}" for conv in ("gcn", "gat", "gatedgcn", "graphsage", "gin") for kind in ("plain", "lrga")]


@pytest.mark.parametrize("model", MODELS)
def test_one_to_four_ranks_give_the_loss_and_gradients_of_one_process(ranks, model):
    for rank, report in enumerate(ranks):
        for world in range(rank + 1, 5):
            found = report["models"][f"{model} {world}"]
            assert found["loss"] < 1e-12, (rank, world)
            assert found["gradient"] < 1e-12, (rank, world)
            assert found["output"] < 1e-8, (rank, world)  # after a step of Adam, in evaluation


def test_fifty_steps_give_the_losses_of_one_process(ranks):
    for report in ranks[:3]:
        assert len(report["some fifty"]) == 3
        assert all(found["loss"] < 1e-8 for found in report["some fifty"].values())


@pytest.mark.slow
def test_fifty_steps_of_every_model_on_one_to_four_ranks_give_the_losses_of_one_process(launch, tmp_path):
    for rank, report in enumerate(launch.run("ranks.py", 4, tmp_path, "fifty", timeout=900)):
        assert len(report["fifty"]) == 10 * (4 - rank)
        for case, found in report["fifty"].items():
            assert found["loss"] < 1e-8, case


def test_the_original_stays_and_weights_cross_both_ways():
    part = partition_graph(torch.tensor([[0, 1, 2], [1, 2, 0]]), 3)
    whole = lrga.GNN(4, 8, 2, 2, conv="gatedgcn", rank=3)
    ours = partition_model(whole, part)
    assert type(whole.layers[0].attention) is lrga.LowRankGlobalAttention
    ours.load_state_dict(whole.state_dict())
    whole.load_state_dict(ours.state_dict())


def test_a_layer_that_cannot_be_divided_is_named():
    part = partition_graph(torch.tensor([[0, 1, 2], [1, 2, 0]]), 3)
    with pytest.raises(UnsupportedError, match=r"convs\.0: GINConv"):
        partition_model(GIN(4, 8, num_layers=2, aggr="max"), part)
    with pytest.raises(UnsupportedError, match=r"convs\.0: PNAConv"):
        partition_model(PNA(4, 8, 2, aggregators=["mean"], scalers=["identity"], deg=torch.tensor([0, 1])), part)
