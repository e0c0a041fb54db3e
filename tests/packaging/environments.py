"""Optional extras, and the oldest supported versions, tried in environments of their own.

    python tests/packaging/environments.py extras [NAME ...]
    python tests/packaging/environments.py floors [--torch 2.11.0] [--pyg 2.7.0] [-- pytest arguments]

``extras`` builds the wheel and installs it alone, once. Every extra is then installed into a new environment that sees
those packages, so that they are downloaded once. A statement that needs the extra must run there; without the extra it
must raise an error that names it (unless PyTorch or PyG bring the packages along).

``floors`` installs the oldest versions of torch and torch-geometric that ``pyproject.toml`` allows into an environment
that takes all other packages from this one, and runs the test suite there. Lower a floor only after this has passed.
"""

import argparse
import os
import re
import subprocess
import sys
import sysconfig
import tempfile
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
WITHOUT_LRGA = ("docs", "lightning", "onnx")  # no code of the package needs these

# Extra → what needs it.
STATEMENTS = {
    "docs": "import mkdocs, material, mkdocstrings",
    "graphgym": "import lrga.graphgym",
    "graphs": "from lrga.theory.files import read_graphs; open('a.gml', 'w').write('graph [ node [ id 0 ] ]'); "
    "read_graphs('a.gml')",
    "hub": "from lrga.hub import HubGNN; HubGNN(3, 8, 2, 1).save_pretrained('saved')",
    "lightning": "import lightning, lrga",
    "metis": "import torch; from lrga.distributed.partition.assignment import Partition; "
    "Partition.metis(torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]]), 4, 2)",
    "onnx": "import onnx, onnxruntime, onnxscript",
    "plot": "from lrga.explain.style import save_figure; save_figure('a.svg', lambda figure: None, width=1, height=1)",
    "report": "from lrga.explain.html import plotly_bundle; plotly_bundle()",
    "tensorboard": "from lrga.training.callbacks.tensorboard import TensorBoardLog; TensorBoardLog(); "
    "from torch.utils.tensorboard import SummaryWriter",
}


def command(*words: object, **options: object) -> None:
    """Runs it; its output is seen."""
    subprocess.run([str(word) for word in words], check=True, **options)  # type: ignore[call-overload]


def environment(folder: Path, behind: Path | None = None) -> Path:
    """Python of a new environment, which finds the packages of ``behind`` after its own."""
    venv.create(folder, with_pip=True)
    python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    if behind is not None:
        (site_of(python) / "behind.pth").write_text(f"{behind}\n")
    return python


def site_of(python: Path) -> Path:
    """Where an environment keeps its packages."""
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    return Path(subprocess.run([python, "-c", code], check=True, capture_output=True, text=True).stdout.strip())


def statement(python: Path, extra: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Runs what needs the extra."""
    plain = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    words = [str(python), "-W", "ignore", "-c", STATEMENTS[extra]]
    return subprocess.run(words, capture_output=True, text=True, cwd=folder, env=plain, check=False)


def try_extras(names: list[str]) -> int:
    """Installs and tries every extra; the number of those that failed."""
    failed = 0
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        command(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT)
        (wheel,) = folder.glob("*.whl")
        install = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-c", ROOT / "constraints.txt")
        alone = environment(folder / "alone")
        command(alone, *install, wheel)
        for name in names:
            without = statement(alone, name, folder)
            named = f"lrga[{name}]" in without.stderr
            python = environment(folder / name, behind=site_of(alone))
            command(python, *install, f"{wheel}[{name}]")
            found = statement(python, name, folder)
            good = found.returncode == 0 and (without.returncode == 0 or named or name in WITHOUT_LRGA)
            failed += not good
            before = "works" if without.returncode == 0 else "an error" + " that names the extra" * named
            print(f"{'ok' if good else 'FAILED':<8} {name:<12} without: {before}", flush=True)
            if not good:
                print(found.stderr or without.stderr)
    return failed


def floor(package: str) -> str:
    """The oldest version of a package that is allowed.

    Example:
        >>> floor("torch-geometric") >= "2.7"
        True
    """
    (line,) = (line for line in SETTINGS["dependencies"] if line.startswith(f"{package}>="))
    return re.search(r">=([\d.]+)", line)[1]  # type: ignore[index]


def try_floors(torch: str, pyg: str, arguments: list[str]) -> int:
    """Runs the suite with these versions in front of this environment's packages; pytest's exit code."""
    with tempfile.TemporaryDirectory() as made:
        python = environment(Path(made) / "old", behind=Path(sysconfig.get_path("purelib")))
        install = (python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps")
        command(*install, f"torch-geometric=={pyg}")
        installed = subprocess.run(
            [sys.executable, "-c", "import torch; print(torch.__version__)"], check=True, capture_output=True, text=True
        ).stdout.strip()
        if installed.split("+")[0] != torch:
            command(*install[:-1], f"torch=={torch}")  # with its dependencies
            # Not its own Triton, whose interpreter fails with newer NumPy: the tests run kernels in the interpreter.
            command(python, "-m", "pip", "uninstall", "--quiet", "--yes", "triton")
        versions = "import torch, torch_geometric as pyg; print('torch', torch.__version__, 'PyG', pyg.__version__)"
        path = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_WAIT_POLICY": "PASSIVE"}
        command(python, "-c", versions, env=path)
        return subprocess.run([str(python), "-m", "pytest", *arguments], cwd=ROOT, env=path, check=False).returncode


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    kinds = parser.add_subparsers(dest="kind", required=True)
    kinds.add_parser("extras").add_argument("names", nargs="*", choices=[*STATEMENTS, []], default=[])
    floors = kinds.add_parser("floors")
    floors.add_argument("--torch", default=floor("torch"))
    floors.add_argument("--pyg", default=floor("torch-geometric"))
    floors.add_argument("arguments", nargs="*", default=[])
    given = parser.parse_args()
    if given.kind == "extras":
        return try_extras(given.names or list(STATEMENTS))
    return try_floors(given.torch, given.pyg, given.arguments)


if __name__ == "__main__":
    sys.exit(main())
