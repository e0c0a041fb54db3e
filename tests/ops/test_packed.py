"""The packed operator: sequences of any lengths by their offsets, several heads, without PyG."""

import subprocess
import sys
import textwrap

import pytest
import torch

import lrga
from lrga.errors import BatchError, DeviceError, DTypeError, OptionError, ShapeError
from lrga.ops.attention import BACKENDS

OFFSETS = torch.tensor([0, 0, 3, 4, 9, 9])  # the first and the last sequence are empty


def packed(heads=2, dtype=torch.float32):
    return tuple(torch.rand(9, heads, k, dtype=dtype) for k in (3, 3, 4))


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
@pytest.mark.parametrize("backend", BACKENDS)
def test_every_sequence_and_head_is_attended_to_alone(backend, dtype):
    if backend == "triton":
        pytest.importorskip("triton")
    u, v, z = (t.requires_grad_() for t in packed())
    out = lrga.low_rank_attention(u, v, z, cu_seqlens=OFFSETS.to(dtype), backend=backend)
    alone = torch.zeros(9, 2, 4)
    for start, end in ((0, 3), (3, 4), (4, 9)):
        for head in range(2):
            rows = (t[start:end, head] for t in (u, v, z))
            alone[start:end, head] = lrga.low_rank_attention(*rows, backend="dense")
    torch.testing.assert_close(out, alone, rtol=1e-4, atol=1e-5)
    weights = torch.randn(9, 2, 4)
    ours, exact = (torch.autograd.grad((result * weights).sum(), (u, v, z)) for result in (out, alone))
    torch.testing.assert_close(ours, exact, rtol=1e-3, atol=1e-4)


def test_offsets_are_a_batch_vector_written_shorter():
    u, v, z = packed()
    batch = torch.tensor([1, 1, 1, 2, 3, 3, 3, 3, 3])
    expected = lrga.low_rank_attention(u, v, z, batch, num_graphs=5)
    assert torch.equal(lrga.low_rank_attention(u, v, z, cu_seqlens=OFFSETS, num_graphs=5), expected)
    one = lrga.low_rank_attention(u, v, z, cu_seqlens=torch.tensor([0, 9]))
    assert torch.equal(one, lrga.low_rank_attention(u, v, z))
    flat = lrga.low_rank_attention(u[:, 0], v[:, 0], z[:, 0], cu_seqlens=OFFSETS)
    torch.testing.assert_close(flat, expected[:, 0])


@pytest.mark.parametrize("offsets", [[0], [0, 0], [0, 0, 0]])
def test_no_rows_at_all(offsets):
    u = torch.zeros(0, 2, 3)
    assert lrga.low_rank_attention(u, u, u, cu_seqlens=torch.tensor(offsets)).shape == (0, 2, 3)


def test_offsets_compile_without_breaks():
    attend = torch.compile(lrga.low_rank_attention, fullgraph=True, backend="eager")
    u, v, z = packed()
    expected = lrga.low_rank_attention(u, v, z, cu_seqlens=OFFSETS)
    torch.testing.assert_close(attend(u, v, z, cu_seqlens=OFFSETS), expected)


@pytest.mark.parametrize(
    ("offsets", "error", "words"),
    [
        ([0, 9], DTypeError, "tensor or None, got list"),
        (torch.tensor([0.0, 9.0]), DTypeError, "int32 or int64.*float32"),
        (torch.tensor([[0, 9]]), BatchError, r"\[G \+ 1\].*\[1, 2\]"),
        (torch.tensor([9]), BatchError, r"\[G \+ 1\].*\[1\]"),
        (torch.tensor([1, 9]), BatchError, "from 0 to 9, the number of rows of u, got 1 and 9"),
        (torch.tensor([0, 4, 8]), BatchError, "got 0 and 8.*cumulative lengths"),
        (torch.tensor([0, 5, 4, 9]), BatchError, "decreasing offsets"),
        (torch.zeros(3, dtype=torch.int64, device="meta"), DeviceError, "cu_seqlens on meta"),
    ],
)
def test_wrong_offsets_are_refused_in_words(offsets, error, words):
    with pytest.raises(error, match=words):
        lrga.low_rank_attention(*packed(), cu_seqlens=offsets)


def test_contradictions_and_wrong_shapes_are_refused_in_words():
    u, v, z = packed()
    with pytest.raises(OptionError, match="either batch or cu_seqlens"):
        lrga.low_rank_attention(u, v, z, torch.zeros(9, dtype=torch.int64), cu_seqlens=OFFSETS)
    with pytest.raises(OptionError, match="num_graphs=4 and cu_seqlens of 5"):
        lrga.low_rank_attention(u, v, z, num_graphs=4, cu_seqlens=OFFSETS)
    for wrong in ((u, v[:, 0], z), (u, v, z[:, 0]), (u, v, z[:, :1]), (u, v[..., :2], z)):
        with pytest.raises(ShapeError, match=r"\[N, H, K\]"):
            lrga.low_rank_attention(*wrong)


def test_the_operator_needs_no_pyg():
    code = """
        import sys
        sys.modules["torch_geometric"] = None  # an import of it fails
        import torch
        import lrga.ops
        from lrga.ops.attention import low_rank_attention
        u, v, z = (torch.rand(5, 2, 3) for _ in range(3))
        out = low_rank_attention(u, v, z, cu_seqlens=torch.tensor([0, 2, 5], dtype=torch.int32))
        from lrga import low_rank_attention as same
        assert same is low_rank_attention and out.shape == (5, 2, 3) and bool(out.isfinite().all())
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
