"""The fused edges of a GatedGCN layer against the plain form in float64: values, every gradient, running statistics.

Without a GPU the kernels run in Triton's interpreter, on small odd shapes; on one the tests marked ``gpu`` add a grid.
"""

from dataclasses import replace

import pytest
import torch

from lrga.ops._triton import HAS_TRITON
from lrga.ops.gated import gpu as gated_gpu
from lrga.ops.gated.definition import gated_edges, gated_edges_fused, gated_edges_reference
from lrga.ops.gated.gpu import Tiling
from lrga.ops.neighbors.edges import EdgeLayout
from lrga.ops.norm.definition import BatchNormState, batch_norm_reference
from tests.helpers.kernels import POISONED, padded

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
TOLERANCE = {torch.float32: 2e-5, torch.bfloat16: 6e-2, torch.float16: 1e-2}
NEAR = {torch.float32: 1e-4, torch.bfloat16: 0.1, torch.float16: 0.02}  # the kink of the ReLU
pytestmark = [pytest.mark.skipif(not HAS_TRITON, reason="Triton is not installed"), *POISONED]


@pytest.fixture(autouse=True)
def own_products(monkeypatch):
    """Our kernel for the products of edges also where TF32 is not allowed, as it is not here: it then is exact."""
    choose(monkeypatch, own=True)


def choose(monkeypatch, *, own):
    """Whose the products of edges with a narrow weight are."""
    monkeypatch.setattr(
        gated_gpu, "product_is_supported", lambda weight: own and 0 < min(weight.shape) <= max(weight.shape) <= 96
    )


def graph(nodes, edges, *, isolated=1):
    """Random edges with loops and repetitions; the last nodes have none."""
    index = torch.randint(0, max(nodes - isolated, 1), (2, edges))
    return EdgeLayout.from_edge_index(index, nodes)[0].to(DEVICE)


def draw(layout, channels, dtype=torch.float32, *, in_channels=None, offset=0.0, norm=True):
    wide = in_channels or channels
    shapes = [(layout.num_edges, wide), (channels, wide), (channels,), *[(layout.num_nodes, channels)] * 3]
    tensors = [torch.randn(shape) for shape in shapes]
    tensors[1] /= wide**0.5
    tensors[2] += offset
    tensors = [t.to(DEVICE, dtype).requires_grad_() for t in tensors]
    if not norm:
        return tensors, None
    parts = [torch.randn(channels), torch.randn(channels), torch.randn(channels), torch.rand(channels) + 0.5]
    weight, bias, mean, var = (t.to(DEVICE) for t in parts)
    return tensors, BatchNormState(weight.requires_grad_(), bias.requires_grad_(), mean, var, None, 0.1, 1e-5)


def copy_of(norm, dtype=torch.float32):
    if norm is None:
        return None
    own = {name: getattr(norm, name).detach().to(dtype, copy=True) for name in ("mean", "var")}
    leaves = {name: getattr(norm, name).detach().to(dtype, copy=True).requires_grad_() for name in ("weight", "bias")}
    return replace(norm, **own, **leaves)


def results_of(function, tensors, norm, layout, upstream, *, need_edges=True, **options):
    outputs = function(*tensors, layout, norm=norm, **options)
    total = (outputs[0] * upstream[0]).sum()
    if need_edges:
        total = total + (outputs[1] * upstream[1]).sum()
    leaves = [*tensors, *((norm.weight, norm.bias) if norm is not None else ())]
    grads = torch.autograd.grad(total, leaves, allow_unused=True)
    statistics = (norm.mean, norm.var) if norm is not None else ()
    values = [outputs[0], outputs[1] if need_edges else None, *statistics]
    return [*values, *(g if g is not None else torch.zeros_like(t) for g, t in zip(grads, leaves, strict=True))]


