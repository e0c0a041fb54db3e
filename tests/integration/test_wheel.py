"""What is published: a wheel with all it needs, that works in an empty environment."""

import email
import json
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

from lrga.version import __version__

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "lrga"


def command(*words, **options):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def dist(tmp_path_factory):
    """The folder in which ``python -m build`` left sdist and wheel."""
    out = tmp_path_factory.mktemp("dist")
    command(sys.executable, "-m", "build", "--no-isolation", "--outdir", out, ROOT)
    return out


@pytest.fixture(scope="module")
def wheel(dist):
    (path,) = dist.glob("*.whl")
    return path


def test_the_wheel_holds_every_file_of_the_package(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if name.startswith("lrga/")}
    tracked = command("git", "ls-files", "src/lrga", cwd=ROOT).split() if (ROOT / ".git").exists() else []
    assert names >= {name.removeprefix("src/") for name in tracked if (ROOT / name).is_file()}
    assert "lrga/py.typed" in names
    for folder, ending in (("explain/templates", "html"), ("explain/templates", "js"), ("theory/records", "json")):
        there = {path.relative_to(PACKAGE.parent).as_posix() for path in (PACKAGE / folder).rglob(f"*.{ending}")}
        assert there, folder
        assert there <= names
    assert not [name for name in names if "__pycache__" in name]
    with zipfile.ZipFile(wheel) as archive:  # the reproduction stays in the repository
        assert {name.split("/")[0].split("-")[0] for name in archive.namelist()} == {"lrga"}


def test_the_metadata_say_what_it_is(wheel):
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        told = email.message_from_bytes(archive.read(name))
        (entry,) = (name for name in archive.namelist() if name.endswith("entry_points.txt"))
        assert "lrga = lrga.cli.main:run" in archive.read(entry).decode()
    assert (told["Name"], told["Version"]) == ("lrga", __version__)
    assert told["License-Expression"] == "MIT"
    assert told["Requires-Python"] == "<3.14,>=3.11"
    assert {"Typing :: Typed", "Programming Language :: Python :: 3.13"} <= set(told.get_all("Classifier"))
    assert told["Description-Content-Type"] == "text/markdown"
    needed = {re.split(r"[<>=; \[]", line)[0] for line in told.get_all("Requires-Dist") if "extra ==" not in line}
    assert needed == {"torch", "torch-geometric", "numpy", "scipy", "typer", "rich", "safetensors", "filelock"}


def test_twine_accepts_wheel_and_sdist(dist):
    pytest.importorskip("twine", reason="needs twine: pip install -e '.[dev]'")
    command(sys.executable, "-m", "twine", "check", "--strict", *dist.iterdir())


def test_the_version_stands_in_one_place():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert settings["project"]["dynamic"] == ["version"]
    assert "version" not in settings["project"]
    holders = [path for path in PACKAGE.rglob("*.py") if re.search(r"^__version__ = ", path.read_text(), re.MULTILINE)]
    assert [path.name for path in holders] == ["version.py"]


def test_the_sdist_holds_documents_tests_and_examples(dist):
    (path,) = dist.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    wanted = {"README.md", "LICENSE", "CHANGELOG.md", "CONTRIBUTING.md", "Makefile", "constraints.txt", "mkdocs.yml"}
    wanted |= {
        "docs/index.md",
        "docs/images/layer.svg",
        "examples/gps.py",
        "tests/conftest.py",
        "reproduction/results/README.md",
    }
    assert wanted <= names, wanted - names


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """Python of an environment with the wheel in it. What it depends on is seen through a .pth file: no download."""
    folder = tmp_path_factory.mktemp("empty")
    venv.create(folder, with_pip=False)
    python = folder / "bin" / "python"
    purelib = Path(command(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    command(sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index", "--quiet", wheel)
    # Behind the new packages on the path, and without its own .pth files: the checkout is not seen.
    (purelib / "dependencies.pth").write_text("".join(f"{path}\n" for path in sys.path if "site-packages" in path))
    return python


# Commands in one process; each ends with what it printed.
SCRIPT = """
import json, sys
import lrga
from typer.testing import CliRunner
from lrga.cli.main import app
said = [lrga.__file__]
for words in json.loads(sys.argv[1]):
    result = CliRunner().invoke(app, words)
    assert result.exit_code == (1 if "ablation" in words else 0), (words, result.output, result.exception)
    said.append(result.output or str(result.exception))
print(json.dumps(said))
"""


def test_the_wheel_works_where_the_checkout_is_not(installed, tmp_path):
    environment = {**os.environ, "LRGA_DATA": str(tmp_path / "data"), "OMP_NUM_THREADS": "1"}
    environment.pop("PYTHONPATH", None)
    (tmp_path / "a.txt").write_text("a b\nb c\nc a\n")
    (tmp_path / "b.txt").write_text("a b\nb c\n")
    commands = [
        "data ls",
        "train CLUSTER --sizes 16,8,8 --epochs 1 --batch-size 8 --device cpu --run-name a",
        "report runs -o page.html",
        "explain runs/a -o attention.html",
        "reproduce run table1 --dataset CLUSTER --model gcn --dry-run",
        "params --dataset CLUSTER",
        "wl a.txt b.txt",
        "theory learned-head",
        "demo --sizes 8,4,4 --epochs 1 --quiet",
        "reproduce ablation --dry-run",
    ]
    words = json.dumps([line.split() for line in commands])
    where, *said = json.loads(command(installed, "-c", SCRIPT, words, cwd=tmp_path, env=environment).splitlines()[-1])
    assert str(ROOT) not in where
    expected = ["CLUSTER", "", "", "", "16 runs: 16 pending.", "101,655", "yes", "recorded", "Curves"]
    for line, output, part in zip(commands, said, [*expected, "clone the repository"], strict=True):
        assert part in output, line
    assert (tmp_path / "runs" / "a" / "result.json").is_file()
    assert (tmp_path / "page.html").stat().st_size > 10_000
    script = installed.parent / "lrga"
    assert command(script, "--version", cwd=tmp_path, env=environment).strip() == __version__


@pytest.mark.slow
def test_the_wheel_installs_with_its_dependencies_into_an_empty_environment(wheel, tmp_path):
    """With nothing but the wheel named; pip finds the rest (a download of some minutes, or its cache)."""
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv" / "bin" / "python"
    pins = ROOT / "constraints.txt"
    command(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-c", pins, wheel)
    environment = {**os.environ, "LRGA_DATA": str(tmp_path / "data")}
    environment.pop("PYTHONPATH", None)
    (tmp_path / "a.txt").write_text("a b\nb c\nc a\n")
    (tmp_path / "b.txt").write_text("a b\nb c\n")
    said = {}
    for line in (
        "--version",
        "data ls",
        "train CLUSTER --sizes 16,8,8 --epochs 1 --device cpu",
        "params",
        "wl a.txt b.txt",
        "reproduce run table1 --dataset CLUSTER --model gcn --dry-run",
        "demo --quiet",
    ):
        said[line] = command(tmp_path / "venv" / "bin" / "lrga", *line.split(), cwd=tmp_path, env=environment)
    assert list((tmp_path / "runs").glob("*/result.json"))
    assert "pip install lrga[plot]" in said["demo --quiet"]  # matplotlib is an extra; the table is there without it
    assert "68.44 ± 0.16" in said["demo --quiet"]
