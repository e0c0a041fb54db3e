"""One graph, no breaks: the layers under torch.compile and torch.export."""

import pytest
import torch
from torch_geometric.nn import GAT, GCN, GIN, GCNConv

import lrga
from lrga.models.gnn import GNN

D = 8


@pytest.fixture(autouse=True)
def fresh_compiler():
    torch._dynamo.reset()


def graphs(*sizes):
    batch = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
    n = len(batch)
    return torch.randn(n, D), torch.randint(0, n, (2, 3 * n)), batch, len(sizes)


SHAPES = [(3, 5, 7), (1, 0, 30, 2, 2, 70)]


# The first shows that there is no graph break; the others compile the backward pass too, which takes most of a minute.
BACKENDS = ["eager", *(pytest.param(name, marks=pytest.mark.slow) for name in ("aot_eager", "inductor"))]


def check(module, call, backend="inductor"):
    """Values and gradients equal the eager ones at two sets of sizes, compiled without graph breaks."""
    compiled = torch.compile(module, fullgraph=True, dynamic=True, backend=backend)
    for sizes in SHAPES:
        inputs = graphs(*sizes)
        results = []
        for run in (module, compiled):
            module.zero_grad()
            out = call(run, *inputs)
            out.square().sum().backward()
            results.append((out.detach(), [p.grad.clone() for p in module.parameters()]))
        torch.testing.assert_close(results[1][0], results[0][0], rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(results[1][1], results[0][1], rtol=1e-3, atol=1e-3)


COMPILED = {
    "attention": (lambda: lrga.LowRankGlobalAttention(D, 4, heads=2), lambda m, x, e, b, g: m(x, b, num_graphs=g)),
    "convolution": (
        lambda: lrga.LRGAConv(GCNConv(D, D), D, D, rank=4).eval(),
        lambda m, x, e, b, g: m(x, e, batch=b, num_graphs=g),
    ),
    "network of two layers": (
        lambda: GNN(D, 12, 3, 2, conv="gcn", rank=4, task="graph").eval(),
        lambda m, x, e, b, g: m(x, e, batch=b, num_graphs=g),
    ),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("make", "call"), COMPILED.values(), ids=COMPILED)
def test_layers_compile_without_breaks(make, call, backend):
    check(make(), call, backend)


@pytest.mark.parametrize("backend", BACKENDS[:2])  # Inductor of PyTorch 2.13 cannot compile PyG's GAT on a CPU
@pytest.mark.parametrize("kind", [pytest.param(GCN, marks=pytest.mark.slow), GAT])
def test_an_augmented_model_compiles_without_breaks(kind, backend):
    model = lrga.augment(kind(D, 12, 2, 3), rank=4, init="paper").eval()
    check(model, lambda m, x, e, b, g: m(x, e, batch=b, batch_size=g), backend)


@pytest.mark.slow
def test_inductor_reads_sums_over_neighbours_after_they_are_computed():
    model = lrga.augment(GIN(D, 12, 2, 3), rank=4, init="paper", exclude="convs.0").eval()
    check(model, lambda m, x, e, b, g: m(x, e, batch=None))


@pytest.mark.skipif(
    torch.__version__ < torch.torch_version.TorchVersion("2.13"),
    reason="with torch 2.11 a compiled model does not see a context that was entered outside; it says so in an error",
)
def test_a_compiled_model_follows_the_context_around_it():
    model = lrga.augment(GCN(D, 12, 1, 3), rank=4, init="paper").eval()
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    x, edge_index, batch, num_graphs = graphs(3, 5, 7)
    for assignment in (batch, batch.flip(0), batch):
        expected = model(x, edge_index, batch=assignment)
        with lrga.batch_context(assignment, num_graphs):
            torch.testing.assert_close(compiled(x, edge_index), expected, rtol=1e-4, atol=1e-5)


@torch.no_grad()
@pytest.mark.filterwarnings("ignore:While compiling, we found certain side effects")  # of a strict export: the context
@pytest.mark.parametrize("strict", [False, True])
def test_an_augmented_model_exports_for_any_number_of_nodes_and_edges(strict):
    model = lrga.augment(GCN(D, 12, 2, 3), rank=4, init="paper").eval()
    x, edge_index, batch, num_graphs = graphs(3, 5, 7)
    told = {"batch": batch, "batch_size": num_graphs}
    nodes, edges = torch.export.Dim("nodes", min=2), torch.export.Dim("edges", min=2)
    dynamic = {"x": {0: nodes}, "edge_index": {1: edges}, "batch": {0: nodes}, "batch_size": None}
    exported = torch.export.export(model, (x, edge_index), told, dynamic_shapes=dynamic, strict=strict).module()
    for sizes in ((3, 5, 7), (40, 1, 12)):
        x, edge_index, batch, _ = graphs(*sizes)
        expected = model(x, edge_index, batch=batch)
        found = exported(x, edge_index, batch=batch, batch_size=num_graphs)
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_without_fullgraph_the_number_of_graphs_is_read():
    model = lrga.LRGAConv(GCNConv(D, 12), D, 12, 4).eval()
    compiled = torch.compile(model, backend="eager")
    for sizes in ((3, 5, 7), (4, 2)):
        x, edge_index, batch, _ = graphs(*sizes)
        expected = model(x, edge_index, batch=batch)
        torch.testing.assert_close(compiled(x, edge_index, batch=batch), expected, rtol=1e-4, atol=1e-5)


SENTENCES = {"num_graphs": {"batch": torch.zeros(15, dtype=torch.int64)}, "provide_batch": {}}


@pytest.mark.parametrize("missing", SENTENCES)
@pytest.mark.parametrize("how", ["compile", "export", "export strictly"])
def test_a_trace_that_lacks_something_says_what_to_pass(how, missing):
    model = lrga.augment(GCN(D, 12, 2, 3), rank=4).eval()
    x, edge_index, _, _ = graphs(3, 5, 7)

    def trace():
        if how == "compile":
            return torch.compile(model, fullgraph=True)(x, edge_index, **SENTENCES[missing])
        return torch.export.export(model, (x, edge_index), SENTENCES[missing], strict=how == "export strictly")

    with pytest.raises(Exception, match=f"pass .*{missing}"):
        trace()
