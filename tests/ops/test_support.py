"""When the Triton kernels may be used."""

import ast
import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

import lrga
from lrga.ops import _triton as support
from lrga.ops._triton import block, compute_type, dot_precision, launch, runs_on_gpu, shared_memory, why_not_triton
from tests.helpers.processes import run_alone


def test_what_triton_does_not_take_is_named():
    assert "float64" in why_not_triton(torch.zeros(1, dtype=torch.float64))
    assert not runs_on_gpu(torch.zeros(1))
    pytest.importorskip("triton")
    assert "float" not in (why_not_triton(torch.zeros(1), torch.zeros(1, dtype=torch.int64)) or "")
    pytest.importorskip("triton")
    assert why_not_triton(torch.zeros(1, device="meta")) == "the tensors are on meta"


def test_a_missing_triton_is_named(monkeypatch):
    monkeypatch.setattr(support, "HAS_TRITON", False)
    assert why_not_triton(torch.zeros(1)) == "Triton is not installed"


@pytest.mark.parametrize("interpreted", [True, False])
def test_a_cpu_runs_them_in_the_interpreter_only(monkeypatch, interpreted):
    pytest.importorskip("triton")
    monkeypatch.setenv("TRITON_INTERPRET", "1" if interpreted else "0")
    assert (why_not_triton(torch.zeros(1)) is None) is interpreted


def test_products_follow_the_switch_of_pytorch_and_half_precision_needs_none(without_tf32):
    pytest.importorskip("triton")
    from lrga.ops.attention.batched import _constants

    for allowed, precision in ((True, "tf32"), (False, "tf32x3")):
        torch.backends.cuda.matmul.allow_tf32 = allowed
        assert dot_precision(torch.float32) == _constants(30, 30, torch.float32)["PRECISION"] == precision
        assert _constants(30, 30, torch.bfloat16)["PRECISION"] == "tf32"


@pytest.mark.parametrize(("size", "expected"), [(1, 16), (16, 16), (17, 32), (30, 32), (50, 64), (100, 128)])
def test_blocks_are_powers_of_two_that_hold_all_columns(size, expected):
    pytest.importorskip("triton")
    assert block(size) == expected


@pytest.mark.parametrize(("interpreted", "kind"), [("1", "fp32"), ("0", "bf16")])
def test_the_interpreter_multiplies_bfloat16_as_float32(monkeypatch, interpreted, kind):
    pytest.importorskip("triton")
    monkeypatch.setenv("TRITON_INTERPRET", interpreted)
    assert str(compute_type(torch.bfloat16)) == kind
    assert str(compute_type(torch.float16)) == "fp16"


SWITCHES = {  # what users may write, and whether it allows TF32
    "torch.backends.cuda.matmul.fp32_precision = 'tf32'": True,
    "torch.backends.cuda.matmul.fp32_precision = 'ieee'": False,
    "torch.backends.fp32_precision = 'tf32'": True,
    "torch.backends.fp32_precision = 'tf32'; torch.backends.cuda.matmul.fp32_precision = 'ieee'": False,
    "torch.set_float32_matmul_precision('high')": True,
    "torch.set_float32_matmul_precision('medium')": True,
    "torch.set_float32_matmul_precision('highest')": False,
    "torch.backends.cuda.matmul.allow_tf32 = True; torch.backends.cuda.matmul.fp32_precision = 'ieee'": False,
    "torch.backends.cuda.matmul.allow_tf32 = False; torch.backends.fp32_precision = 'tf32'": False,
}
AFTER_EACH_SWITCH = """
import os, sys
import torch, lrga
from lrga.ops._triton import allows_tf32, dot_precision
from lrga.training.runs.environment import environment

def is_understood(switch, allowed):
    exec(switch)
    x, edges = torch.randn(6, 4), torch.randint(0, 6, (2, 9))
    for conv in ("gcn", "gatedgcn", "gat"):
        lrga.GNN(4, 4, 2, 1, conv=conv, rank=2)(x, edges).sum().backward()
    lrga.LowRankGlobalAttention(4, 40)(x).sum().backward()
    lrga.LowRankGlobalAttention(4, 4, backend="triton")(x).sum().backward()
    environment(torch.device("cpu"))
    assert dot_precision(torch.float64) == "tf32x3"
    return allows_tf32() is allowed and (dot_precision(torch.float32) == "tf32") is allowed

for switch, allowed in SWITCHES.items():
    child = os.fork()  # PyTorch does not forget a switch
    if not child:
        try:
            os._exit(0 if is_understood(switch, allowed) else 1)
        except Exception as error:
            print(error, file=sys.stderr)
            os._exit(1)
    if os.waitpid(child, 0)[1]:
        print(switch)
"""


@pytest.mark.skipif(not hasattr(torch.backends.cuda.matmul, "fp32_precision"), reason="needs PyTorch 2.9")
def test_every_switch_of_pytorch_for_tf32_is_understood(tmp_path):
    pytest.importorskip("triton")
    script = tmp_path / "switches.py"
    script.write_text(f"SWITCHES = {SWITCHES!r}\n{AFTER_EACH_SWITCH}")
    code, out, errors = run_alone(script)
    assert (code, out) == (0, ""), errors


def test_the_switch_in_the_environment_is_understood():
    code = "from lrga.ops._triton import allows_tf32; print(int(allows_tf32()))"
    environment = os.environ | {"TORCH_ALLOW_TF32_CUBLAS_OVERRIDE": "1"}  # read when PyTorch is loaded
    done = subprocess.run([sys.executable, "-c", code], check=True, env=environment, capture_output=True, text=True)
    assert done.stdout.strip() == "1"


