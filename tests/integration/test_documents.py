"""Every code block and command of the README and of the documentation runs as it stands there.

How a block is marked is described in ``tests/helpers/documents.py``. Pages of a walkthrough run in
``test_walkthroughs.py``, one after the other.
"""

import pkgutil
import re
import shlex
import shutil

import pytest
from typer.main import get_command

from lrga.cli.main import app
from tests.helpers.documents import FENCE, PAGES, ROOT, blocks_of, lines_of, page_name, run_page
from tests.integration.test_walkthroughs import WALKTHROUGHS

NOT_RUN = 0  # blocks marked so, in all pages
WALKED = {name for pages in WALKTHROUGHS.values() for name in pages}


def give_graphs(folder):
    """A folder of own graphs, and another to predict."""
    nodes, edges, tops = ["graph,node,x0,x1"], ["graph,source,target"], ["graph,y,split"]
    for i in range(12):
        nodes += [f"g{i},{n},{n / 3},{(n + i) % 2}" for n in range(4)]
        edges += [f"g{i},{a},{b}" for a, b in ((0, 1), (1, 0), (2, 3), (3, 2))]
        tops.append(f"g{i},{'odd' if i % 2 else 'even'},{'train' if i < 8 else 'val' if i < 10 else 'test'}")
    for name in ("my_graphs", "new_graphs"):
        (folder / name).mkdir()
        for file, lines in (("nodes", nodes), ("edges", edges), ("graphs", tops)):
            (folder / name / f"{file}.csv").write_text("\n".join(lines) + "\n")
    people = ["ann", "bob", "cat", "dan", "eve", "fay", "gil", "hal"]
    pairs = [(a, b) for i, a in enumerate(people) for b in people[i + 1 :] if hash_of(a, b) % 3]
    lines = [f"{a},{b},{year}" for year, (a, b) in enumerate(pairs, start=2000)]
    (folder / "edges.csv").write_text("source,target,time\n" + "\n".join(lines) + "\n")


def hash_of(a, b):
    """The same in every process."""
    return sum(map(ord, a + b))


def give_pair(folder):
    """Two graphs of three nodes in files: a triangle and a path."""
    (folder / "a.g6").write_text("Bw\n")
    (folder / "b.g6").write_text("Bg\n")


def give_runs(folder):
    """Runs that a campaign has left."""
    shutil.copytree(ROOT / "reproduction" / "results" / "table1", folder / "runs")


# Files that the reader of a page has before reading it.
GIVEN = {"README": give_graphs, "explanation/theory": give_pair, "how-to/reproducing": give_runs}


@pytest.mark.parametrize("page", [page for page in PAGES if page_name(page) not in WALKED], ids=page_name)
def test_what_a_page_shows_runs(page, reader):
    name = page_name(page)
    GIVEN.get(name, lambda folder: None)(reader.folder)
    run_page(page, reader, {"__name__": "page"})
    if name == "README":  # each of the twelve graphs is predicted
        assert len((reader.folder / "predictions.csv").read_text().splitlines()) == 13


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_commands_named_in_passing_exist(page):
    prose = FENCE.sub("", page.read_text())
    for command in re.findall(r"`lrga ([^`]+)`", prose):
        words = [word for word in shlex.split(command.split("|")[0].split("…")[0]) if word not in (".", ",")]
        main = get_command(app)
        name = main.commands.get(words[0].rstrip(",")) if words else None
        assert name is not None or words[0].startswith("-"), command
        for word in words:
            option = word.split("=")[0]
            known = {name for parameter in getattr(name, "params", []) for name in parameter.opts}
            known |= {name for parameter in getattr(name, "params", []) for name in parameter.secondary_opts}
            for sub in getattr(name, "commands", {}).values():
                known |= {name for parameter in sub.params for name in parameter.opts}
            if words[0].startswith("-"):  # options before the name of the command
                known |= {name for parameter in main.params for name in parameter.opts}
            assert not option.startswith("--") or option in known | {"--help", "--version"}, command


def test_blocks_that_cannot_run_are_few_and_say_why():
    marks = [block.mark for page in PAGES for block in blocks_of(page.read_text()) if block.mark.startswith("not run")]
    assert all(len(mark.removeprefix("not run, ")) > 10 for mark in marks)
    assert len(marks) <= NOT_RUN, f"{len(marks)} blocks are not run"
    for page in PAGES:
        assert "<!-- test: parse -->" not in page.read_text(), f"{page.name}: a block is not run, and nobody says why"


def test_a_wrong_command_a_wrong_option_and_a_wrong_line_are_caught(reader):
    for words in (["lrga", "trian", "ZINC"], ["lrga", "train", "ZINC", "--modle", "gcn"], ["make", "nothing"]):
        with pytest.raises(Exception, match=r"."):
            reader.run(words, "parse")
    with pytest.raises(AssertionError, match="--nodse"):
        reader.run(shlex.split("torchrun --nproc-per-node 2 examples/partitioned.py --nodse 3"), "")
    with pytest.raises(AssertionError, match="expected"):
        reader.run(shlex.split("lrga predict runs/none graphs"), "")
    with pytest.raises(AssertionError, match="no test knows"):
        reader.run(["curl", "x"], "")


def test_blocks_are_found_with_their_marks():
    text = "a\n\n<!-- test: parse -->\n```sh\nlrga wl a b  # two\n```\n\n    lrga theory \\\n\n```python\nx = 1\n```\n"
    found = blocks_of(text)
    assert [(block.language, block.mark) for block in found] == [("sh", "parse"), ("sh", "parse"), ("python", "")]
    assert lines_of(found[0].body) == [["lrga", "wl", "a", "b"]]
    assert [block.language for block in blocks_of("```\npython x.py\n```\n\n```\n1 2\n```\n")] == ["sh", "text"]


def test_new_names_of_modules_exist():
    rows = (ROOT / "CONTRIBUTING.md").read_text().split("## Modules of version 0.1")[1].splitlines()
    cells = [row.split(" | ")[1] for row in rows if row.startswith("| `lrga.")]
    names = [name for cell in cells for name in re.findall(r"`(lrga(?:\.\w+)+)`", cell)]
    assert len(names) > 50
    for name in names:
        pkgutil.resolve_name(name)
