import warnings

import pytest
import torch
from torch_geometric.data import Batch, Data, HeteroData

from lrga.data import PackedGraphs
from lrga.data.packed.convert import common_keys, find_level, plain_edge_index
from lrga.data.packed.segments import DTYPES
from lrga.errors import DataError, DTypeError, OptionError, UnsupportedError


def random_graph(n, e, generator, **further):
    return Data(
        x=torch.randint(0, 28, (n, 1), generator=generator),
        edge_index=torch.randint(0, max(n, 1), (2, e), generator=generator),
        edge_attr=torch.rand(e, 2, generator=generator),
        y=torch.rand(1, generator=generator),
        **further,
    )


def some_graphs():
    generator = torch.Generator().manual_seed(0)
    return [random_graph(n, e, generator) for n, e in ((5, 9), (1, 0), (0, 0), (7, 20), (3, 4))]


def assert_same(ours, theirs):
    assert set(ours.keys()) == set(theirs.keys())
    for key, value in theirs.to_dict().items():
        if isinstance(value, torch.Tensor):
            assert ours[key].dtype == value.dtype, key
            assert ours[key].shape == value.shape, key
            assert torch.equal(ours[key], value), key
        elif type(value) in (bool, int, float) and key != "num_nodes":
            assert torch.equal(ours[key], torch.tensor([value])), key  # as PyG collates numbers
        else:
            assert type(ours[key]) is type(value), key
            assert ours[key] == value, key


def round_trip(graphs, **options):
    back = PackedGraphs.from_data_list(graphs, **options).to_data_list()
    assert len(back) == len(graphs)
    for ours, theirs in zip(back, graphs, strict=True):
        assert_same(ours, theirs)


def test_graphs_come_back_as_they_were_edges_in_their_order_without_a_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        round_trip(some_graphs())


def test_the_graphs_of_the_way_back_are_independent_of_the_set():
    packed = PackedGraphs.from_data_list(some_graphs())
    packed[0].x.zero_()
    packed.to_data_list()[0].edge_attr.zero_()
    assert_same(packed[0], some_graphs()[0])


@pytest.mark.parametrize("dtype", DTYPES.values())
def test_every_type_comes_back(dtype):
    x = torch.tensor([[0.0, 1.0], [1.0, 0.0]]).to(dtype)
    round_trip([Data(x=x, edge_index=torch.tensor([[0], [1]]), y=torch.tensor([1.0]).to(dtype)) for _ in range(3)])


@pytest.mark.parametrize("shape", [(), (1,), (3,), (1, 4), (2, 2)])
def test_targets_of_graphs_come_back_in_every_shape(shape):
    graphs = [Data(x=torch.rand(4 + g, 2), y=torch.rand(shape)) for g in range(3)]
    round_trip(graphs)
    packed = PackedGraphs.from_data_list(graphs)
    assert packed.y_level == "graph"
    assert torch.equal(packed.batch([2, 0]).y, Batch.from_data_list([graphs[2], graphs[0]]).y)


def test_further_attributes_of_every_kind_come_back():
    generator = torch.Generator().manual_seed(0)
    graphs = [
        random_graph(
            n,
            e,
            generator,
            pos=torch.rand(n, 3),
            train_mask=torch.rand(n) > 0.5,
            edge_weight=torch.rand(e),
            edge_label_index=torch.randint(0, n, (2, n - 2)),
            face=torch.randint(0, n, (3, n)),
            tokens=torch.arange(n * n),
            energy=torch.rand(1, 6),
            charge=n,
            mass=0.1 * n,
            chiral=n % 2 == 0,
            name=f"molecule {n}",
            path=[1, 2, n],
            facts={"rings": n},
        )
        for n, e in ((3, 5), (4, 0), (6, 6))
    ]
    round_trip(graphs)
    packed = PackedGraphs.from_data_list(graphs)
    levels = {name: column.level for name, column in packed.columns.items()}
    assert levels["train_mask"] == levels["pos"] == "node"
    assert levels["edge_weight"] == "edge"
    assert levels["energy"] == levels["charge"] == "graph"
    assert sorted(packed.objects) == ["edge_label_index", "face", "facts", "name", "path", "tokens"]


def test_a_sparse_matrix_comes_back():
    matrix = torch.eye(3).to_sparse()
    packed = PackedGraphs.from_data_list([Data(x=torch.rand(3, 1), laplacian=matrix)])
    assert torch.equal(packed[0].laplacian.to_dense(), torch.eye(3))