def near_the_kink(tensors, norm, layout, scale, *, training):
    """Which numbers a rounding might carry from one side of the ReLU to the other."""
    edge_attr, weight, bias, _, from_source, from_target = (t.detach().double() for t in tensors)
    e = edge_attr @ weight.t() + bias + from_source[layout.source] + from_target[layout.target]
    e = e if scale is None else e * scale.double()
    if norm is not None:
        with torch.no_grad():
            e = batch_norm_reference(e, copy_of(norm, torch.float64), training=training)
    return e.abs() < NEAR[tensors[0].dtype]


def compare(
    layout, channels, dtype=torch.float32, *, scaled=False, need_edges=True, residual=True, training=True, **making
):
    tensors, norm = draw(layout, channels, dtype, **making)
    scale = torch.rand(layout.num_edges, 1, device=DEVICE) + 0.2 if scaled else None
    upstream = [torch.randn(n, channels, device=DEVICE) for n in (layout.num_nodes, layout.num_edges)]
    options = {"scale": scale.to(dtype) if scaled else None, "residual": residual, "training": training}
    upstream[1][near_the_kink(tensors, norm, layout, options["scale"], training=training)] = 0
    fused = results_of(
        lambda *a, **k: gated_edges_fused(*a, need_edges=need_edges, **k),
        tensors, copy_of(norm), layout, upstream, need_edges=need_edges, **options,
    )  # fmt: skip
    exact = [t.detach().double().requires_grad_() for t in tensors]
    options["scale"] = options["scale"].double() if scaled else None
    plain = results_of(
        gated_edges_reference, exact, copy_of(norm, torch.float64), layout, [u.double() for u in upstream],
        need_edges=need_edges, **options,
    )  # fmt: skip
    many = layout.num_edges > 10_000
    if many:  # a normalisation cancels what the edges send to the bias; what is left has their rounding
        place = 6 if norm is not None else 4
        for results in (fused, plain):
            results[place] = results[place] / layout.num_edges**0.5
    assert_all_close(fused, plain, 1e-4 if many and dtype == torch.float32 else TOLERANCE[dtype])


def assert_all_close(found, wanted, tolerance):
    """Each tensor to ``tolerance`` beside its own largest number (a sum over thousands of edges has large ones)."""
    found, wanted = ([None if t is None else t.detach() for t in tensors] for tensors in (found, wanted))
    for place, (a, b) in enumerate(zip(found, wanted, strict=True)):
        if b is None or b.numel() == 0:
            assert a is None or a.numel() == 0
            continue
        assert a.shape == b.shape
        size = max(1.0, float(b.abs().max()))
        difference = (a.double() - b).abs()
        if tolerance > 1e-3:  # half precision is judged by the bulk
            error = float(difference.square().mean().sqrt()) / max(0.3, float(b.square().mean().sqrt()))
        else:
            error = float(difference.max()) / size
        assert error <= tolerance, f"result {place}: off by {error:.1e}"


@pytest.mark.parametrize(("nodes", "edges", "channels"), [(4, 17, 1), (4, 30, 20), (3, 12, 33)])
def test_values_and_gradients_are_those_of_the_plain_form(nodes, edges, channels):
    compare(graph(nodes, edges), channels)


@pytest.mark.parametrize(
    ("training", "scaled", "residual", "need_edges"),
    [
        (True, True, True, True),
        (False, True, False, True),
        (True, False, False, False),
        (False, False, True, True),
        (False, True, True, False),
    ],
)
def test_every_option_of_the_plain_form(training, scaled, residual, need_edges):
    compare(graph(5, 20), 5, training=training, scaled=scaled, residual=residual, need_edges=need_edges)


@pytest.mark.parametrize(("scaled", "need_edges"), [(True, True), (False, False)])
def test_without_a_normalisation(scaled, need_edges):
    compare(graph(5, 20), 5, norm=False, scaled=scaled, need_edges=need_edges)


def test_edges_of_another_width_come_out_as_wide_as_the_nodes():
    compare(graph(5, 20), 5, in_channels=3, residual=False)


