import pytest
import torch
from torch import nn

from lrga.distributed.partition.norm import RankBatchNorm, convert_norms
from lrga.errors import ShapeError
from lrga.nn.norm import BatchNorm


def test_statistics_over_all_ranks_are_those_of_one_process(ranks):
    """Values, gradients and running statistics; ranks without rows, one row in all, a momentum of None."""
    for report in ranks:
        assert report["norm"]
        for case, difference in report["norm"].items():
            assert difference < 1e-11, case


@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("rows", [0, 1, 2, 9])
def test_one_rank_normalises_as_torch_does(rows, affine):
    torch.manual_seed(0)
    whole = BatchNorm(5, affine=affine).double()
    ours = RankBatchNorm.of(BatchNorm(5, affine=affine).double())
    ours.load_state_dict(whole.state_dict())
    x = torch.randn(rows, 5, dtype=torch.float64)
    a, b = x.clone().requires_grad_(), x.clone().requires_grad_()
    weights = torch.randn_like(x)
    (ours(a) * weights).sum().backward()
    if rows:
        (whole(b) * weights).sum().backward()
        assert torch.allclose(a.grad, b.grad, atol=1e-12)
        assert all(torch.allclose(p, q) for p, q in zip(ours.buffers(), whole.buffers(), strict=True))
    else:
        assert a.grad.shape == (0, 5)


def test_without_running_statistics_evaluation_uses_those_of_the_batch():
    ours = RankBatchNorm(3, track_running_stats=False).eval()
    x = torch.randn(7, 3)
    assert torch.allclose(ours(x), nn.BatchNorm1d(3, track_running_stats=False)(x), atol=1e-5)


def test_half_precision_is_summed_in_float32():
    x = (torch.randn(4000, 2) + 50).bfloat16()
    out = RankBatchNorm(2)(x)
    assert out.dtype == torch.bfloat16
    assert out.float().mean(0).abs().max() < 0.02


def test_every_norm_of_a_model_is_converted_and_the_state_dict_stays():
    model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Sequential(BatchNorm(3)))
    names, weight = list(model.state_dict()), model[1].weight
    convert_norms(model)
    assert isinstance(model[1], RankBatchNorm)
    assert isinstance(model[2][0], RankBatchNorm)
    assert model[1].weight is weight
    assert list(model.state_dict()) == names


def test_other_widths_are_refused():
    with pytest.raises(ShapeError, match=r"rows \[R, 3\]"):
        RankBatchNorm(3)(torch.zeros(2, 4))