REPEATED = torch.tensor([[0, 0, 1, 1, 0], [1, 1, 1, 0, 1]])


@pytest.mark.parametrize(
    "graphs",
    {
        "large integers": [Data(x=torch.tensor([-(2**62), 2**62]), y=torch.tensor([g - 2**40])) for g in range(3)],
        "no edge_index": [Data(pos=torch.rand(n, 3), y=torch.tensor([n])) for n in (2, 5)],
        "num_nodes alone": [Data(num_nodes=n, edge_index=torch.tensor([[0], [1]])) for n in (2, 5)],
        "narrow edge_index": [Data(x=torch.rand(2, 1), edge_index=REPEATED.int())],
        "parallel edges and loops": [Data(x=torch.rand(2, 1), edge_index=REPEATED, edge_attr=torch.arange(5))],
    }.values(),
)
def test_unusual_graphs_come_back(graphs):
    round_trip(graphs)
    assert PackedGraphs.from_data_list(graphs).num_nodes == sum(graph.num_nodes for graph in graphs)


def test_python_numbers_as_targets_are_tensors_in_a_batch():
    graphs = [Data(x=torch.rand(2, 1), y=0.5 + g) for g in range(3)]
    round_trip(graphs)
    batch = PackedGraphs.from_data_list(graphs).batch([2, 1])
    assert torch.equal(batch.y, Batch.from_data_list([graphs[2], graphs[1]]).y)


def test_the_level_of_the_target_is_found_or_given():
    nodes = [Data(x=torch.rand(n, 1), edge_index=torch.zeros(2, 4, dtype=torch.int64), y=torch.rand(n)) for n in (2, 3)]
    assert PackedGraphs.from_data_list(nodes).y_level == "node"
    edges = [Data(x=torch.rand(2, 1), edge_index=torch.zeros(2, e, dtype=torch.int64), y=torch.rand(e)) for e in (3, 5)]
    assert PackedGraphs.from_data_list(edges).y_level == "edge"
    # Two nodes and two numbers in every graph: only the user knows.
    both = [Data(x=torch.rand(2, 1), y=torch.rand(2)) for _ in range(3)]
    assert PackedGraphs.from_data_list(both).y_level == "node"
    assert PackedGraphs.from_data_list(both, y_level="graph").y_level == "graph"
    round_trip(both, y_level="graph")
    single = [Data(x=torch.rand(1, 2), y=torch.rand(1)) for _ in range(3)]
    assert PackedGraphs.from_data_list(single).y_level == "graph"
    assert PackedGraphs.from_data_list(single, y_level="node").y_level == "node"
    alone = [Data(y=torch.zeros(6), edge_index=torch.tensor([[0], [5]]))]
    assert PackedGraphs.from_data_list(alone, y_level="node").num_nodes == 6


class Pair(Data):
    def __inc__(self, key, value, *args, **kwargs):
        return 7


@pytest.mark.parametrize(
    ("graphs", "error", "match"),
    [
        ([some_graphs()[0], HeteroData()], DTypeError, "HeteroData as graph 1"),
        ([{"x": 1}], DTypeError, "dict as graph 0"),
        (Batch.from_data_list(some_graphs()), DTypeError, r"batch\.to_data_list\(\)"),
        (some_graphs()[0], DTypeError, r"pass \[data\]"),
        ([], DataError, "at least one graph"),
        ([Pair(x=torch.rand(2, 1))], UnsupportedError, "graph 0 of class"),
        ([Data(x=torch.rand(3, 1), num_nodes=4)], DataError, "one number of nodes in graph 0"),
        ([Data(edge_index=torch.tensor([[0], [1]]))], DataError, r"number of nodes of graph 0.*set data\.num_nodes"),
        ([Data(x=torch.rand(3, 1), adj_t=torch.eye(3).to_sparse_csr())], UnsupportedError, "edge_index"),
        ([Data(x=torch.rand(1, 1), adj=torch.eye(1))], UnsupportedError, "edge_index"),
        ([Data(x=torch.zeros(2, 1, dtype=torch.complex64))], DTypeError, "complex"),
        ([Data(x=torch.zeros(1), a=1), Data(x=torch.zeros(1), b=1)], DataError, "graph 1 without a and with b"),
    ],
)
def test_graphs_that_cannot_be_packed_are_refused_with_a_reason(graphs, error, match):
    with pytest.raises(error, match=match):
        PackedGraphs.from_data_list(graphs)


