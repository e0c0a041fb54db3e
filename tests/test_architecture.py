"""The layout of the package: which subpackage may import which, and how long a module may be."""

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "lrga"

# From the top of the house to the bottom; a room may import those above it, and itself.
ROOMS = (
    "errors", "version", "checks", "io", "ops", "nn", "distributed", "data", "models", "tasks", "training", "explain",
    "theory", "experiments", "paper", "speed", "report", "cli",
)  # fmt: skip
ONLY = {
    "checks": {"errors"},
    "ops": {"errors", "checks", "ops"},
    "theory": {"errors", "checks", "io", "ops", "nn", "theory"},
}
MODULES = sorted(PACKAGE.rglob("*.py"))


def room_of(module: Path) -> str:
    return module.relative_to(PACKAGE).parts[0].removesuffix(".py")


def rooms_imported_by(source: str) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide which room they reach"
            names = [node.module] if node.module != "lrga" else [f"lrga.{alias.name}" for alias in node.names]
        else:
            continue
        assert "lrga" not in names, "`import lrga` opens on every room: import from the room itself"
        found |= {name.split(".")[1] for name in names if name and name.startswith("lrga.")}
    return found


def outsiders_imported_by(source: str) -> set[str]:
    """Packages from outside this one and the standard library."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.split(".")[0])
    return found - set(sys.stdlib_module_names) - {"lrga"}


@pytest.mark.parametrize("module", sorted((PACKAGE / "ops").rglob("*.py")), ids=lambda m: str(m.relative_to(PACKAGE)))
def test_ops_stand_on_torch_and_triton_alone(module):
    assert outsiders_imported_by(module.read_text()) <= {"torch", "triton"}


def wrong_imports(room: str, imported: set[str]) -> set[str]:
    allowed = ONLY.get(room, set(ROOMS[: ROOMS.index(room) + 1]))
    return imported - allowed


@pytest.mark.parametrize("module", MODULES, ids=lambda m: str(m.relative_to(PACKAGE)))
def test_a_module_imports_only_rooms_above_its_own(module):
    room = room_of(module)
    if room in ("__init__", "__main__"):
        return  # the front door opens on every room
    assert room in ROOMS, f"{room} is not a room of the house"
    assert not wrong_imports(room, rooms_imported_by(module.read_text()))


def test_an_import_from_below_is_caught():
    source = "def f():\n    from lrga.training.trainer import fit\n"
    assert wrong_imports("data", rooms_imported_by(source)) == {"training"}
    assert wrong_imports("nn", rooms_imported_by("from lrga import models")) == {"models"}
    assert wrong_imports("ops", rooms_imported_by("import lrga.nn.attention")) == {"nn"}
    assert outsiders_imported_by("import numpy as np\nfrom torch_geometric.nn import GCN") == {
        "numpy",
        "torch_geometric",
    }
    with pytest.raises(AssertionError, match="opens on every room"):
        rooms_imported_by("import lrga")


@pytest.mark.parametrize("module", MODULES, ids=lambda m: str(m.relative_to(PACKAGE)))
def test_a_module_has_at_most_600_lines(module):
    assert len(module.read_text().splitlines()) <= 600


@pytest.mark.parametrize("module", MODULES, ids=lambda m: str(m.relative_to(PACKAGE)))
def test_no_module_needs_the_repository(module):
    """``reproduction/`` is not in the wheel: what runs from a clone is asked for by ``lrga.cli.clone`` alone."""
    assert "reproduction" not in outsiders_imported_by(module.read_text())
