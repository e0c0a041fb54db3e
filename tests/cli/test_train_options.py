"""Every option of ``lrga train`` against every kind of data: used, or refused in a sentence."""

import io
from contextlib import redirect_stderr, redirect_stdout
from functools import cache

import pytest
import torch
import typer.main
from torch_geometric.data import Data
from typer.testing import CliRunner

from lrga.cli.main import app
from lrga.errors import LRGAError, OptionError

VALUES = {
    "model": ["gcn", "gat", "gatedgcn", "mf", "nothing"], "budget": ["500k", "x"], "hidden": ["8", "0"],
    "layers": ["1"], "heads": ["2"], "rank": ["3", "-1"], "attention_heads": ["2"], "preset": ["2020", "1999"],
    "wiring": ["norm-first", "A"], "encoding": ["rwse:2", "lappe", "x:1"], "recipe": ["modern", "x"],
    "dropout": ["0.5", "7"], "readout": ["sum", "x"], "epochs": ["1", "0"], "batch_size": ["4", "0"],
    "eval_batch_size": ["4"], "lr": ["0.1", "nan", "0"], "lr_factor": ["0.5", "2"], "patience": ["3", "-1"],
    "min_lr": ["1e-6"], "weight_decay": ["0.1", "inf"], "clip_gradient": ["1"], "precision": ["bf16", "x"],
    "recalibrate_norm": ["2"], "loss": ["l1", "cross_entropy", "x"], "metric": ["mae", "auc", "x"],
    "data_root": ["data"], "source": ["."], "sizes": ["10,5,5", "1,2", "x"], "data_seed": ["3", "-1"],
    "level": ["node", "graph", "x"], "task": ["classification", "regression", "link", "x"],
    "split": ["0.6,0.2,0.2", "0.9,0.2", "x"], "split_by": ["time", "random", "given", "x"],
    "predictor": ["dot", "x"], "predictor_layers": ["2"], "negatives": ["uniform", "x"], "walk_epochs": ["1"],
    "walk_length": ["5"], "walk_context": ["3"], "walk_p": ["2"], "walk_q": ["2"],
    "seed": ["7", "-1", "99999999999999999999"], "seeds": ["1,2", "x"], "device": ["cpu", "x", "cuda:99"],
    "engine": ["plain", "captured", "x"], "run_name": ["a"], "output": ["out"], "time_limit": ["1"],
    "published": ["absent.toml"], "checkpoint_minutes": ["1", "-1"],
    "settings": ["schedule=cosine", "schedule=x", "lr", "x=1"],
}  # fmt: skip
LEFT_OUT = {"resume", "config", "name"}  # which take a place, and have tests of their own
OWN = {"folder": ["own"], "folder with a split": ["divided"], "file": ["own.pt"]}
LINKS = {"edges": ["edges.csv", "--task", "link"], "edges with a split": ["given.csv", "--task", "link"]}
NAMED = {"generated": ["CLUSTER"], "downloaded": ["ZINC"], "links": ["ogbl-ddi"]}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("options")
    rows = [(g, n) for g in range(12) for n in range(3)]
    for name, split in (("own", ""), ("divided", ",split")):
        (folder / name).mkdir()
        (folder / name / "nodes.csv").write_text("graph,node,x\n" + "".join(f"{g},{n},{n}\n" for g, n in rows))
        (folder / name / "edges.csv").write_text(
            "graph,source,target\n" + "".join(f"{g},0,1\n{g},1,0\n" for g in range(12))
        )
        (folder / name / "graphs.csv").write_text(
            f"graph,y{split}\n"
            + "".join(f"{g},{g % 2}{',' + ('train', 'val', 'test')[g % 3] if split else ''}\n" for g in range(12))
        )
    edge_index = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    torch.save(
        [Data(x=torch.rand(3, 2), edge_index=edge_index, y=torch.tensor([g % 2])) for g in range(12)], folder / "own.pt"
    )
    edges = [(a, b) for a in range(20) for b in range(a + 1, min(a + 6, 20))]
    (folder / "edges.csv").write_text("source,target,time\n" + "".join(f"{a},{b},{a + b}\n" for a, b in edges))
    (folder / "given.csv").write_text(
        "source,target,split\n" + "".join(f"{a},{b},{('train', 'val', 'test')[(a + b) % 3]}\n" for a, b in edges)
    )
    return folder


