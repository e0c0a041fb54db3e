"""Devices other than CPUs and CUDA GPUs: all is computed by PyTorch's own operations."""

from pathlib import Path

import pytest
import torch
from torch.utils import backend_registration

import lrga
from lrga.ops._triton import runs_on_gpu, why_not_triton
from lrga.ops.neighbors import cpu as csr
from lrga.tasks.losses import exact
from tests.helpers.processes import run_alone

EDGES = torch.tensor([[0, 1, 2, 3, 4, 5], [1, 2, 0, 4, 5, 3]])


@pytest.mark.skipif(
    not hasattr(backend_registration, "_setup_privateuseone_for_python_backend"),
    reason="this PyTorch has no devices written in Python",
)
def test_everything_gives_on_another_device_what_it_gives_on_a_cpu(monkeypatch):
    monkeypatch.setenv("TRITON_INTERPRET", "0")
    code, out, errors = run_alone(Path(__file__).with_name("elsewhere.py"))
    assert (code, out) == (0, ""), errors


@pytest.mark.parametrize("task", ["node", "edge", "graph"])
@pytest.mark.parametrize("conv", ["gcn", "gat", "gatedgcn", "graphsage", "gin"])
def test_networks_without_values_have_shapes_and_gradients(conv, task):
    with torch.device("meta"):
        model = lrga.GNN(4, 8, 3, 2, conv=conv, rank=2, heads=2 if conv == "gat" else 1, task=task)
        x, edges, batch = torch.empty(6, 4), torch.empty(2, 6, dtype=torch.int64), torch.empty(6, dtype=torch.int64)
    out = model(x, edges, None, batch, 2)
    assert out.shape == ({"node": 6, "edge": 6, "graph": 2}[task], 3)
    assert out.device.type == "meta"
    out.sum().backward()


class Somewhere:
    """A tensor as far as the choice of an implementation looks at it."""

    def __init__(self, device):
        self.device, self.dtype = torch.device(device), torch.float32

    def is_floating_point(self):
        return True


@pytest.mark.parametrize("device", ["mps", "xpu", "hpu", "xla", "mtia", "privateuseone", "meta"])
def test_no_kernel_is_chosen_for_another_device(device):
    tensor = Somewhere(device)
    assert not runs_on_gpu(tensor)
    assert not csr.is_supported(tensor)
    assert why_not_triton(tensor) in (f"the tensors are on {tensor.device.type}", "Triton is not installed")


def test_metrics_are_exact_where_the_device_can():
    assert exact(torch.ones(2)).dtype == torch.float64

    class OnApple(torch.Tensor):
        is_mps = True

    assert exact(torch.ones(2).as_subclass(OnApple)).dtype == torch.float32