@pytest.mark.parametrize(("dtype", "scaled"), [(torch.bfloat16, True), (torch.float16, False)])
def test_half_precision_is_summed_in_float32(dtype, scaled):
    compare(graph(5, 30), 18, dtype, scaled=scaled)


@pytest.mark.parametrize(
    ("nodes", "edges", "training"), [(0, 0, False), (4, 0, False), (1, 2, True), (4, 2, False), (4, 2, True)]
)
def test_graphs_with_hardly_an_edge(nodes, edges, training):
    compare(graph(nodes, edges, isolated=0), 3, training=training)


@pytest.mark.parametrize("tiling", [Tiling(64, 1, 1, 64), Tiling(1024, 4, 5, 16)])
def test_the_division_of_the_work_does_not_matter(monkeypatch, tiling):
    monkeypatch.setattr(gated_gpu, "tiling", tiling)
    compare(graph(7, 40), 9)


@pytest.mark.parametrize(
    ("own", "scaled", "residual"), [(True, False, True), (False, True, True), (False, False, False)]
)
def test_neither_does_who_multiplies(monkeypatch, own, scaled, residual):
    choose(monkeypatch, own=own)
    monkeypatch.setattr(gated_gpu, "tiling", Tiling(32, 1, 3, 64))
    monkeypatch.setattr(gated_gpu, "product_tiles", gated_gpu.ProductTiles(rows=16, programs=2))
    compare(graph(6, 36, isolated=3), 18, scaled=scaled, residual=residual)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_nor_does_it_in_half_precision(monkeypatch, dtype):
    choose(monkeypatch, own=False)
    compare(graph(5, 30), 18, dtype)


@pytest.mark.parametrize("own", [True, False])
def test_node_features_may_be_columns_of_one_matrix(monkeypatch, own):
    choose(monkeypatch, own=own)
    layout = graph(4, 20)
    tensors, norm = draw(layout, 6)
    whole = torch.randn(4, 24, device=DEVICE, requires_grad=True)
    upstream = [torch.randn(n, 6, device=DEVICE) for n in (4, 20)]
    found = []
    for nodes in (whole.split(6, 1)[1:], [part.contiguous() for part in whole.split(6, 1)[1:]]):
        outputs = gated_edges_fused(*tensors[:3], *nodes, layout, norm=copy_of(norm))
        found.append([*outputs, *torch.autograd.grad(outputs, [whole, tensors[0]], upstream)])
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))


@pytest.mark.parametrize(("own", "scaled", "outlier"), [(True, True, 0.0), (False, False, 0.0), (True, False, 1e4)])
def test_statistics_keep_their_digits_where_a_mean_or_the_first_row_is_large(monkeypatch, own, scaled, outlier):
    choose(monkeypatch, own=own)
    layout = graph(3, 300)
    tensors, norm = draw(layout, 4, offset=50.0 if outlier else 1e4)
    tensors[1].data.abs_()
    tensors[0].data[0] += outlier  # the row that the statistics are counted from
    fused, exact = copy_of(norm), copy_of(norm, torch.float64)
    scale = torch.full((300, 1), 0.7, device=DEVICE) if scaled else None
    gated_edges_fused(*tensors, layout, norm=fused, scale=scale)
    in_double = None if scale is None else scale.double()
    gated_edges_reference(*(t.detach().double() for t in tensors), layout, norm=exact, scale=in_double)
    torch.testing.assert_close(fused.var.double(), exact.var, rtol=1e-3, atol=1e-4)


def pad(layout, nodes, edges):
    """The layout in a batch of so many nodes and edges."""
    return padded(layout, nodes - layout.num_nodes, edges - layout.num_edges, counted=True)


