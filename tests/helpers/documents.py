"""The code blocks and commands of the README and of the documentation, and a reader who copies them.

Blocks of a page run from top to bottom in one empty folder and one namespace: ``python`` is executed, each line of
``sh`` by :class:`Shell` below. A comment in the line before a block says what else to do:

    <!-- test: dry-run -->                 lrga commands with --dry-run (they take a GPU, hours, or a download); the
                                           default for commands that train
    <!-- test: run -->                     as it stands, although it trains
    <!-- test: with --epochs 1 … -->       commands that train with these options added, so that they are quick
    <!-- test: parse, REASON -->           commands and options are looked up, Python is compiled, nothing runs
    <!-- test: not run, REASON -->         left out, and counted
"""

import functools
import inspect
import re
import shlex
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from typer.main import get_command
from typer.testing import CliRunner

from lrga.cli.main import app

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
TRAINING = ("demo", "train", "compare", "sweep", "reproduce")
DATA = {"text", "csv", "json", "bibtex", "yaml", "toml"}  # languages of what is shown, not run
COMMANDS = ("lrga", "make", "python", "torchrun", "pip", "git", "cd", "pytest", "source", "tensorboard")
FENCE = re.compile(r"(?:<!-- test: (?P<mark>.+?) -->\n+)?^```(?P<language>\w*)[^\n]*\n(?P<body>.*?)^```$", re.M | re.S)
INDENTED = re.compile(rf"(?<=\n\n)(?:    (?:{'|'.join(COMMANDS)}) [^\n]*\n)+", re.M)


@dataclass(frozen=True)
class Block:
    """A code block: its language, its text, what its mark says, and its line in the page."""

    language: str
    body: str
    mark: str
    line: int


def blocks_of(text):
    """The blocks of a page in their order; commands in an indented block or in an unnamed one are sh."""
    found = []
    for match in FENCE.finditer(text):
        line = text.count("\n", 0, match.start("body"))
        language = match["language"] or ("sh" if match["body"].split(" ")[0] in COMMANDS else "text")
        found.append(Block(language, match["body"], match["mark"] or "", line))
    plain = FENCE.sub(lambda match: re.sub(r"[^\n]", "", match[0]) or "\n", text)
    for match in INDENTED.finditer(plain):
        found.append(Block("sh", inspect.cleandoc(match[0]), "parse", plain.count("\n", 0, match.start()) + 1))
    return sorted(found, key=lambda block: block.line)


def lines_of(body):
    """Commands of a sh block, without comments, lines that end in \\ joined."""
    joined = body.replace("\\\n", " ")
    return [words for line in joined.splitlines() for part in line.split(" && ") if (words := shlex.split(part, True))]


def with_globs(words, folder):
    """The words with patterns replaced by the files that fit, as a shell does."""
    spread = []
    for word in words:
        fits = sorted(str(path.relative_to(folder)) for path in folder.glob(word)) if "*" in word else []
        spread += fits or [word]
    return spread


