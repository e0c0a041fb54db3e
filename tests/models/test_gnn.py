import copy

import pytest
import torch
from torch_geometric import EdgeIndex
from torch_geometric.utils import to_torch_csr_tensor

from lrga.errors import BatchError, DTypeError, OptionError, ShapeError
from lrga.models.gnn import CONVOLUTIONS, GNN
from lrga.nn.layers.lrga import WIRINGS
from lrga.ops.attention.segments import Segments
from lrga.ops.neighbors.edges import EdgeLayout

SIZES = (5, 1, 8, 3)


def graphs(sizes=SIZES, categories=4, dtype=torch.float64):
    """Ragged random graphs (one of a single node) and their batch: x, edge_index, edge_attr, batch."""
    parts, first = [], 0
    for number, size in enumerate(sizes):
        edges = torch.randint(0, size, (2, 3 * size)) if size > 1 else torch.empty(2, 0, dtype=torch.int64)
        batch = torch.full((size,), number)
        edge_attr = torch.randn(edges.size(1), 2, dtype=dtype)
        parts.append((torch.randint(0, categories, (size,)), edges + first, edge_attr, batch))
        first += size
    x, edge_index, edge_attr, batch = zip(*parts, strict=True)
    return torch.cat(x), torch.cat(edge_index, dim=1), torch.cat(edge_attr), torch.cat(batch)


def network(conv="gcn", task="node", rank=3, **options):
    options = {"encoder": "embedding", "edge_channels": 2, "heads": 2} | options
    return GNN(4, 8, 3, 3, conv=conv, task=task, rank=rank, **options).double()


def trained(model, data):
    """The model in evaluation with statistics that are not the initial ones."""
    x, edge_index, edge_attr, batch = data
    with torch.no_grad():
        model.train()(x, edge_index, edge_attr, batch)
    return model.eval()


@pytest.mark.parametrize("conv", CONVOLUTIONS)
@pytest.mark.parametrize(
    ("task", "options"),
    [
        ("node", {}),
        ("graph", {"rank": None, "preset": "2020"}),
        ("edge", {"preset": "2020", "wiring": "outer-residual"}),
    ],
)
def test_a_batch_equals_each_of_its_graphs_alone(conv, task, options):
    data = x, edge_index, edge_attr, batch = graphs()
    model = trained(network(conv, task, **options), data)
    together = model(x, edge_index, edge_attr, batch, len(SIZES))
    first = 0
    for number, size in enumerate(SIZES):
        nodes, edges = slice(first, first + size), batch[edge_index[1]] == number
        alone = model(x[nodes], edge_index[:, edges] - first, edge_attr[edges])
        rows = {"node": nodes, "graph": slice(number, number + 1), "edge": edges}[task]
        torch.testing.assert_close(together[rows], alone, rtol=1e-12, atol=1e-12)
        first += size