@pytest.mark.parametrize("form", ["fused", "plain"])
@pytest.mark.parametrize(("real_edges", "training"), [(0, True), (1, True), (2, False), (20, True), (20, False)])
def test_padding_changes_nothing(monkeypatch, form, real_edges, training):
    monkeypatch.setattr(gated_gpu, "product_tiles", gated_gpu.ProductTiles(rows=16, programs=2))  # one only of padding
    nodes, channels, capacity = 4, 5, 47
    layout = graph(nodes, real_edges)
    filled = pad(layout, 6, capacity)
    tensors, norm = draw(filled, channels)
    upstream = [torch.randn(n, channels, device=DEVICE) for n in (6, capacity)]
    short = [t.detach()[: n or None].clone() for t, n in zip(tensors, [0, 0, 0, nodes, nodes, nodes], strict=True)]
    short[0] = tensors[0].detach()[:real_edges].clone()
    counted = copy_of(norm, torch.float64) if form == "plain" else copy_of(norm)
    kind = torch.float64 if form == "plain" else torch.float32
    function = gated_edges_reference if form == "plain" else gated_edges_fused
    if form == "plain":  # a dummy takes the gradient of padding in the plain form
        upstream[0][nodes:] = 0
        upstream[1][real_edges:] = 0
    inputs = [t.detach().to(kind).requires_grad_() for t in tensors]
    found = results_of(function, inputs, counted, filled, [u.to(kind) for u in upstream], training=training)
    alone = copy_of(norm, torch.float64)
    wanted = results_of(
        gated_edges_reference, [t.double().requires_grad_() for t in short], alone, layout,
        [upstream[0][:nodes].double(), upstream[1][:real_edges].double()], training=training,
    )  # fmt: skip
    if form == "fused":
        for place in (1, 4):  # new edges, and gradient of the given ones
            assert not found[place][real_edges:].any()
        inputs[0].data[real_edges:] = torch.nan  # which is not looked at
        again = function(*inputs, filled, norm=copy_of(norm), training=training)
        torch.testing.assert_close([again[0][:nodes], again[1]], [found[0][:nodes], found[1]])
    cut = {0: nodes, 1: real_edges, 4: real_edges, 7: nodes, 8: nodes, 9: nodes}
    found = [t[: cut[k]] if k in cut else t for k, t in enumerate(found)]
    assert_all_close(found, wanted, 2e-5)


@pytest.mark.parametrize("real_edges", [1, 30])
def test_the_rate_of_the_running_statistics_may_lie_on_the_device(real_edges):
    layout = pad(graph(6, real_edges), 8, 40)
    tensors, norm = draw(layout, 3)
    average = lambda: {"momentum": None, "batches": torch.tensor(3, device=DEVICE)}  # noqa: E731
    as_tensor, plain = (replace(copy_of(norm), **average()) for _ in range(2))
    as_number = replace(copy_of(norm), momentum=0.25)
    for own in (as_tensor, as_number):
        gated_edges_fused(*tensors, layout, norm=own)
    gated_edges_reference(*tensors, layout, norm=plain)
    assert as_tensor.batches == plain.batches == (4 if real_edges > 1 else 3)
    assert torch.equal(as_tensor.mean, as_number.mean)
    assert torch.equal(as_tensor.mean, norm.mean) == (real_edges < 2)
    torch.testing.assert_close(as_tensor.var, plain.var)


