"""Every operator of the kernels tells a compiler the truth about its results, however its inputs lie in memory."""

import importlib
import pkgutil
import sys

import pytest
import torch

import lrga.ops
from lrga.errors import UnsupportedError
from lrga.ops._operator import Operator
from lrga.ops._triton import HAS_TRITON
from lrga.ops.attention.segments import Segments, Tiles
from lrga.ops.neighbors.edges import EdgeLayout

pytestmark = pytest.mark.skipif(not HAS_TRITON, reason="Triton is not installed")
N, E, D, K, H, C = 5, 12, 6, 3, 2, 4
STORED = H * 4 * 8  # so many channels that the projections of one large graph are stored
SLOPE, EPS = 0.2, 1e-6


@pytest.fixture(autouse=True, scope="module")
def loaded():
    """Every operator is known from the import of its module on."""
    for module in pkgutil.walk_packages(lrga.ops.__path__, "lrga.ops."):
        importlib.import_module(module.name)


@pytest.fixture(autouse=True)
def two_programs(monkeypatch):
    monkeypatch.setattr("lrga.ops.attention.streaming.PROGRAMS", 2)


def operator(name):
    return getattr(torch.ops.lrga, name.split(",")[0]).default


def rand(*shape, dtype=torch.float32):
    return torch.rand(shape).to(dtype)


def tiles():
    batch = torch.arange(N) // 2
    return Tiles.of(Segments.from_batch(batch, N, 3), batch.device).table


def layout():
    made, _ = EdgeLayout.from_edge_index(torch.randint(0, N - 2, (2, E)), N)
    return made


def graph(edges):
    return [edges.source, edges.target, edges.in_ptr, edges.out_order, edges.out_target, edges.out_ptr]


def projected(name, sizes, channels=D):
    """Inputs of the attention that projects, and what its backward pass keeps."""
    x, weight, bias = rand(N, channels), torch.randn(H * 4 * K, channels), torch.randn(H * 4 * K)
    table = (tiles(),) if name == "fused" else ()
    given = (x, weight, bias, *table, H, K, EPS, torch.float32)
    out, *kept = operator(f"{name}_forward")(*given)
    return given if sizes == "forward" else (torch.randn_like(out), x, weight, bias, out, *kept, *table, H, K, EPS)


def tiled(direction):
    u, v, z, table = rand(N, H, K), rand(N, H, K), rand(N, H, C), tiles()
    out, totals = operator("tiled_forward")(u, v, z, table, EPS)
    return (u, v, z, table, EPS) if direction == "forward" else (torch.randn_like(out), u, v, z, totals, table, EPS)


def sums(kind):
    edges, x, weight, into, out_of = layout(), rand(N, H, D), rand(E, H), rand(N), rand(N)
    return {
        "sum": (x, weight, into, out_of, graph(edges), True),
        "transposed": (x, weight, edges.out_order, out_of, into, edges.out_ptr, edges.out_target, edges.source, True,
                   torch.float32),
        "dots": (x, rand(N, H, D), edges.source, edges.target, into, out_of, edges.in_ptr, torch.float32),
        "edges": (rand(E, H, D), edges.target, edges.in_ptr, True),
    }[kind]  # fmt: skip


def maxima(gradient):
    edges, x = layout(), rand(N, D)
    if not gradient:
        return x, graph(edges)
    y, _ = operator("max_sources")(x, graph(edges))
    return x, y, rand(N, D), edges.out_target, edges.out_ptr


def softmax(gradient):
    edges, x, by_source, by_target = layout(), rand(N, H, D), rand(N, H), rand(N, H)
    given = (x, by_source, by_target, graph(edges), SLOPE, True)
    if not gradient:
        return given
    kept = operator("attention_sum")(*given)
    return (rand(N, H, D), x, by_source, by_target, *kept, graph(edges), SLOPE, True)


def norm():
    x, weight, bias, count = torch.randn(N, D), rand(D), rand(D), torch.tensor(4)
    return x, rand(N, D), rand(2, D), weight, bias, count, True, None, "elu"


def gated(gradient):
    edges, nodes = layout(), [torch.randn(N, D) for _ in range(3)]
    edge_attr, weight, bias, scale = torch.randn(E, D), torch.randn(D, D), torch.randn(D), rand(E, 1)
    of_norm = [rand(D), rand(D)]
    given = (edge_attr, weight, bias, *nodes, *of_norm, [rand(D), rand(D)], None, scale, graph(edges), 0.1, 1e-5)
    if not gradient:
        return *given, True, True, True
    mean, new, *kept, _ = operator("gated_forward")(*given, True, True, True)
    kept = [kept[0], mean, *kept[1:]]
    grads = torch.randn_like(mean), torch.randn_like(new)
    return (*grads, [edge_attr, weight, *nodes], of_norm, scale, graph(edges), kept, True, True)


def gathered():
    begins = torch.tensor([[0, 0], [3, 2], [5, 6]])
    small = [torch.randint(0, 2, (6,)).to(kind) for kind in (torch.uint8, torch.int16, torch.int32)]
    starts = [torch.tensor([0, 1, 2, 3, 5, 6]) for _ in range(2)]
    return [begins, torch.zeros(3, 2, dtype=torch.int64), *small, *starts], [9, 30, 0, 0]


