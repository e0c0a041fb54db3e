import pytest
import torch

import lrga
from lrga.distributed import partition_model
from lrga.distributed.partition.step import global_mean, training_step
from lrga.errors import ShapeError


def test_the_attentions_traffic_does_not_depend_on_the_number_of_nodes(ranks):
    for report in ranks:
        small, large = report["traffic"]["24"], report["traffic"]["240"]
        assert small["payload"]["attention"] == large["payload"]["attention"] == 2 * 2 * (3 * 3 + 2 * 3) * 8
        assert small["payload"]["norm"] == large["payload"]["norm"]
        assert small["payload"]["halo"] < large["payload"]["halo"]
        assert "attention 640 B in 4 calls" in large["text"]


def test_only_rows_of_the_mask_count_and_a_mean_over_none_is_zero(ring):
    torch.manual_seed(0)
    model = partition_model(lrga.GNN(4, 8, 2, 1, rank=3, batch_norm=False), ring)
    x, y, mask = torch.randn(3, 4), torch.tensor([0, 1, 1]), torch.tensor([True, False, True])
    expected = torch.nn.functional.cross_entropy(model(x, ring.edges)[mask], y[mask])
    loss = training_step(model, ring, x, y, torch.optim.SGD(model.parameters(), lr=0.1), mask=mask)
    assert torch.allclose(loss, expected)
    assert training_step(model, ring, x, y, torch.optim.SGD(model.parameters(), lr=0.1), mask=mask) < loss
    assert global_mean(torch.zeros(0)) == 0.0
    assert global_mean(torch.ones(2), rows=4) == 0.5


def test_a_loss_that_is_a_mean_already_and_rows_of_other_nodes_are_refused(ring):
    """A mean over the means of the ranks would not be the mean over all nodes."""
    model = partition_model(lrga.GNN(4, 8, 2, 1), ring)
    x, y, sgd = torch.randn(3, 4), torch.tensor([0, 1, 1]), torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(ShapeError, match=r"a loss for each of 3 rows.*reduction='none'"):
        training_step(model, ring, x, y, sgd, loss=torch.nn.functional.cross_entropy)
    with pytest.raises(ShapeError, match=r"targets with one row.*part\.take_nodes\(targets\)"):
        training_step(model, ring, x, torch.zeros(9, dtype=torch.int64), sgd)
    with pytest.raises(ShapeError, match="mask with one row"):
        training_step(model, ring, x, y, sgd, mask=torch.ones(9, dtype=torch.bool))
    assert training_step(model, ring, x, y, sgd, mask=torch.tensor([2])) > 0