class Shell:
    """Runs the commands of documents in this process, where PyTorch is loaded already."""

    def __init__(self, folder):
        self.folder = folder

    def run(self, words, mark):
        known = {name: getattr(self, name) for name in COMMANDS if hasattr(self, name)}
        assert words[0] in COMMANDS, f"no test knows how to run {words[0]!r}; add it or mark the block"
        if words[0] in known:
            known[words[0]](with_globs(words[1:], self.folder), mark)

    def lrga(self, words, mark):
        if words[0] in TRAINING and mark == "":
            mark = "parse" if words[0] == "demo" else "dry-run"  # nobody begins hours of training by an oversight
        if mark.startswith("parse") or "--help" in words:
            parsed(words)
            return
        if mark == "dry-run":
            words = ["auto" if before == "--device" else word for before, word in zip(["", *words], words)]  # noqa: B905
            words.append("--dry-run")
        if mark.startswith("with ") and words[0] in TRAINING:
            words += shlex.split(mark.removeprefix("with "))
        result = CliRunner().invoke(app, words)
        if result.exception is not None and not (isinstance(result.exception, SystemExit) and result.exit_code == 0):
            raise AssertionError(f"lrga {shlex.join(words)}\n{result.output}{result.exception}") from result.exception

    def torchrun(self, words, mark):
        from torch.distributed.run import get_args_parser

        options = get_args_parser().parse_args(words)
        if options.module:
            assert options.training_script == "lrga"
            self.lrga(options.training_script_args, mark if mark.startswith("parse") else "dry-run")
        else:
            self.python([options.training_script, *options.training_script_args], mark)

    def python(self, words, mark):
        """Scripts are there and know their options; the examples run in test_examples.py."""
        if words[0] == "-m":
            if words[1] == "lrga":
                self.lrga(words[2:], mark)
            return
        script = ROOT / words[0]
        assert script.is_file(), script
        source = script.read_text() + "".join(path.read_text() for path in script.parent.glob("*.py"))
        for word in words[1:]:
            assert not word.startswith("--") or f'"{word.split("=")[0]}"' in source, f"{word} of {script.name}"

    def make(self, words, mark):
        done = subprocess.run(
            ["make", "-n", f"PYTHON={sys.executable}", *words], cwd=ROOT, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        for line in done.stdout.splitlines():
            if "/lrga " in line and mark.startswith("with "):  # what it would run, small
                self.lrga(shlex.split(line.partition("/lrga ")[2]), mark)

    def pip(self, words, mark):
        import tomllib

        extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
        asked = {name for word in words for group in re.findall(r"\[([^]]+)\]", word) for name in group.split(",")}
        assert asked <= set(extras), asked - set(extras)

    def pytest(self, words, mark):
        for word in words:
            assert word.startswith("-") or "/" not in word or (ROOT / word).exists(), word


def parsed(words):
    """The command and its options are known; nothing of it runs."""
    command = get_command(app)
    words = [word for word in words if word != "--help"]
    while hasattr(command, "commands"):
        assert words, "a command is named"
        assert words[0] in command.commands, f"lrga {words[0]} is no command"
        command, words = command.commands[words[0]], words[1:]
    command.make_context("lrga", list(words), resilient_parsing=not words)


def page_name(page):
    """``docs/tutorials/molecules.md`` as tutorials/molecules."""
    place = page.relative_to(ROOT / "docs") if page.is_relative_to(ROOT / "docs") else page.relative_to(ROOT)
    return place.with_suffix("").as_posix()


def run_page(page, reader, names, languages=("python", "sh")):
    """Executes the blocks of a page in their order; an error names the page and the line."""
    for block in blocks_of(page.read_text(encoding="utf-8")):
        where = f"{page.name}, line {block.line}"
        if block.mark.startswith("not run") or block.language in DATA:
            continue
        assert block.language in ("python", "sh"), f"{where}: a block of {block.language!r}"
        if block.language not in languages:
            continue
        try:
            if block.language == "python":
                code = compile(block.body, where, "exec")
                if not block.mark.startswith("parse"):
                    exec(code, names)
            else:
                for words in lines_of(block.body):
                    reader.run(words, block.mark)
        except Exception as error:
            raise AssertionError(f"{where}: {error}") from error


@pytest.fixture(scope="module")
def data_root(tmp_path_factory):
    """One folder of data for all pages: a small CLUSTER is generated once."""
    return tmp_path_factory.mktemp("data")


@pytest.fixture
def reader(tmp_path, data_root, monkeypatch):
    """Someone in an empty folder who copies what a page shows."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LRGA_DATA", str(data_root))
    with socket.socket() as probe:  # a process of a group of one, as torchrun would start it
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    for name, value in {"RANK": 0, "WORLD_SIZE": 1, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}.items():
        monkeypatch.setenv(name, str(value))
    monkeypatch.setattr(sys, "path", [*sys.path])
    # Graphs are traced as shown; the C++ that Inductor makes of them is compiled in test_compile.py.
    monkeypatch.setattr(torch, "compile", functools.partial(torch.compile, backend="aot_eager"))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # small runs, beside others
    yield Shell(tmp_path)
    torch.set_num_threads(threads)