def test_results_are_the_same_every_time():
    layout = graph(4, 20)
    tensors, norm = draw(layout, 6)
    upstream = [torch.randn(n, 6, device=DEVICE) for n in (4, 20)]
    first, second = (results_of(gated_edges_fused, tensors, copy_of(norm), layout, upstream) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize(("own", "half_nodes"), [(True, True), (False, True), (False, False)])
@pytest.mark.parametrize(("dtype", "scaled", "residual"), [(torch.bfloat16, True, False), (torch.float16, False, True)])
def test_autocast_gives_the_types_that_it_gives_the_plain_form(monkeypatch, dtype, scaled, residual, own, half_nodes):
    choose(monkeypatch, own=own)
    layout = graph(6, 30)
    tensors, norm = draw(layout, 4)
    scale = torch.rand(30, 1, device=DEVICE) + 0.2 if scaled else None
    found = []
    for function in (gated_edges_fused, gated_edges_reference):
        leaves = [t.detach().clone().requires_grad_() for t in tensors]
        state = copy_of(norm)
        with torch.autocast(DEVICE, dtype):
            nodes = [t.to(dtype) if half_nodes else t for t in leaves[3:]]  # linear layers hand over half
            mean, new = function(*leaves[:3], *nodes, layout, norm=state, scale=scale, residual=residual)
        (mean.float().sum() + new.float().square().sum()).backward()
        found.append([mean, new, *(t.grad for t in leaves), state.weight.grad, state.bias.grad])
    assert [t.dtype for t in found[0]] == [t.dtype for t in found[1]]
    # Both round, each in its own places, and what reaches the bias all but cancels in a normalisation.
    assert_all_close(found[0], [t.double() for t in found[1]], 4 * TOLERANCE[dtype])


def test_a_result_that_is_not_used_needs_no_gradient():
    layout = graph(5, 20)
    tensors, norm = draw(layout, 3)
    for used in (0, 1):
        fused, plain = copy_of(norm), copy_of(norm)
        pairs = []
        for function, own in ((gated_edges_fused, fused), (gated_edges_reference, plain)):
            total = function(*tensors, layout, norm=own)[used].square().sum()
            pairs.append(torch.autograd.grad(total, tensors[1:3]))
        for a, b in zip(*pairs, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)


WIDTHS = [(torch.float32, d) for d in (1, 16, 45, 50, 60, 70, 78, 80, 128, 200)]
WIDTHS += [(torch.bfloat16, d) for d in (45, 64, 80)] + [(torch.float16, d) for d in (70, 80)]


@pytest.mark.gpu
@pytest.mark.parametrize(("dtype", "channels"), WIDTHS)
def test_grid_of_shapes(dtype, channels):
    for nodes, edges in ((3_000, 60_000), (300, 30_001), (5_000, 900)):
        layout = graph(nodes, edges, isolated=nodes // 10)
        for scaled, need_edges in ((False, True), (True, False)):
            compare(layout, channels, dtype, scaled=scaled, need_edges=need_edges)


@pytest.mark.gpu
@pytest.mark.parametrize("channels", [16, 45, 70, 80, 96, 100])
def test_products_of_edges_in_tf32(monkeypatch, channels):
    monkeypatch.setitem(TOLERANCE, torch.float32, 3e-3)
    monkeypatch.setitem(NEAR, torch.float32, 1e-2)
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = True
    try:
        compare(graph(400, 9_001, isolated=9), channels)
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


@pytest.mark.gpu
def test_the_gpu_takes_the_kernels_by_itself_and_captures_them():
    layout = pad(graph(200, 3_000), 256, 4_096)
    tensors, norm = draw(layout, 80)

    def step():
        for tensor in tensors:
            tensor.grad = None
        mean, new = gated_edges(*tensors, layout, norm=norm)
        (mean.square().sum() + new.square().sum()).backward()
        return mean, new

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        step()
    torch.cuda.current_stream().wait_stream(stream)
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        mean, new = step()
    before = norm.mean.clone()
    captured.replay()
    assert not new[3_000:].any()
    assert not torch.equal(before, norm.mean)
    wanted = gated_edges_fused(*tensors, layout, norm=copy_of(replace(norm, momentum=0.1)))
    torch.testing.assert_close(mean, wanted[0])
    torch.testing.assert_close(new, wanted[1])


@pytest.mark.gpu
@pytest.mark.parametrize("flags", [(True, False, True), (True, True, False), (False, True, True)])
def test_options_at_the_size_of_a_batch(flags):
    training, scaled, residual = flags
    compare(graph(3_800, 195_000, isolated=40), 80, training=training, scaled=scaled, residual=residual)
