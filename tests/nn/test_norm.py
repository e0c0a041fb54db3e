import torch

from lrga.nn.norm import BatchNorm


def test_equals_torch_in_training_and_evaluation():
    ours, torchs = BatchNorm(3), torch.nn.BatchNorm1d(3)
    x = torch.randn(5, 3)
    torch.testing.assert_close(ours(x), torchs(x))
    torch.testing.assert_close(ours.running_var, torchs.running_var)
    torch.testing.assert_close(ours.eval()(x), torchs.eval()(x))
    torchs.load_state_dict(ours.state_dict())


def test_one_row_or_none_in_training_is_normalised_by_the_running_statistics():
    norm = BatchNorm(3).train()
    norm(torch.randn(50, 3))
    before = norm.running_mean.clone()
    for rows in (0, 1):
        x = torch.randn(rows, 3, requires_grad=True)
        out = norm(x)
        expected = (x - norm.running_mean) / (norm.running_var + norm.eps).sqrt()
        torch.testing.assert_close(out, expected)
        out.sum().backward()
        assert x.grad.isfinite().all()
    assert torch.equal(norm.running_mean, before)