@pytest.mark.parametrize(
    ("conv", "task"), [*((conv, "edge") for conv in CONVOLUTIONS), ("gcn", "node"), ("gin", "graph")]
)
def test_predictions_follow_a_permutation_of_nodes_and_edges(conv, task):
    data = x, edge_index, edge_attr, batch = graphs()
    model = trained(network(conv, task), data)
    nodes, edges = torch.randperm(len(x)), torch.randperm(edge_index.size(1))
    renumbered = torch.empty_like(nodes).index_copy(0, nodes, torch.arange(len(x)))
    out = model(x, edge_index, edge_attr, batch, len(SIZES))
    moved = model(x[nodes], renumbered[edge_index][:, edges], edge_attr[edges], batch[nodes], len(SIZES))
    expected = {"node": lambda: out[nodes], "graph": lambda: out, "edge": lambda: out[edges]}[task]()
    torch.testing.assert_close(moved, expected, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("conv", CONVOLUTIONS)
def test_every_form_of_the_edges_gives_the_same_values_and_gradients(conv):
    x, edge_index, edge_attr, batch = graphs()
    edge_index = edge_index.unique(dim=1).contiguous()  # a sparse matrix holds an edge once
    edge_attr = edge_attr[: edge_index.size(1)]
    layout, order = EdgeLayout.from_edge_index(edge_index, len(x))
    by_target = torch.argsort(edge_index[1] * len(x) + edge_index[0])  # as a CSR matrix of targets stores them
    forms = [
        (edge_index, slice(None)),
        (layout, order),
        (EdgeIndex(edge_index), slice(None)),
        (to_torch_csr_tensor(edge_index.flip(0), size=len(x)), by_target),
    ]
    results = []
    for edges, permutation in forms:
        torch.manual_seed(3)
        model = network(conv)
        out = model(x, edges, edge_attr[permutation], batch, len(SIZES))
        (out**2).sum().backward()
        results.append([out, *(p.grad for p in model.parameters() if p.grad is not None), *model.buffers()])
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("conv", CONVOLUTIONS)
def test_sorted_path_equals_the_path_that_compilers_see(conv, monkeypatch):
    """On a CPU plain edges are sorted first; here they are not, as under a compiler or on a GPU."""
    data = graphs()
    results = []
    for fast in (True, False):
        torch.manual_seed(3)
        model = network(conv, "edge")
        if not fast:
            monkeypatch.setattr("lrga.models.gnn.is_supported", lambda *tensors: False)
            monkeypatch.setattr("lrga.ops.neighbors.cpu.is_supported", lambda *tensors: False)
        out = model(*data, len(SIZES))
        (out**2).sum().backward()
        results.append([out, *(p.grad for p in model.parameters() if p.grad is not None), *model.buffers()])
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("wiring", [name for name in WIRINGS if name != "outer-norm"])
def test_wirings_share_their_parameter_count_and_differ_in_value(wiring):
    data = graphs()
    torch.manual_seed(3)
    model, default = network(wiring=wiring), network()
    assert model.num_parameters == default.num_parameters
    default.load_state_dict(model.state_dict())
    same = torch.equal(model(*data, len(SIZES)), default(*data, len(SIZES)))
    assert same == (wiring == "authors-code")


def test_the_one_norm_of_gat_is_inside_or_after_the_mixture_at_the_same_count():
    inner, outer = network("gat"), network("gat", wiring="outer-norm")
    assert inner.num_parameters == outer.num_parameters
    assert all(layer.base.norm is not None and layer.norm is None for layer in inner.layers)
    assert all(layer.base.norm is None and layer.norm is not None for layer in outer.layers)
    assert all(layer.norm is not None for layer in network("gat", rank=None, wiring="outer-norm").layers)
    without = network("gat", wiring="outer-norm", batch_norm=False)
    assert all(layer.base.norm is None and layer.norm is None for layer in without.layers)


def test_attention_heads_and_gat_heads_are_different_options():
    plain = network("gat", heads=1).num_parameters
    assert network("gat", heads=4).num_parameters == plain
    assert network("gat", heads=4, attention_heads=2).num_parameters > plain
    model = network("gat", heads=4)
    assert [layer.base.heads for layer in model.layers] == [4, 4, 1]
    assert all(layer.norm is None for layer in model.layers)


def test_random_features_are_fresh_reproducible_and_of_variance_one_over_the_width():
    data = graphs()
    model = network("gcn", random_features=True).eval()
    assert model.encoder is None
    torch.manual_seed(1)
    first, second = model(*data), model(*data)
    assert not torch.equal(first, second)
    torch.manual_seed(1)
    assert torch.equal(model(*data), first)
    seeded = [network("gcn", random_features=True, generator=torch.Generator().manual_seed(5)).eval() for _ in range(2)]
    seeded[1].load_state_dict(seeded[0].state_dict())
    assert torch.equal(seeded[0](*data), seeded[1](*data))
    model = GNN(3, 16, 2, 2, random_features=True)
    noise = model._encode(torch.zeros(20_000, dtype=torch.int64), Segments(20_000, 1))
    assert noise.shape == (20_000, 16)
    assert abs(float(noise.mean())) < 3 * 0.25 / (20_000 * 16) ** 0.5
    assert float(noise.var()) == pytest.approx(1 / 16, rel=0.02)


def test_gated_gcn_reads_ones_where_edge_features_are_absent_or_refused():
    x, edge_index, _, batch = graphs()
    torch.manual_seed(3)
    model = network("gatedgcn", edge_channels=1).eval()
    ones = torch.ones(edge_index.size(1), 1, dtype=torch.float64)
    assert torch.equal(model(x, edge_index, None, batch), model(x, edge_index, ones, batch))
    blind = network("gatedgcn", edge_encoder="ones").eval()
    assert torch.equal(blind(x, edge_index, 7 * ones, batch), blind(x, edge_index, None, batch))
    bonds = network("gatedgcn", edge_encoder="embedding", edge_channels=4).eval()
    types = torch.ones(edge_index.size(1), dtype=torch.int64)
    assert torch.equal(bonds(x, edge_index, types, batch), bonds(x, edge_index, None, batch))


@pytest.mark.parametrize(
    ("conv", "task"), [*((conv, "graph") for conv in CONVOLUTIONS), ("gcn", "node"), ("gatedgcn", "edge")]
)
def test_graphs_without_edges_or_nodes_give_finite_predictions_and_gradients(conv, task):
    model = network(conv, task).train()
    for nodes, count in ((1, 1), (3, 1), (0, 2)):
        x = torch.zeros(nodes, dtype=torch.int64)
        out = model(x, torch.empty(2, 0, dtype=torch.int64), None, x, count)
        assert out.size(0) == {"node": nodes, "graph": count, "edge": 0}[task]
        out.sum().backward()
        assert out.isfinite().all()
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())


def cases_to_compile():
    """Augmented layers of each kind (GCN's are in tests/integration), plain ones of the other preset."""
    for conv in ("gat", "gatedgcn", "graphsage", "gin"):
        slow = pytest.mark.slow if conv == "graphsage" else ()
        yield pytest.param(conv, {"num_layers": 1, "rank": 3}, marks=slow)
    for conv in ("gcn", "graphsage"):  # which are computed otherwise
        yield pytest.param(conv, {"num_layers": 1, "preset": "2020", "task": "edge"})


