"""The kernels of sums, attention over edges and normalisation compile for a GPU, on a machine that has none.

Triton's interpreter runs a kernel without compiling it. Here a driver that only says which GPU there would be takes the
place of the real one: every launch compiles its kernel, specialised as the arguments are, and launches nothing.
"""

import os
import subprocess
import sys

import pytest

from lrga.ops._triton import HAS_TRITON

SCRIPT = """
import torch
from triton.backends.compiler import GPUTarget
from triton.runtime import driver
from triton.runtime.jit import JITFunction

from lrga.ops.norm import gpu as norm_ops
from lrga.ops import linear as linear_ops
from lrga.ops.neighbors import reduce
from lrga.ops.gat import definition as gat
from lrga.ops.neighbors.edges import EdgeLayout
from lrga.ops.gated.definition import gated_edges_fused
from lrga.ops.norm.definition import BatchNormState


class Driver:
    def get_current_target(self):
        return GPUTarget("cuda", 90, 32)

    def get_current_device(self):
        return 0

    def get_current_stream(self, device):
        return 0


compiled = set()


def compile_only(kernel, grid):
    def run(*args, **options):
        result = kernel.run(*args, grid=grid, warmup=True, **options)
        assert "ptx" in result.asm
        compiled.add(kernel.__name__)

    return run


driver.set_active(Driver())
gat.runs_on_gpu = reduce.runs_on_gpu = lambda *tensors: True
JITFunction.__getitem__ = compile_only


def differentiate(out, *inputs):
    torch.autograd.grad(out, inputs, torch.zeros_like(out))


for nodes, edges, dtype in ((1, 1, torch.float32), (5000, 40_000, torch.float32), (5000, 40_000, torch.bfloat16)):
    layout, _ = EdgeLayout.from_edge_index(torch.randint(0, nodes, (2, edges)), nodes)
    x = torch.zeros(nodes, 100, dtype=dtype, requires_grad=True)
    weight = torch.zeros(edges, dtype=dtype, requires_grad=True)
    heads = torch.zeros(nodes, 8, 19, dtype=dtype, requires_grad=True)
    scores = torch.zeros(nodes, 8, requires_grad=True)
    values = torch.zeros(edges, 7, dtype=dtype, requires_grad=True)
    ones = torch.ones(nodes)
    differentiate(reduce.sum_sources(x, layout, weight, dst_scale=ones, src_scale=ones), x, weight)
    differentiate(reduce.sum_sources(heads, layout, torch.zeros(edges, 8)), heads)
    differentiate(reduce.sum_edges(values, layout, nodes), values)
    differentiate(reduce.max_sources(x, layout), x)
    differentiate(gat.attention_sum(heads, scores, scores, layout, negative_slope=0.2), heads, scores)
    vectors = torch.zeros(8, 19)
    differentiate(gat.node_scores(heads, vectors, vectors)[0], heads)
for rows, width, count, before, after, momentum in (
    (1, 1, None, None, None, 0.1), (7_600, 100, torch.tensor(1), "relu", None, None),
    (60_000, 80, None, None, "relu", 0.1), (7_600, 176, None, None, "elu", 0.1),
):
    x = torch.zeros(rows, width, requires_grad=True)
    state = BatchNormState(*torch.zeros(4, width).unbind(), torch.tensor(0), momentum)
    options = {"count": count, "before": before, "after": after}
    differentiate(norm_ops.batch_norm(x, state, training=True, residual=x, **options), x)
    differentiate(norm_ops.batch_norm(x, state, training=False, **options), x)
    differentiate(norm_ops.UnitRows.apply(x, 1e-12), x)
for rows, width in ((1, 1), (7_600, 100), (60_000, 25)):
    linear_ops.launch_column_sum(torch.zeros(2, rows, width))
torch.backends.cuda.matmul.allow_tf32 = True  # where the products of edges are ours
for width, dtype, scaled in ((80, torch.float32, False), (33, torch.bfloat16, True), (200, torch.float32, False)):
    layout, _ = EdgeLayout.from_edge_index(torch.randint(0, 50, (2, 900)), 50)
    shapes = ((900, width), (width, width), (width,), (50, width), (50, width), (50, width))
    tensors = [torch.zeros(shape, dtype=dtype, requires_grad=True) for shape in shapes]
    norm = BatchNormState(*(torch.ones(width) for _ in range(4)), None)
    scale = torch.ones(900, 1, dtype=dtype) if scaled else None
    mean, new = gated_edges_fused(*tensors, layout, norm=norm, scale=scale)
    torch.autograd.grad((mean, new), tensors, (torch.zeros_like(mean), torch.zeros_like(new)))
print(*sorted(compiled))
"""


@pytest.mark.slow
@pytest.mark.skipif(not HAS_TRITON, reason="Triton is not installed")
def test_every_kernel_of_message_passing_and_normalisation_compiles_for_a_gpu(tmp_path):
    environment = {**os.environ, "TRITON_CACHE_DIR": str(tmp_path), "TRITON_INTERPRET": "0"}
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout.split() == sorted([
        "_sum_rows", "_sum_long", "_dot_edges", "_max_rows", "_max_gradient_rows", "_attend_rows",
        "_attend_gradient_rows", "dot_rows", "score_rows", "score_gradient_rows",
        "part_statistics", "whole_statistics", "normalize_rows", "part_gradients", "whole_gradients", "gradient_rows",
        "unit_rows", "sum_rows_of_part",
        "forward_by_target", "backward_by_target", "backward_by_source", "finish_statistics", "edge_output",
        "norm_backward_sums", "map_edges",
    ])  # fmt: skip
