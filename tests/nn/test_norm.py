import pytest
import torch

from lrga.errors import OptionError
from lrga.nn.norm import BatchNorm, normalize


def test_equals_torch_in_training_and_evaluation_on_the_real_rows():
    ours, torchs = BatchNorm(3), torch.nn.BatchNorm1d(3)
    x = torch.randn(5, 3)
    torch.testing.assert_close(ours(x), torchs(x))
    torch.testing.assert_close(ours.running_var, torchs.running_var)
    torch.testing.assert_close(ours.eval()(x), torchs.eval()(x))
    torchs.load_state_dict(ours.state_dict())
    ours, alone = BatchNorm(3), BatchNorm(3)
    x = torch.randn(8, 3)
    out = ours(x, torch.tensor(5))
    torch.testing.assert_close(out[:5], alone(x[:5]))
    torch.testing.assert_close(ours.running_var, alone.running_var)
    assert ours.num_batches_tracked == alone.num_batches_tracked == 1


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


@pytest.mark.parametrize(("before", "after"), [(None, None), ("relu", None), (None, "relu"), (None, "elu")])
@pytest.mark.parametrize("kind", ["ours", "torch's", "hooked", "none"])
def test_activation_and_residual_stand_in_the_same_place_whatever_the_norm(before, after, kind):
    norm = {"ours": BatchNorm(3), "torch's": torch.nn.BatchNorm1d(3), "hooked": BatchNorm(3), "none": None}[kind]
    seen = []
    if kind == "hooked":
        norm.register_forward_hook(lambda module, args, out: seen.append(out))
    x, residual = torch.randn(6, 3), torch.randn(6, 3)
    out = normalize(norm, x, before=before, after=after, residual=residual)
    h = torch.relu(x) if before == "relu" else x
    h = h if norm is None else torch.nn.functional.batch_norm(h, None, None, training=True)
    activated = {None: h, "relu": torch.relu(h), "elu": torch.nn.functional.elu(h)}[after]
    torch.testing.assert_close(out, residual + activated)
    if kind == "hooked":
        torch.testing.assert_close(seen[0], h)


@pytest.mark.parametrize("norm", [BatchNorm(3), torch.nn.BatchNorm1d(3), None])
def test_an_unknown_activation_is_refused_whatever_the_norm(norm):
    with pytest.raises(OptionError, match="after to be one of None, 'relu', 'elu'"):
        normalize(norm, torch.randn(4, 3), after="after")


def test_training_compiles_without_breaks():
    norms = [BatchNorm(3), BatchNorm(3)]
    x = torch.randn(9, 3)
    results = []
    for norm, run in zip(
        norms, (normalize, torch.compile(normalize, fullgraph=True, backend="aot_eager")), strict=True
    ):
        results.append((run(norm, x, after="relu", residual=x), norm.running_mean, norm.running_var))
    torch.testing.assert_close(results[0], results[1])
