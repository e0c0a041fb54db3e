from dataclasses import replace

import pytest
import torch

from lrga.errors import DTypeError, ShapeError
from lrga.ops.neighbors import edges as edges_module
from lrga.ops.neighbors.edges import EdgeLayout, check_edges_fit


def random_edges(num_nodes=9, num_edges=40):
    """Edges with repetitions and self-loops; the last two nodes have none."""
    return torch.randint(0, num_nodes - 2, (2, num_edges))


def test_layout_holds_the_given_edges_in_the_order_of_their_targets_and_then_as_given():
    edge_index = random_edges()
    layout, order = EdgeLayout.from_edge_index(edge_index, 9)
    assert torch.equal(layout.edge_index, edge_index[:, order])
    assert layout.target.tolist() == sorted(edge_index[1].tolist())
    assert sorted(order.tolist()) == list(range(40))
    edge_index = torch.tensor([[3, 1, 2, 0], [1, 0, 1, 0]])
    layout, order = EdgeLayout.from_edge_index(edge_index, 4)
    assert order.tolist() == [1, 3, 0, 2]
    assert layout.source.tolist() == [1, 0, 3, 2]


def test_pointers_delimit_the_edges_of_each_node():
    layout, _ = EdgeLayout.from_edge_index(random_edges(), 9)
    pairs = list(zip(layout.source.tolist(), layout.target.tolist(), strict=True))
    for node in range(9):
        into = range(int(layout.in_ptr[node]), int(layout.in_ptr[node + 1]))
        assert list(into) == [e for e, (_, target) in enumerate(pairs) if target == node]
        out_of = layout.out_order[int(layout.out_ptr[node]) : int(layout.out_ptr[node + 1])].tolist()
        assert out_of == [e for e, (source, _) in enumerate(pairs) if source == node]
        assert layout.in_degree[node] == len(into)
        assert layout.out_degree[node] == len(out_of)


def test_transposed_layout_is_the_layout_of_the_edges_turned_round():
    layout, _ = EdgeLayout.from_edge_index(random_edges(), 9)
    turned, order = EdgeLayout.from_edge_index(layout.edge_index.flip(0), 9)
    for name in ("source", "target", "in_ptr", "out_ptr"):
        assert torch.equal(getattr(layout.transposed, name), getattr(turned, name)), name
    assert torch.equal(order, layout.out_order)
    by_source = layout.transposed.source[layout.transposed.out_order]
    assert by_source.tolist() == sorted(by_source.tolist())
    assert torch.equal(layout.transposed.transposed.edge_index, layout.edge_index)


@pytest.mark.parametrize("chunk", [1, 3, 7, 1000])
def test_chunks_cover_every_edge_once_and_hold_whole_targets(monkeypatch, chunk):
    monkeypatch.setattr(edges_module, "EDGES_OF_A_CHUNK", chunk)
    layout, _ = EdgeLayout.from_edge_index(random_edges(), 9)
    covered = []
    for first_node, end_node, first, end in layout.chunks:
        covered += range(first, end)
        assert layout.in_ptr[first_node] == first
        assert layout.in_ptr[end_node] == end
    assert covered == list(range(40))


@pytest.mark.parametrize("num_nodes", [0, 3])
def test_layout_of_no_edges_is_empty(num_nodes):
    layout, order = EdgeLayout.from_edge_index(torch.empty(2, 0, dtype=torch.int64), num_nodes)
    assert layout.num_edges == 0
    assert order.numel() == 0
    assert layout.chunks == []
    assert layout.in_ptr.tolist() == [0] * (num_nodes + 1)


def test_layout_and_its_known_longest_run_survive_moving_and_turning():
    layout, _ = EdgeLayout.from_edge_index(random_edges(), 9)
    moved = layout.to("meta")
    assert moved.device.type == "meta"
    assert moved.num_edges == 40
    assert moved.num_nodes == 9
    assert "num_edges=40" in repr(moved)
    known = replace(layout, longest=40)
    assert layout.longest is None
    assert known.to("meta").longest == known.transposed.longest == 40


@pytest.mark.parametrize(
    ("edge_index", "error", "says"),
    [
        (torch.zeros(5, 2, dtype=torch.int64), ShapeError, r"transpose"),
        (torch.zeros(2, 3), DTypeError, r"float32.*long"),
        (torch.tensor([[0], [4]]), ShapeError, r"between 0 and 3.*node 4"),
        (torch.tensor([[-1], [0]]), ShapeError, r"node -1"),
        ([[0], [1]], DTypeError, r"list"),
    ],
)
def test_wrong_edges_are_refused_with_a_remedy(edge_index, error, says):
    with pytest.raises(error, match=says):
        EdgeLayout.from_edge_index(edge_index, 4)


def test_layout_of_another_number_of_nodes_is_refused():
    layout, _ = EdgeLayout.from_edge_index(random_edges(), 9)
    with pytest.raises(ShapeError, match="of 8 nodes"):
        check_edges_fit(layout, 8, torch.device("cpu"))


def test_layout_keeps_what_gpu_kernels_ask_of_it_for_all_layers():
    layout, _ = EdgeLayout.from_edge_index(random_edges(), 9)
    for i in range(9):
        run = slice(int(layout.out_ptr[i]), int(layout.out_ptr[i + 1]))
        assert sorted(layout.out_target[run].tolist()) == sorted(layout.target[layout.source == i].tolist())
    into, out_of = layout.degree_roots
    torch.testing.assert_close(into, layout.in_degree.clamp(min=1) ** -0.5)
    torch.testing.assert_close(out_of, layout.out_degree.clamp(min=1) ** -0.5)
    torch.testing.assert_close(layout.degree_inverse, 1 / layout.in_degree.clamp(min=1))