@cache
def command():
    """``lrga``, made once: Typer makes it anew for every call of an app."""
    return typer.main.get_command(app)


def options_of_train():
    parameters = command().commands["train"].params
    return {parameter.name: parameter for parameter in parameters if parameter.name not in LEFT_OUT}


def try_option(data, parameter, value):
    """The exception that ends the plan of a run with one option; ``None`` if it is printed."""
    arguments = [parameter.opts[0]] if value is None else [parameter.opts[0], value]
    try:
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            command().main(["train", *data, *arguments, "--dry-run", "--device", "cpu"], prog_name="lrga")
    except SystemExit as end:
        return end if end.code else None
    except Exception as error:
        return error


@pytest.mark.parametrize("data", [*OWN, *LINKS, *NAMED])
def test_no_option_ends_in_a_traceback(place, monkeypatch, data):
    monkeypatch.chdir(place)
    monkeypatch.setenv("LRGA_DATA", str(place / "data"))
    counts = {"planned": 0, "refused": 0}
    for name, parameter in options_of_train().items():
        flags = [None] if parameter.is_flag else VALUES[name]  # a new option needs values here
        for value in flags:
            problem = try_option((OWN | LINKS | NAMED)[data], parameter, value)
            assert problem is None or isinstance(problem, (LRGAError, SystemExit)), (name, value, repr(problem))
            counts["planned" if problem is None else "refused"] += 1
    assert min(counts.values()) > 20, counts


UNUSED = [
    (["own", "--model", "gcn", "--heads", "4"], "--heads: only gat"),
    (["CLUSTER", "--model", "gin", "--heads", "4"], "--heads: only gat"),
    (["own", "--no-lrga", "--rank", "4"], "--rank: the network has no low-rank attention"),
    (["own", "--no-lrga", "--attention-heads", "2"], "--attention-heads: the network has no low-rank"),
    (["own", "--no-lrga", "--wiring", "norm-first"], "--wiring: the network has no low-rank"),
    (["edges.csv", "--task", "link", "--no-lrga", "--rank", "4"], "--rank: the network has no low-rank"),
    (["ogbl-ddi", "--no-lrga", "--rank", "4"], "--rank: the network has no low-rank"),
    (["own", "--edge-features"], "--edge-features: only gatedgcn"),
    (["CLUSTER", "--readout", "sum"], "--readout: it applies to graph predictions"),
    (["own", "--hidden", "8", "--layers", "1", "--budget", "500k"], "--budget: width and depth are given"),
    (["own", "--sizes", "10,5,5"], "--sizes: it applies to named data sets"),
    (["edges.csv", "--task", "link", "--sizes", "10,5,5"], "--sizes: it applies to named data sets"),
    (["own", "--data-root", "data"], "--data-root: your own data"),
    (["edges.csv", "--task", "link", "--data-root", "data"], "--data-root: your own data"),
    (["own", "--source", "."], "--source: it applies to named data sets"),
    (["CLUSTER", "--source", "."], "--source: CLUSTER is generated"),
    (["own.pt", "--split-by", "time"], "--split-by: it applies to edge lists"),
    (["own", "--directed"], "--directed: it applies to edge lists"),
    (["divided", "--split", "0.8,0.1,0.1"], "fractions as well as the column split of graphs.csv"),
    (["divided", "--split", "0.9,0.9"], "fractions as well as the column split of graphs.csv"),
    (["divided", "--data-seed", "3"], "a seed as well as the column split of graphs.csv"),
    (["given.csv", "--task", "link", "--split", "0.8,0.1,0.1"], "fractions as well as the column split"),
    (["--resume", "run", "--run-name", "a"], "--run-name with --resume"),
    (["--resume", "run", "--output", "out"], "--output with --resume"),
]


@pytest.mark.parametrize(("arguments", "reason"), UNUSED, ids=[" ".join(arguments) for arguments, _ in UNUSED])
def test_an_option_that_the_run_does_not_use_is_refused_with_a_reason(place, monkeypatch, arguments, reason):
    monkeypatch.chdir(place)
    before = sorted(place.iterdir())
    problem = CliRunner().invoke(app, ["train", *arguments, "--epochs", "1", "--device", "cpu"]).exception
    assert isinstance(problem, OptionError)
    assert reason in str(problem)
    assert sorted(place.iterdir()) == before
