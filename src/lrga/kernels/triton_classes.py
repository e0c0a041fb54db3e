"""The Triton kernels of a weighted cross entropy and a weighted accuracy. Their definition is in :mod:`lrga.tasks`.

Both follow from sums over the rows of each class, so one pass over the scores gives them: programs sum their rows, and
one program puts the parts together. Nothing is added atomically: results do not vary between runs.

Letters: M rows, C classes, P parts.
"""

# mypy: disable-error-code="no-untyped-def"

import torch
import triton
import triton.language as tl
from torch import Tensor

from lrga.kernels.support import launch

IGNORED = -100  # a label of no class, as everywhere in PyTorch
FIELDS = 4  # sums kept for each class: rows, negative log-likelihoods, hits, predictions
NUMBERS = 512  # of a tile
LARGEST_PARTS = 256
LARGEST_SUM = 8192  # numbers that the last program holds of each field


@triton.jit
def _tile(scores, labels, counted, row, end, CLASSES: tl.constexpr, BC: tl.constexpr):
    """Scores in float32 (-∞ outside), the class of each row that counts (else -1), which count, which have none."""
    column = tl.arange(0, BC)
    inside = row < end
    is_score = inside[:, None] & (column < CLASSES)[None, :]
    value = tl.load(scores + row[:, None] * CLASSES + column[None, :], mask=is_score, other=0.0).to(tl.float32)
    value = tl.where((column < CLASSES)[None, :], value, float("-inf"))
    counts = inside & (tl.load(counted + row, mask=inside, other=0) != 0)
    label = tl.load(labels + row, mask=counts, other=-1).to(tl.int64)
    wrong = counts & ((label < 0) | (label >= CLASSES)) & (label != -100)
    return value, tl.where(wrong | (label < 0), -1, label), counts, wrong


@triton.jit
def _log_sum(value):
    highest = tl.max(value, 1)
    return highest + tl.log(tl.sum(tl.exp(value - highest[:, None]), 1))


@triton.jit
def sum_classes(
    scores, labels, counted, parts, num_rows, rows_of_part, CLASSES: tl.constexpr, LOSS: tl.constexpr,
    BR: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    """The sums of one part for each class, ``parts [P, 4, BC]``: rows, and log-likelihoods or hits and predictions."""
    part = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BC)
    first = part * rows_of_part
    end = tl.minimum(first + rows_of_part, num_rows)
    rows = tl.zeros([BR, BC], tl.float32)
    one, two = tl.zeros([BR, BC], tl.float32), tl.zeros([BR, BC], tl.float32)
    for at in range(first, end, BR):
        row = at + tl.arange(0, BR)
        value, label, counts, wrong = _tile(scores, labels, counted, row, end, CLASSES, BC)
        own = column[None, :] == label[:, None]
        rows += tl.where(own, 1.0, 0.0)
        if LOSS:
            one += tl.where(own, _log_sum(value)[:, None] - value, 0.0)
            one += tl.where(wrong[:, None], float("nan"), 0.0)  # a label of no class must not pass unseen
        else:
            best = (column[None, :] == tl.argmax(value, 1)[:, None]) & counts[:, None]
            one += tl.where(own & best, 1.0, 0.0)
            two += tl.where(best, 1.0, 0.0)
    where = parts + part * (4 * BC) + column
    tl.store(where, tl.sum(rows, 0))
    if LOSS:
        tl.store(where + BC, tl.sum(one, 0))
    else:
        tl.store(where + 2 * BC, tl.sum(one, 0))
        tl.store(where + 3 * BC, tl.sum(two, 0))


@triton.jit
def _total(parts, num_parts, FIELD: tl.constexpr, BP: tl.constexpr, BC: tl.constexpr):
    part, column = tl.arange(0, BP), tl.arange(0, BC)
    where = parts + part[:, None] * (4 * BC) + FIELD * BC + column[None, :]
    return tl.sum(tl.load(where, mask=(part < num_parts)[:, None], other=0.0).to(tl.float64), 0)


@triton.jit
def whole_loss(parts, loss, factor, num_parts, CLASSES: tl.constexpr, BP: tl.constexpr, BC: tl.constexpr):
    """The loss, and the factor of each class's rows in its gradient."""
    column = tl.arange(0, BC)
    count, likelihood = _total(parts, num_parts, 0, BP, BC), _total(parts, num_parts, 1, BP, BC)
    rows = tl.sum(count, 0)
    weight = tl.where(count > 0, (rows - count) / tl.maximum(rows, 1.0), 0.0)
    mass = tl.sum(weight * count, 0)
    weight = weight / tl.where(mass > 0, mass, 1.0)
    # A class without rows has weight 0, but a NaN of a wrong label stands in every class.
    tl.store(loss, tl.sum(weight * likelihood, 0).to(tl.float32))
    tl.store(factor + column, weight.to(tl.float32), mask=column < CLASSES)


