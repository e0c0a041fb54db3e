"""Weighted cross entropy and accuracy by Triton's kernels against their definition."""

import pytest

pytest.importorskip("triton")

import torch

from lrga.errors import UnsupportedError
from lrga.kernels.classes import class_accuracy, class_loss, class_loss_gradient, takes
from lrga.tasks.losses import weighted_cross_entropy
from lrga.tasks.metrics import batch_weighted_accuracy as weighted_accuracy

# Said of the definition on a GPU while memory is poisoned; it is not what is tested.
pytestmark = pytest.mark.filterwarnings("ignore:.*does not have a deterministic implementation")

TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 1e-2, torch.float16: 2e-3}


@pytest.fixture(autouse=True)
def poisoned():
    torch.use_deterministic_algorithms(True, warn_only=True)  # fills memory that is not initialised with NaN
    yield
    torch.use_deterministic_algorithms(False)


def check(rows, classes, *, dtype=torch.float32, device="cpu", present=None, real=0.8):
    """Loss, gradient and accuracy equal those of the definition in float64."""
    scores = (3 * torch.randn(rows, classes)).to(dtype).to(device)
    labels = torch.randint(0, present or classes, (rows,)).to(device)
    counted = (torch.rand(rows) < real).to(device)
    labels = torch.where(counted, labels, 77 * classes)  # what does not count may hold anything
    mine, theirs = scores.clone().requires_grad_(), scores.double().requires_grad_()
    loss, _ = class_loss(mine, labels, counted)
    expected = weighted_cross_entropy(theirs, labels, counted)
    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss.double(), expected, rtol=1e-5, atol=1e-6)
    (got,), (wanted,) = torch.autograd.grad(3 * loss, mine), torch.autograd.grad(3 * expected, theirs)
    tolerance = TOLERANCE[dtype]
    assert got.dtype == dtype
    size = float(wanted.abs().max()) if rows else 1.0
    torch.testing.assert_close(got.double(), wanted, rtol=tolerance, atol=tolerance * size + 1e-12)
    assert (got[~counted] == 0).all()
    result = class_accuracy(scores, labels, counted)
    assert result.dtype == torch.float64
    torch.testing.assert_close(result, weighted_accuracy(scores, labels, counted), rtol=1e-12, atol=0)
    return loss, got, result


@pytest.mark.parametrize("classes", [1, 2, 3, 6, 10])
@pytest.mark.parametrize("rows", [1, 5, 40])
def test_they_equal_their_definition(rows, classes):
    check(rows, classes)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_computed_in_float32(dtype):
    check(37, 6, dtype=dtype)


def test_classes_may_be_absent_and_all_rows_of_one():
    check(30, 6, present=3)
    loss, grad, _ = check(30, 4, present=1)
    assert loss == 0
    assert (grad == 0).all()


def test_no_row_need_count():
    for rows in (0, 20):
        loss, _, accuracy = check(rows, 3, real=0.0)
        assert loss == 0
        assert accuracy == 0


def test_a_second_derivative_is_refused():
    scores = torch.randn(9, 3, requires_grad=True)
    loss, _ = class_loss(scores, torch.randint(0, 3, (9,)), torch.ones(9, dtype=torch.bool))
    (grad,) = torch.autograd.grad(loss, scores, create_graph=True)
    with pytest.raises(UnsupportedError, match="second"):
        grad.sum().backward()


def test_the_operators_pass_the_checks_of_torch():
    scores, labels, counted = torch.randn(9, 3, requires_grad=True), torch.randint(0, 3, (9,)), torch.ones(9) > 0
    checks = ("test_schema", "test_faketensor", "test_autograd_registration")
    torch.library.opcheck(class_loss, (scores, labels, counted), test_utils=checks)
    torch.library.opcheck(class_accuracy, (scores.detach(), labels, counted), test_utils=checks)
    given = (scores.detach(), labels, counted, torch.rand(3), torch.tensor(2.0))
    torch.library.opcheck(class_loss_gradient, given, test_utils=checks)


def test_a_cpu_and_shapes_that_do_not_agree_are_left_to_the_definition():
    scores, labels, counted = torch.randn(9, 3), torch.randint(0, 3, (9,)), torch.ones(9) > 0
    assert not takes(scores, labels, counted)
    assert not takes(scores, labels[1:], counted)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("classes", [1, 2, 6, 33, 256])
@pytest.mark.parametrize("rows", [1, 7_731, 200_001])
def test_they_equal_their_definition_on_a_gpu(rows, classes, dtype):
    scores = torch.zeros(rows, classes, device="cuda", dtype=dtype)
    labels = torch.zeros(rows, dtype=torch.int64, device="cuda")
    assert takes(scores, labels, labels == 0)
    check(rows, classes, dtype=dtype, device="cuda")
