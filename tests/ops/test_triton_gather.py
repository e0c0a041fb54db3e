"""The kernels give what the reference gives, number by number."""

import pytest
import torch

from lrga.ops._triton import why_not_triton
from lrga.ops.neighbors.batch_layout import batch_begins, batch_layout, batch_layout_reference

CASES = [
    ([3, 0, 5], [4, 0, 9], 3, 5),
    ([1], [0], 1, 0),
    ([1], [0], 1, 7),
    ([7] * 9, [13] * 9, 1, 0),
    ([2, 600, 1], [5, 700, 0], 300, 1000),
    ([1] * 65, [2] * 65, 64, 3),
]


@pytest.mark.parametrize("case", CASES)
def test_the_kernels_equal_the_reference(case, poisoned, example):
    tensors, sizes = example(*case, torch.Generator().manual_seed(2))
    if (why := why_not_triton(*tensors)) is not None:
        pytest.skip(why)
    from lrga.ops.neighbors import batch_layout

    ours = batch_layout.batch_layout_op(*tensors, *sizes.values())
    for mine, theirs in zip(ours, batch_layout_reference(*tensors, *sizes.values()), strict=True):
        assert torch.equal(mine, theirs)


def table_of(graphs, device="cpu"):
    """First node and edge, nodes and edges of each graph, some empty, and of none at the end."""
    sizes = torch.randint(0, 9, (graphs, 2))
    starts = torch.nn.functional.pad(sizes.cumsum(0), (0, 0, 1, 0))
    return torch.cat([starts, torch.nn.functional.pad(sizes, (0, 0, 0, 1))], dim=1).to(device)


def check_begins(graphs, chosen, none, device="cpu"):
    from lrga.ops.neighbors import batch_layout

    table = table_of(graphs)
    index = torch.cat([torch.randint(0, graphs, (chosen,)), torch.full((none,), graphs)])
    ours = batch_layout.launch_begins(table.to(device), index.to(device), 9999)
    for mine, theirs in zip(ours, batch_begins(table, index, 9999), strict=True):
        assert mine.dtype == theirs.dtype
        assert mine.shape == theirs.shape
        assert torch.equal(mine.cpu(), theirs)


@pytest.mark.parametrize(
    ("graphs", "chosen", "none"), [(1, 1, 0), (5, 3, 0), (5, 3, 2), (5, 0, 3), (40, 65, 1), (2, 0, 0)]
)
def test_the_kernel_finds_where_graphs_begin(graphs, chosen, none, poisoned):
    if (why := why_not_triton(torch.zeros(1, dtype=torch.int64))) is not None:
        pytest.skip(why)
    check_begins(graphs, chosen, none)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU that PyTorch can use")
@pytest.mark.parametrize("chosen", [1, 64, 128, 1000, 4000])
def test_on_a_gpu_the_kernel_finds_where_graphs_begin(chosen):
    check_begins(500, chosen, 3, "cuda")


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU that PyTorch can use")
@pytest.mark.parametrize("graphs", [1, 2, 31, 64, 128, 1000])
def test_on_a_gpu_the_kernels_equal_the_reference(graphs, example):
    generator = torch.Generator().manual_seed(3)
    nodes = torch.randint(0, 200, (graphs,), generator=generator).tolist()
    edges = [n * 20 for n in nodes]
    tensors, sizes = example(nodes, edges, 77, 1234, generator)
    on_gpu = [tensor.cuda() for tensor in tensors]
    expected = batch_layout_reference(*tensors, *sizes.values())
    for mine, theirs in zip(batch_layout(*on_gpu, **sizes), expected, strict=True):
        assert torch.equal(mine.cpu(), theirs)