@pytest.mark.parametrize(("conv", "options"), list(cases_to_compile()))
def test_networks_compile_to_one_graph_for_all_sizes(conv, options):
    """Tracing alone, which is where graph breaks happen; tests/integration compiles for real."""
    torch._dynamo.reset()
    graph_count = 0

    def backend(graph, inputs):
        nonlocal graph_count
        graph_count += 1
        return graph.forward

    model = GNN(4, 8, 3, conv=conv, encoder="embedding", heads=2, edge_channels=2, **options)
    compiled = torch.compile(model, fullgraph=True, dynamic=True, backend=backend)
    for sizes in ((5, 3, 4), (9, 2, 2, 6)):
        x, edge_index, edge_attr, batch = graphs(sizes, dtype=torch.float32)
        twin = copy.deepcopy(model)
        out = compiled(x, edge_index, edge_attr, batch, len(sizes))
        torch.testing.assert_close(out, twin(x, edge_index, edge_attr, batch, len(sizes)), rtol=1e-4, atol=1e-5)
    assert graph_count == 1


@pytest.mark.parametrize(
    ("conv", "layers", "rank"),
    [pytest.param("gatedgcn", 1, 3, marks=pytest.mark.slow), ("gat", 1, 3), ("gcn", 4, None), ("gcn", 4, 4)],
)
def test_exported_network_runs_at_other_sizes(conv, layers, rank):
    options = {"encoder": "embedding", "heads": 2, "edge_channels": 2, "task": "graph" if conv == "gcn" else "node"}
    model = GNN(4, 8, 3, layers, conv=conv, rank=rank, **options).eval()
    example = graphs((5, 3, 4), dtype=torch.float32)
    nodes, edges = torch.export.Dim("nodes", min=2), torch.export.Dim("edges", min=2)
    shapes = {
        "x": {0: nodes},
        "edge_index": {1: edges},
        "edge_attr": {0: edges},
        "batch": {0: nodes},
        "num_graphs": None,
    }
    exported = torch.export.export(model, (*example, 3), dynamic_shapes=shapes).module()
    for sizes in ((5, 3, 4), (20, 1, 7)):
        data = graphs(sizes, dtype=torch.float32)
        torch.testing.assert_close(exported(*data, 3), model(*data, 3), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("change", "error", "says"),
    [
        ({"conv": "chebyshev"}, OptionError, "'gcn', 'gat', 'gatedgcn'"),
        ({"task": "link"}, OptionError, "'node', 'graph', 'edge'"),
        ({"conv": "gat", "heads": 3}, OptionError, "multiple of heads=3"),
        ({"wiring": "B"}, OptionError, "pass 'authors-code'"),
        ({"encoder": "mlp"}, OptionError, "'embedding', 'embeddings', 'linear'"),
        ({"rank": -1}, OptionError, "rank"),
    ],
)
def test_wrong_options_are_refused(change, error, says):
    with pytest.raises(error, match=says):
        network(**change)


def test_wrong_inputs_are_refused():
    x, edge_index, edge_attr, batch = graphs()
    model = network("gatedgcn")
    with pytest.raises(ShapeError, match="one row for each of"):
        model(x, edge_index, edge_attr[1:], batch)
    with pytest.raises(ShapeError, match="node 99"):
        model(x, torch.tensor([[0], [99]]), None, batch)
    with pytest.raises(BatchError):
        model(x, edge_index, edge_attr, batch[1:])
    with pytest.raises(DTypeError, match=r"data\.x"):
        model(None, edge_index)


def test_autocast_to_bfloat16_stays_near_single_precision():
    x, edge_index, edge_attr, batch = graphs(dtype=torch.float32)
    for conv in CONVOLUTIONS:
        model = network(conv).float().eval()
        exact = model(x, edge_index, edge_attr, batch)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            rounded = model(x, edge_index, edge_attr, batch)
        torch.testing.assert_close(rounded.float(), exact, rtol=0.1, atol=0.1)


def test_held_random_features_are_the_same_at_every_pass_and_for_node_j_of_every_graph():
    model = GNN(3, 16, 2, 1, random_features=True, resample_features=False).eval()
    x, edges = torch.zeros(5, 3), torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]])
    pairs = torch.tensor([0, 0, 1, 1, 2])
    out = model(x, edges, batch=pairs, num_graphs=3)
    torch.testing.assert_close(out, model(x, edges, batch=pairs, num_graphs=3))
    torch.testing.assert_close(out[:2], out[2:4])  # two equal graphs have equal features
    mixed = torch.tensor([0, 1, 0, 2, 1])  # the same three graphs, their nodes in another order
    other = model(x, torch.tensor([[0, 2, 1, 4], [2, 0, 4, 1]]), batch=mixed, num_graphs=3)
    torch.testing.assert_close(other, out[[0, 2, 1, 4, 3]])
    assert "held_features" in model.state_dict()
    again = GNN(3, 16, 2, 1, random_features=True, resample_features=False).eval()
    again.load_state_dict(model.state_dict())
    torch.testing.assert_close(again(x, edges, batch=pairs, num_graphs=3), out)
    assert model.num_parameters == GNN(3, 16, 2, 1, random_features=True).num_parameters