@pytest.mark.parametrize(("properties", "room"), [({"shared_memory_per_block_optin": 101_376}, 101_376), ({}, 0)])
def test_shared_memory_is_what_the_device_says(monkeypatch, properties, room):
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: SimpleNamespace(**properties))
    assert shared_memory.__wrapped__(torch.device("cuda", 0)) == room
    assert shared_memory.__wrapped__(torch.device("cpu")) > 1 << 40


class Kernel:
    """Stands for a Triton kernel: remembers what it was compiled and launched with, and which device was current."""

    arg_names = ("a", "b", "n", "c", "BLOCK")

    def __init__(self, current=()):
        self.compiled, self.launches, self.current = [], [], current
        self.fn = lambda: None
        self.fn.__annotations__ = {"BLOCK": "constexpr"}

    def __getitem__(self, grid):
        def compile_and_launch(*args, **constants):
            self.compiled.append((grid, args, constants, list(self.current)))
            return self.Compiled(self)

        return compile_and_launch

    class Compiled:
        def __init__(self, kernel):
            self.kernel = kernel

        def __getitem__(self, grid):
            return lambda *args: self.kernel.launches.append((grid[:3], args))


class Far(torch.Tensor):
    """A tensor that says it is on the second GPU."""

    def get_device(self):
        return 1


def test_a_kernel_is_launched_on_the_device_of_its_first_tensor(monkeypatch):
    current = [0]

    @contextmanager
    def on(device):
        current.append(device)
        yield
        current.remove(device)

    monkeypatch.setattr(torch.cuda, "current_device", lambda: current[-1])
    monkeypatch.setattr(torch.cuda, "device", on)
    kernel, x, y = Kernel(current), torch.zeros(1).as_subclass(Far), torch.zeros(2)
    launch(kernel, (3, 2), None, x, 7, y, BLOCK=4, num_warps=1)
    assert kernel.compiled == [((3, 2), (None, x, 7, y), {"BLOCK": 4, "num_warps": 1}, [0, 1])]
    assert current == [0]


def test_a_compiled_kernel_is_launched_again_without_triton_looking_for_it():
    kernel, x, y = Kernel(), torch.zeros(8), torch.ones(8)
    launch(kernel, (3, 2), None, x, 7, 0.5, BLOCK=4, num_warps=1)
    launch(kernel, (5,), None, y, 9, 0.25, BLOCK=4, num_warps=1)
    assert len(kernel.compiled) == 1
    ((grid, args),) = kernel.launches
    assert grid == (5, 1, 1)
    assert args[1] is y
    assert (args[0], *args[2:]) == (None, 9, 0.25, 4)


@pytest.mark.parametrize(
    "other",
    [
        (None, torch.zeros(8)[1:], 7, 0.5),  # memory that does not begin at a multiple of 16 bytes
        (None, torch.zeros(8, dtype=torch.float64), 7, 0.5),
        (torch.zeros(8), torch.zeros(8), 7, 0.5),
        (None, torch.zeros(8), 1, 0.5),
        (None, torch.zeros(8), 16, 0.5),
        (None, torch.zeros(8), 2**31 + 1, 0.5),
        (None, torch.zeros(8), 7.0, 0.5),
    ],
)
def test_arguments_that_triton_specialises_for_are_compiled_for(other):
    kernel = Kernel()
    launch(kernel, (1,), None, torch.zeros(8), 7, 0.5, BLOCK=4)
    launch(kernel, (1,), *other, BLOCK=4)
    launch(kernel, (1,), None, torch.zeros(8), 7, 0.5, BLOCK=8)
    launch(kernel, (1,), None, torch.zeros(8), 7, 0.5, BLOCK=4, num_warps=8)
    assert len(kernel.compiled) == 4
    assert not kernel.launches


def test_constants_are_passed_by_name():
    with pytest.raises(AssertionError, match="constants by name"):
        launch(Kernel(), (1,), None, torch.zeros(8), 7, 0.5, 4)


def test_every_kernel_is_launched_by_the_launcher():
    found = []
    for path in sorted(Path(support.__file__).parent.rglob("*.py")):
        tree = ast.parse(path.read_text())
        inside = {id(node) for top in ast.walk(tree) if _is_kernel(top) or _is_launcher(top) for node in ast.walk(top)}
        for node in ast.walk(tree):
            subscripted = isinstance(node, ast.Call) and isinstance(node.func, ast.Subscript) and id(node) not in inside
            if subscripted and not ast.unparse(node.func.value).isupper():  # constants are dictionaries
                found.append(f"{path.name}:{node.lineno}")
    assert not found


def _is_kernel(node):
    return isinstance(node, ast.FunctionDef) and any("triton.jit" in ast.unparse(d) for d in node.decorator_list)


def _is_launcher(node):
    return isinstance(node, ast.FunctionDef) and node.name == "launch"


@pytest.mark.gpu
@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_the_attention_of_another_device_than_the_current_one():
    attention = lrga.LowRankGlobalAttention(16, 8).to("cuda:1")
    x, batch = torch.randn(200, 16, device="cuda:1", requires_grad=True), torch.arange(200, device="cuda:1") // 50
    with torch.cuda.device(1):
        expected = attention(x, batch, 4)
        (of_x,) = torch.autograd.grad(expected.square().sum(), x)
    with torch.cuda.device(0):
        out = attention(x, batch, 4)
        (grad,) = torch.autograd.grad(out.square().sum(), x)
    torch.testing.assert_close(out, expected)
    torch.testing.assert_close(grad, of_x)