@triton.jit
def whole_accuracy(parts, result, num_parts, BP: tl.constexpr, BC: tl.constexpr):
    """The mean over classes of the share of their rows that are hit, in percent."""
    count = _total(parts, num_parts, 0, BP, BC)
    hits, predicted = _total(parts, num_parts, 2, BP, BC), _total(parts, num_parts, 3, BP, BC)
    occurs = tl.sum(tl.where((count > 0) | (predicted > 0), 1.0, 0.0).to(tl.float64), 0)
    tl.store(result, 100.0 * tl.sum(hits / tl.maximum(count, 1.0), 0) / tl.maximum(occurs, 1.0))


@triton.jit
def loss_gradient(
    scores, labels, counted, factor, grad, out, num_rows, CLASSES: tl.constexpr, BR: tl.constexpr, BC: tl.constexpr
):  # fmt: skip
    """(softmax − one-hot) times the factor of the row's class and the gradient of the loss; zero where none counts."""
    row = tl.program_id(0).to(tl.int64) * BR + tl.arange(0, BR)
    column = tl.arange(0, BC)
    value, label, _, _ = _tile(scores, labels, counted, row, num_rows, CLASSES, BC)
    share = tl.exp(value - _log_sum(value)[:, None])
    own = column[None, :] == label[:, None]
    scale = tl.load(factor + label, mask=label >= 0, other=0.0) * tl.load(grad).to(tl.float32)
    result = tl.where((label >= 0)[:, None], (share - tl.where(own, 1.0, 0.0)) * scale[:, None], 0.0)
    inside = (row < num_rows)[:, None] & (column < CLASSES)[None, :]
    tl.store(out + row[:, None] * CLASSES + column[None, :], result.to(out.dtype.element_ty), mask=inside)


def launch_loss(scores: Tensor, labels: Tensor, counted: Tensor) -> tuple[Tensor, Tensor]:
    """The loss, float32 without dimensions, and the factor of each class, ``[C]``."""
    loss, factor = torch.empty((), device=scores.device), torch.empty(scores.size(1), device=scores.device)
    parts, sizes = _sum_parts(scores, labels, counted, loss=True)
    launch(whole_loss, (1,), parts, loss, factor, parts.size(0), CLASSES=scores.size(1), **sizes)
    return loss, factor


def launch_accuracy(scores: Tensor, labels: Tensor, counted: Tensor) -> Tensor:
    """The weighted accuracy in percent, float64 without dimensions."""
    result = torch.empty((), dtype=torch.float64, device=scores.device)
    parts, sizes = _sum_parts(scores, labels, counted, loss=False)
    launch(whole_accuracy, (1,), parts, result, parts.size(0), **sizes)
    return result


def launch_loss_gradient(scores: Tensor, labels: Tensor, counted: Tensor, factor: Tensor, grad: Tensor) -> Tensor:
    """The gradient of the scores, ``[M, C]``."""
    rows, classes = scores.shape
    out = torch.empty(rows, classes, dtype=scores.dtype, device=scores.device)
    if not out.numel():
        return out
    columns = triton.next_power_of_2(classes)
    step = max(16, NUMBERS // columns)
    launch(
        loss_gradient, (triton.cdiv(rows, step),),
        scores.contiguous(), labels.contiguous(), counted.contiguous(), factor.contiguous(), grad, out, rows,
        CLASSES=classes, BR=step, BC=columns, num_warps=4,
    )  # fmt: skip
    return out


def _sum_parts(scores: Tensor, labels: Tensor, counted: Tensor, *, loss: bool) -> tuple[Tensor, dict[str, int]]:
    rows, classes = scores.shape
    columns = triton.next_power_of_2(classes)
    step = max(16, NUMBERS // columns)
    number = max(1, min(LARGEST_PARTS, LARGEST_SUM // columns, triton.cdiv(rows, step)))
    rows_of_part = triton.cdiv(triton.cdiv(rows, number), step) * step
    number = max(1, triton.cdiv(rows, max(rows_of_part, 1)))
    parts = torch.empty(number, FIELDS, columns, device=scores.device)
    launch(
        sum_classes, (number,),
        scores.contiguous(), labels.contiguous(), counted.contiguous(), parts, rows, rows_of_part, CLASSES=classes,
        LOSS=loss, BR=step, BC=columns, num_warps=4,
    )  # fmt: skip
    return parts, {"BP": triton.next_power_of_2(number), "BC": columns, "num_warps": 4}