def test_an_unknown_level_is_refused():
    with pytest.raises(OptionError, match="'node', 'edge', 'graph'"):
        PackedGraphs.from_data_list(some_graphs(), y_level="molecule")


def with_change(graph, **change):
    changed = graph.clone()
    for key, value in change.items():
        changed[key] = value
    return changed


def without(graph, key):
    changed = graph.clone()
    del changed[key]
    return changed


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda graph: without(graph, "edge_attr"), "graph 3 without edge_attr"),
        (lambda graph: with_change(graph, pos=torch.rand(7, 3)), "graph 3 with pos"),
        (lambda graph: with_change(graph, x=torch.rand(7, 1)), "float32 of 2 dimensions .* in graph 3"),
        (lambda graph: with_change(graph, y=torch.rand(1, 1)), "float32 of 2 dimensions on cpu in graph 3"),
        (lambda graph: with_change(graph, y=torch.rand(2)), "in graph 3"),
        (lambda graph: with_change(graph, y=0.5), "float in graph 3"),
        (
            lambda graph: with_change(graph, edge_attr=torch.rand(19, 2)),
            "graph 3 with one row for each of its 20 edges",
        ),
        (lambda graph: with_change(graph, num_nodes=8), "graph 3 with num_nodes"),
        (lambda graph: with_change(graph, edge_index=graph.edge_index + 1), "graph 3 between its nodes 0 to 6"),
        (lambda graph: with_change(graph, edge_index=graph.edge_index - 1), "graph 3 between its nodes"),
        (lambda graph: with_change(graph, edge_index=graph.edge_index.t()), "graph 3"),
        (lambda graph: with_change(graph, edge_index=graph.edge_index.float()), "graph 3"),
    ],
)
def test_a_graph_that_does_not_fit_is_named(change, message):
    graphs = some_graphs()
    graphs[3] = change(graphs[3])
    with pytest.raises((DataError, DTypeError), match=message):
        PackedGraphs.from_data_list(graphs)


COUNTS = {"node": [2, 3], "edge": [4, 5]}


def tensors(*shapes):
    return [torch.zeros(shape) for shape in shapes]


@pytest.mark.parametrize(
    ("key", "values", "level"),
    [
        ("x", tensors((2, 1), (3, 1)), "node"),
        ("mask", tensors(2, 3), "node"),
        ("edge_attr", tensors(4, 5), "edge"),
        ("weight", tensors((4, 2), (5, 2)), "edge"),
        ("energy", tensors((1, 3), (1, 3)), "graph"),
        ("energy", tensors((), ()), "graph"),
        ("tokens", tensors(7, 8), "object"),
        ("edge_label_index", tensors((2, 2), (2, 2)), "object"),
        ("face", tensors((3, 2), (3, 3)), "object"),
        ("charge", [1, 2.0], "object"),
        ("charge", [1, 2**70], "object"),
        ("name", ["a", "b"], "object"),
        ("matrix", [torch.eye(2).to_sparse(), torch.eye(3).to_sparse()], "object"),
    ],
)
def test_levels_are_found_from_names_and_shapes(key, values, level):
    assert find_level(key, values, COUNTS, None) == level


def test_a_target_must_fit_its_level_and_where_several_fit_the_name_decides():
    counts = {"node": [3, 4], "edge": [3, 4]}
    assert find_level("degree", tensors(3, 4), counts, None) == "node"
    assert find_level("edge_type", tensors(3, 4), counts, None) == "edge"
    for level in ("node", "edge", "graph"):
        with pytest.raises(DataError, match="graph"):
            find_level("y", tensors(2, 5), COUNTS, level)
    with pytest.raises(DataError, match=r"shape \[1\] in graph 0 and \[2\] in graph 1"):
        find_level("y", tensors(1, 2), COUNTS, None)


def test_keys_come_in_the_order_in_which_they_were_set():
    data = Data()
    for key in ("zeta", "alpha", "mid"):
        data[key] = torch.zeros(1)
    assert common_keys([data, data.clone()]) == ["zeta", "alpha", "mid"]


def test_an_edge_index_of_pygs_own_class_becomes_a_tensor():
    from torch_geometric import EdgeIndex

    edge_index = EdgeIndex([[0, 1], [1, 0]], sparse_size=(2, 2))
    plain = plain_edge_index(Data(edge_index=edge_index), "graph 0")
    assert type(plain) is torch.Tensor
    assert plain.tolist() == [[0, 1], [1, 0]]
