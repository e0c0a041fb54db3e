"""What the README says is so; its blocks and commands run in test_documents.py."""

import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()


def test_the_files_it_points_to_are_there():
    for target in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (ROOT / target).exists(), target


def test_your_own_graphs_train_and_predict_as_shown(tmp_path):
    graphs = [f"g{i}" for i in range(12)]
    (tmp_path / "my_graphs").mkdir()
    nodes, edges, tops = ["graph,node,x0,x1"], ["graph,source,target"], ["graph,y,split"]
    for i, graph in enumerate(graphs):
        nodes += [f"{graph},{n},{n / 3},{(n + i) % 2}" for n in range(4)]
        edges += [f"{graph},{a},{b}" for a, b in ((0, 1), (1, 0), (2, 3), (3, 2))]
        tops.append(f"{graph},{'odd' if i % 2 else 'even'},{'train' if i < 8 else 'val' if i < 10 else 'test'}")
    for name, lines in (("nodes", nodes), ("edges", edges), ("graphs", tops)):
        (tmp_path / "my_graphs" / f"{name}.csv").write_text("\n".join(lines) + "\n")

    def lrga(*arguments):
        command = [sys.executable, "-m", "lrga", *arguments]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr

    shape = ("--model", "gin", "--hidden", "64", "--layers", "4")
    lrga("train", "my_graphs/", *shape, "--run-name", "mine", "--epochs", "2")
    lrga("predict", "runs/mine", "my_graphs/", "-o", "predictions.csv")
    rows = (tmp_path / "predictions.csv").read_text().splitlines()
    assert len(rows) == 1 + len(graphs)


def test_no_placeholder_is_left():
    for path in (ROOT / "README.md", *(ROOT / "docs").glob("*.md")):
        assert not re.search(r"@@\w+@@|TODO|FIXME", path.read_text()), path


def test_the_speeds_are_those_of_the_records():
    record = json.loads((ROOT / "reproduction" / "results" / "speed" / "attention-cpu.json").read_text())
    for method in ("padded LRGA", "authors' arithmetic", "PyG Performer", "PyG SGFormer", "MultiheadAttention"):
        (line,) = re.findall(rf"^\| {re.escape(method)} \|.*$", README, re.MULTILINE)
        for cell, case in zip(line.split("|")[2:5], ("uniform", "skewed", "large"), strict=True):
            (row,) = (r for r in record["rows"] if (r["case"], r["method"]) == (case, method))
            expected = None if "skipped" in row else f"{1 / row['ratio']:.1f}×"
            assert cell.strip() == expected or (expected is None and cell.strip() in ("–", "out of memory"))


def test_nowhere_else_does_the_readme_claim_a_speed():
    rest = README
    for made in (r"\| padded LRGA .*?\n\n", r"<!-- table: gpu-short -->.*?<!-- end -->"):  # each compared with records
        table = re.search(made, rest, re.DOTALL)
        assert table is not None
        rest = rest.replace(table[0], "")
    assert not re.search(r"[\d.]+ ?(?:×|times)|times (?:faster|as fast)", rest)


def test_the_screenshots_are_shown():
    for name in ("report", "explorer"):
        assert f"docs/images/{name}.png" in README
