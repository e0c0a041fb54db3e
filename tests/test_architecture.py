"""The layout of the package: which subpackage may import which, and how long a module may be."""

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "lrga"

# A package may import those before it in this list, and itself.
PACKAGES = (
    "errors", "version", "checks", "io", "ops", "nn", "graphgym", "distributed", "data", "models", "tasks",
    "training", "pretrained", "hub", "explain", "theory", "experiments", "paper", "speed", "report", "cli",
)  # fmt: skip
ONLY = {
    "checks": {"errors"},
    "ops": {"errors", "checks", "ops"},
    "theory": {"errors", "checks", "io", "ops", "nn", "theory"},
}
MODULES = sorted(PACKAGE.rglob("*.py"))


def package_of(module: Path) -> str:
    return module.relative_to(PACKAGE).parts[0].removesuffix(".py")


def packages_imported_by(source: str) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide which package they reach"
            names = [node.module] if node.module != "lrga" else [f"lrga.{alias.name}" for alias in node.names]
        else:
            continue
        assert "lrga" not in names, "`import lrga` loads every package: import from the package itself"
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


def test_ops_import_torch_and_triton_only():
    found = {str(m): outsiders_imported_by(m.read_text()) for m in MODULES if package_of(m) == "ops"}
    assert {name: more for name, imported in found.items() if (more := imported - {"torch", "triton"})} == {}


def wrong_imports(package: str, imported: set[str]) -> set[str]:
    allowed = ONLY.get(package, set(PACKAGES[: PACKAGES.index(package) + 1]))
    return imported - allowed


def test_a_module_imports_only_packages_above_its_own():
    wrong = {}
    for module in MODULES:
        package = package_of(module)
        if package in ("__init__", "__main__"):
            continue  # the public interface
        assert package in PACKAGES, f"{package} is not in the list of packages"
        wrong[str(module)] = wrong_imports(package, packages_imported_by(module.read_text()))
    assert {name: imported for name, imported in wrong.items() if imported} == {}


def test_an_import_from_below_is_caught():
    source = "def f():\n    from lrga.training.trainer import fit\n"
    assert wrong_imports("data", packages_imported_by(source)) == {"training"}
    assert wrong_imports("nn", packages_imported_by("from lrga import models")) == {"models"}
    assert wrong_imports("ops", packages_imported_by("import lrga.nn.attention")) == {"nn"}
    assert outsiders_imported_by("import numpy as np\nfrom torch_geometric.nn import GCN") == {
        "numpy",
        "torch_geometric",
    }
    with pytest.raises(AssertionError, match="loads every package"):
        packages_imported_by("import lrga")


def test_a_module_has_at_most_600_lines():
    lengths = {str(module): len(module.read_text().splitlines()) for module in MODULES}
    assert {name: length for name, length in lengths.items() if length > 600} == {}


def test_only_problems_ask_whether_a_run_is_about_links():
    asking = [str(m) for m in MODULES if "problems" not in m.parts and "config.link" in m.read_text()]
    assert asking == []


def test_no_module_needs_the_repository():
    """``reproduction/`` is not in the wheel: what runs from a clone is asked for by ``lrga.cli.clone`` alone."""
    assert [str(m) for m in MODULES if "reproduction" in outsiders_imported_by(m.read_text())] == []