EXAMPLES = {
    "fused_forward": lambda: projected("fused", "forward"),
    "fused_backward": lambda: projected("fused", "backward"),
    "streaming_forward": lambda: projected("streaming", "forward"),
    "streaming_backward": lambda: projected("streaming", "backward"),
    "streaming_forward, stored": lambda: projected("streaming", "forward", STORED),
    "streaming_backward, stored": lambda: projected("streaming", "backward", STORED),
    "tiled_forward": lambda: tiled("forward"),
    "tiled_backward": lambda: tiled("backward"),
    "sum_sources": lambda: sums("sum"),
    "transposed_sum": lambda: sums("transposed"),
    "edge_dots": lambda: sums("dots"),
    "sum_edges": lambda: sums("edges"),
    "max_sources": lambda: maxima(gradient=False),
    "max_gradient": lambda: maxima(gradient=True),
    "attention_sum": lambda: softmax(gradient=False),
    "attention_sum_gradient": lambda: softmax(gradient=True),
    "node_scores": lambda: (torch.randn(N, H, D), rand(H, D), rand(H, D)),
    "node_scores_gradient": lambda: (rand(N, H), rand(N, H), torch.randn(N, H, D), rand(H, D), rand(H, D)),
    "batch_norm_gradient": norm,
    "gated_forward": lambda: gated(gradient=False),
    "gated_backward": lambda: gated(gradient=True),
    "batch_layout": gathered,
}


def turned_round(value):
    """The same numbers, columns before rows in memory; a vector is a column between others. (Node and edge numbers come
    from an EdgeLayout or from Tiles, which make them.)"""
    if isinstance(value, list):
        return [turned_round(item) for item in value]
    if not isinstance(value, torch.Tensor) or not value.is_floating_point() or not value.dim():
        return value
    if value.dim() == 1:
        return torch.stack([value, torch.full_like(value, torch.nan)], 1)[:, 0]
    return value.transpose(0, -1).contiguous().transpose(0, -1)


def test_each_operator_has_an_example():
    names = {name.split("::")[1].split(".")[0] for name in torch._C._dispatch_get_all_op_names() if "lrga::" in name}
    assert names == {name.split(",")[0] for name in EXAMPLES}


@pytest.mark.parametrize("contiguous", [True, False])
@pytest.mark.parametrize("name", EXAMPLES)
def test_a_compiler_is_told_the_shapes_types_and_strides_of_results(name, contiguous):
    given = EXAMPLES[name]()
    inputs = given if contiguous else tuple(turned_round(value) for value in given)
    checks = ("test_schema", "test_faketensor") if contiguous else "test_faketensor"
    torch.library.opcheck(operator(name), inputs, test_utils=checks)
    if not contiguous:
        torch.testing.assert_close(
            operator(name)(*inputs), operator(name)(*given), rtol=1e-4, atol=1e-5, equal_nan=True
        )


# Those with gradients: how many of their inputs have one, and the operator that has no derivative itself.
DIFFERENTIABLE = {
    "fused_forward": (3, "fused_backward"),
    "streaming_forward": (3, "streaming_backward"),
    "streaming_forward, stored": (3, "streaming_backward"),
    "tiled_forward": (3, "tiled_backward"),
    "sum_sources": (2, "transposed_sum"),
    "sum_edges": (1, None),
    "max_sources": (1, "max_gradient"),
    "attention_sum": (3, "attention_sum_gradient"),
    "node_scores": (3, "node_scores_gradient"),
    "gated_forward": (6, "gated_backward"),
}


def eager(name):
    """The operator as our modules call it, past PyTorch's dispatcher."""
    modules = [module for key, module in sys.modules.items() if key.startswith("lrga.ops")]
    operators = [value for module in modules for value in vars(module).values() if isinstance(value, Operator)]
    return next(one for one in operators if one.name == f"lrga::{name.split(',')[0]}")


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_gradients_pass_the_checks_of_pytorch_and_a_second_derivative_is_refused_by_name(name):
    checks = ("test_autograd_registration", "test_aot_dispatch_dynamic")
    count, backward = DIFFERENTIABLE[name]
    given = EXAMPLES[name]()
    inputs = (*(tensor.clone().requires_grad_() for tensor in given[:count]), *given[count:])
    torch.library.opcheck(operator(name), inputs, test_utils=checks)
    if backward is not None:
        out = eager(name)(*inputs)
        first = out if isinstance(out, torch.Tensor) else out[0]
        (grad,) = torch.autograd.grad(first.square().sum(), inputs[0], create_graph=True)
        with pytest.raises(UnsupportedError, match=f"through the GPU kernel {backward},.*float64.*'segmented'"):
            grad.sum().backward()


def without_nodes(value):
    """A tensor of nodes or of tiles, empty; others as they are."""
    if isinstance(value, list):
        return [without_nodes(item) for item in value]
    of_nodes = isinstance(value, torch.Tensor) and (value.dtype == torch.int64 or value.size(0) == N)
    return turned_round(value)[:0] if of_nodes else turned_round(value)


@pytest.mark.parametrize(
    "name", ["fused_backward", "streaming_backward", "streaming_backward, stored", "tiled_backward"]
)
def test_gradients_of_no_node_are_described_as_they_are(name):
    inputs = tuple(without_nodes(value) for value in EXAMPLES[name]())
    torch.library.opcheck(operator(name), inputs, test_utils="test_faketensor")
