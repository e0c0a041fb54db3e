"""The script that a memory checker watches."""

import ast
import importlib
from pathlib import Path

import pytest

from lrga.ops._triton import HAS_TRITON

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def memcheck():
    return importlib.import_module("memcheck")  # not above: collecting tests needs no Triton


def kernels_of_the_source():
    """Triton's functions that no other of them calls: those that are launched."""
    functions, called = set(), set()
    for path in (ROOT / "src" / "lrga" / "ops").rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        own = ".".join(path.relative_to(ROOT / "src" / "lrga" / "ops").with_suffix("").parts)
        places = {alias.asname or alias.name: f"{node.module.removeprefix('lrga.ops.')}.{alias.name}"
                  for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names}  # fmt: skip
        for function in (node for node in tree.body if isinstance(node, ast.FunctionDef)):
            if any(ast.unparse(decorator).startswith("triton.jit") for decorator in function.decorator_list):
                functions.add(f"{own}.{function.name}")
                names = {node.id for node in ast.walk(function) if isinstance(node, ast.Name)}
                called |= {places.get(name, f"{own}.{name}") for name in names}
    return functions - called


@pytest.mark.skipif(not HAS_TRITON, reason="Triton is not installed")
def test_it_runs_and_names_the_operators(memcheck, monkeypatch, capsys):
    monkeypatch.setattr("lrga.ops.neighbors.batch_layout.runs_on_gpu", lambda *tensors: True)
    assert "batch_layout" in memcheck.run("cpu")
    assert "model of gatedgcn\n" in capsys.readouterr().err


@pytest.mark.skipif(not HAS_TRITON, reason="Triton is not installed")
def test_it_launches_every_kernel_there_is_and_names_each_as_it_goes(memcheck, monkeypatch, capsys):
    for name, small in (("SIZES", (4, 0, 1, 2)), ("ROWS", 71), ("LARGE", 71), ("HUB", 21)):
        monkeypatch.setattr(memcheck, name, small)
    monkeypatch.setattr("lrga.ops.norm.gpu.MIN_WHOLE", 3_000)
    for name, small in (("CHUNK", 16), ("MAX_RUN", 16)):
        monkeypatch.setattr(f"lrga.ops.neighbors.gpu.{name}", small)
    wanted = kernels_of_the_source()
    assert {"neighbors.kernels._sum_long", "gated.kernels.map_edges"} <= wanted
    assert memcheck.run_kernels("cpu") == wanted
    assert set(capsys.readouterr().err.splitlines()) == {f"kernel {name}" for name in wanted}
