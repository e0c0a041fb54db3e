"""Embeddings of few categories against torch's own."""

import pytest
import torch
import torch.nn.functional as F

from lrga.kernels import embedding as home
from lrga.kernels.embedding import embed, takes
from lrga.kernels.support import differentiates_otherwise


@pytest.fixture
def as_on_a_gpu(monkeypatch):
    """The GPU's own way, on a CPU: kernels in the interpreter, any number of rows."""
    pytest.importorskip("triton")
    monkeypatch.setattr(home, "runs_on_gpu", lambda *tensors: not differentiates_otherwise())
    monkeypatch.setattr(home, "FEWEST_ROWS", 0)


@pytest.mark.usefixtures("as_on_a_gpu")
@pytest.mark.parametrize("rows", [1, 50])
def test_values_and_both_derivatives_are_those_of_torch(rows):
    weight = torch.randn(4, 6, requires_grad=True)
    index = torch.randint(0, 3, (rows,))
    assert takes(index, weight)
    results = []
    for function in (embed, F.embedding):
        out = function(index, weight)
        (first,) = torch.autograd.grad(out.pow(3).sum(), weight, create_graph=True)
        (second,) = torch.autograd.grad(first.square().sum(), weight)
        results.append((out, first, second))
    for mine, theirs in zip(*results, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-4)


@pytest.mark.usefixtures("as_on_a_gpu")
def test_no_rows_give_no_gradient():
    weight = torch.randn(4, 6, requires_grad=True)
    embed(torch.empty(0, dtype=torch.int64), weight).sum().backward()
    assert torch.equal(weight.grad, torch.zeros(4, 6))


def test_elsewhere_it_is_torchs_own():
    weight, index = torch.randn(4, 6, requires_grad=True), torch.randint(0, 4, (5000,))
    assert not takes(index, weight)
    assert embed(index, weight).grad_fn.name() == F.embedding(index, weight).grad_fn.name()


@pytest.mark.usefixtures("as_on_a_gpu")
def test_many_categories_and_other_shapes_are_left_to_torch():
    assert not takes(torch.zeros(5000, dtype=torch.int64), torch.zeros(65, 2))
    assert not takes(torch.zeros(50, 100, dtype=torch.int64), torch.zeros(5, 2))
    assert not takes(torch.zeros(5000, dtype=torch.int32), torch.zeros(5, 2))


@pytest.mark.usefixtures("as_on_a_gpu")
def test_the_operator_passes_the_checks_of_torch():
    checks = ("test_schema", "test_faketensor", "test_autograd_registration")
    given = (torch.randn(9, 3, requires_grad=True), torch.randint(0, 2, (9,)), 2)
    torch.library.opcheck(home.category_sums, given, test_utils=checks)


@pytest.mark.gpu
def test_an_embedding_on_a_gpu():
    weight, index = (
        torch.randn(28, 65, device="cuda", requires_grad=True),
        torch.randint(0, 28, (7_731,), device="cuda"),
    )
    assert takes(index, weight)
    out = embed(index, weight)
    assert torch.equal(out, F.embedding(index, weight))
    upstream = torch.randn_like(out)
    (mine,) = torch.autograd.grad(out, weight, upstream)
    wide = weight.detach().double().requires_grad_()
    (exact,) = torch.autograd.grad(F.embedding(index, wide), wide, upstream.double())
    torch.testing.assert_close(mine.double(), exact, rtol=1e-5, atol=1e-4)
