import numpy as np
import pytest
import torch

from lrga.data.packed.segments import Selection, narrow, order_by, pointer, repeat, take


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0, 255], torch.uint8),
        ([-1, 127], torch.int8),
        ([0, 256], torch.int16),
        ([-129, 0], torch.int16),
        ([0, 1 << 15], torch.int32),
        ([0, 1 << 31], torch.int64),
    ],
)
def test_integers_are_kept_in_the_smallest_type_that_holds_them(values, expected):
    tensor = torch.tensor(values)
    small = narrow(tensor)
    assert small.dtype == expected
    assert torch.equal(small.long(), tensor)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bool, torch.uint8, torch.bfloat16])
def test_what_is_no_wide_integer_stays(dtype):
    tensor = torch.ones(3).to(dtype)
    assert narrow(tensor) is tensor


def test_an_empty_tensor_stays():
    assert narrow(torch.empty(0, dtype=torch.int64)).dtype == torch.int64


@pytest.mark.parametrize("dtype", [torch.int64, torch.float32, torch.bool, torch.bfloat16])
@pytest.mark.parametrize("shape", [(6,), (6, 2)])
def test_rows_are_taken_in_any_type(dtype, shape):
    values = torch.arange(np.prod(shape)).reshape(shape).to(dtype)
    rows = torch.tensor([4, 0, 4])
    assert torch.equal(take(values, rows), values[rows])
    assert torch.equal(take(values, slice(1, 3)), values[1:3])


def test_repeating_equals_torch_and_pointers_begin_with_zero_without_overflow():
    values, counts = torch.tensor([5, 7, 9]), torch.tensor([2, 0, 3])
    assert torch.equal(repeat(values, counts, 5), torch.repeat_interleave(values, counts))
    assert pointer(torch.tensor([2, 0, 3], dtype=torch.uint8)).tolist() == [0, 2, 2, 5]
    assert pointer(torch.empty(0, dtype=torch.int64)).tolist() == [0]
    assert int(pointer(torch.full((1000,), 255, dtype=torch.uint8))[-1]) == 255_000


@pytest.mark.parametrize("host", [False, True])
def test_cutting_gives_the_rows_of_each_chosen_segment(host):
    generator = torch.Generator().manual_seed(0)
    counts = torch.randint(0, 5, (20,), generator=generator)
    ptr = pointer(counts)
    chosen = torch.randint(0, 20, (50,), generator=generator)
    selection = Selection(ptr, chosen, *((ptr, chosen) if host else ()))
    expected = torch.cat([torch.arange(int(ptr[g]), int(ptr[g + 1])) for g in chosen])
    assert torch.equal(selection.rows.long(), expected)
    assert torch.equal(selection.counts, counts[chosen])
    assert torch.equal(selection.ptr, pointer(counts[chosen]))
    assert selection.total == len(expected)


def test_cutting_a_slice_gives_a_slice():
    ptr = torch.tensor([0, 2, 5, 5, 6])
    some = Selection(ptr, slice(1, 3))
    assert (some.rows, some.counts.tolist(), some.ptr.tolist(), some.total) == (
        slice(2, 5),
        [3, 0],
        [0, 3, 3],
        3,
    )
    some = Selection(ptr, slice(4, 4))
    assert (some.rows, some.counts.tolist(), some.ptr.tolist(), some.total) == (
        slice(6, 6),
        [],
        [0],
        0,
    )


def test_rows_beyond_31_bits_are_numbered_in_64():
    selection = Selection(torch.tensor([0, 1 << 33, (1 << 33) + 2]), torch.tensor([1]))
    assert selection.rows.tolist() == [1 << 33, (1 << 33) + 1]


def graphs(seed, nodes, edges):
    rng = np.random.default_rng(seed)
    num_nodes, num_edges = rng.integers(1, nodes, 40), rng.integers(0, edges, 40)
    num_nodes[7], num_edges[7] = 0, 0
    num_edges[9] = 0
    ends = np.concatenate([rng.integers(0, max(n, 1), e) for n, e in zip(num_nodes, num_edges, strict=True)])
    return torch.from_numpy(ends), pointer(torch.from_numpy(num_edges)), pointer(torch.from_numpy(num_nodes))


def test_every_graph_is_sorted_stably():
    ends, edge_ptr, node_ptr = graphs(0, 9, 60)
    order, degree = order_by(ends, edge_ptr, node_ptr)
    for g in range(len(node_ptr) - 1):
        own = ends[edge_ptr[g] : edge_ptr[g + 1]]
        assert torch.equal(order[edge_ptr[g] : edge_ptr[g + 1]].long(), torch.argsort(own, stable=True))
        counts = torch.bincount(own, minlength=int(node_ptr[g + 1] - node_ptr[g]))
        assert torch.equal(degree[node_ptr[g] : node_ptr[g + 1]], counts)


def test_graphs_of_more_than_sixteen_bits_and_none_are_sorted():
    ends = torch.randint(0, 70_000, (90_000,), generator=torch.Generator().manual_seed(0))
    order, degree = order_by(ends, torch.tensor([0, 90_000]), torch.tensor([0, 70_000]))
    assert torch.equal(order.long(), torch.argsort(ends, stable=True))
    assert int(degree.sum()) == 90_000
    zero = torch.tensor([0])
    order, degree = order_by(torch.empty(0, dtype=torch.int64), zero, zero)
    assert order.numel() == degree.numel() == 0
    order, degree = order_by(torch.empty(0, dtype=torch.int64), torch.tensor([0, 0]), torch.tensor([0, 3]))
    assert degree.tolist() == [0, 0, 0]
