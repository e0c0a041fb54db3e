"""``lrga train`` as a user types it."""

import json
import os
import re
import select
import signal
import statistics
import time

import pytest

from lrga.errors import CheckpointError, DeviceError, OptionError
from tests.helpers.commands import lrga
from tests.helpers.processes import Command

SMALL = ["CLUSTER", "--sizes", "16,4,4", "--hidden", "8", "--layers", "1", "--batch-size", "4", "--device", "cpu"]


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch, one_thread):
    """An empty working folder, a data root in it, and one thread, which is faster for graphs this small."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LRGA_DATA", str(tmp_path / "data"))


def test_a_run_prints_its_result_and_where_it_is(tmp_path):
    result = lrga("train", *SMALL, "--epochs", "2")
    assert "test weighted accuracy (%)" in result.stdout
    assert "last epoch, number 2" in result.stdout
    folder = tmp_path / "runs" / "cluster-lrga-gcn-seed41"
    assert str(folder.relative_to(tmp_path)) in result.stdout
    assert json.loads((folder / "result.json").read_text())["epochs"] == 2
    assert "epoch 2/2" in result.stderr


def test_json_is_pure_and_has_the_paper_s_number_where_there_is_one():
    arguments = [a for a in SMALL if a not in ("--hidden", "8", "--layers", "1")]
    result = json.loads(lrga("train", *arguments, "--epochs", "1", "--json").stdout)
    assert result["published"] == {"mean": 68.44, "std": 0.16}
    assert result["parameters"] == 91_131
    assert result["test"] == result["last"]["test_metric"]
    assert json.loads(lrga("train", *SMALL, "--epochs", "1", "--json", "--quiet").stdout)["published"] is None


def test_options_reach_the_run(tmp_path):
    lrga(
        "train", *SMALL, "--model", "gatedgcn", "--no-lrga", "--random-features", "--seed", "95", "--lr", "0.01",
        "--patience", "2", "--dropout", "0.1", "--clip-gradient", "1", "--recalibrate-norm", "2", "--preset", "2020",
        "--precision", "bf16", "--weight-decay", "0.1", "--epochs", "1", "--output", "out", "--run-name", "mine",
    )  # fmt: skip
    config = json.loads((tmp_path / "out" / "mine" / "config.json").read_text())
    model, optimizer = config["model"], config["optimizer"]
    assert (model["model"], model["lrga"], model["random_features"], model["preset"]) == (
        "gatedgcn",
        False,
        True,
        "2020",
    )
    assert (optimizer["lr"], optimizer["patience"], optimizer["recalibrate_norm"]) == (0.01, 2, 2)
    assert (optimizer["clip_gradient"], optimizer["precision"], optimizer["weight_decay"]) == (1.0, "bf16", 0.1)
    assert config["run"]["seed"] == 95
    assert config["data"]["options"] == {"sizes": [16, 4, 4]}


def test_a_dry_run_says_what_would_be_trained_and_makes_nothing(tmp_path):
    result = lrga("train", "PATTERN", "--model", "gatedgcn", "--budget", "500k", "--dry-run")
    words = " ".join(result.stdout.split())  # wherever lines are broken
    for fact in ("train 10,000", "to be built first", "width 80", "486,742", "32 graphs", "after 5 epochs"):
        assert fact in words
    nodes = lrga("train", "Cora", "--dry-run", "--data-root", str(tmp_path)).stdout
    assert "train 140, val 500, test 1,000 nodes (to be built first)" in nodes
    plan = json.loads(lrga("train", "ZINC", "--dry-run", "--json").stdout)
    assert plan["parameters"] == 92_311
    assert list(tmp_path.iterdir()) == []


def test_a_paused_run_is_resumed(tmp_path):
    result = lrga("train", *SMALL, "--epochs", "2", "--time-limit", "0.0000001", "--run-name", "a", code=3)
    assert "lrga train --resume runs/a" in result.stdout
    result = json.loads(lrga("train", "--resume", "runs/a", "--json").stdout)
    assert (result["epochs"], result["stopped_by"]) == (2, "max_epochs")
    result = json.loads(lrga("train", "--resume", "runs/a", "--epochs", "3", "--json").stdout)
    assert result["epochs"] == 3
    assert "parameters" in lrga("train", "--resume", "runs/a", "--dry-run").stdout


def test_the_whole_command_may_stand_beside_resume(tmp_path):
    command = ["train", *SMALL, "--epochs", "2", "--json", "--resume", "here"]
    paused = json.loads(
        lrga(*command, "--time-limit", "0.0000001", code=3).stdout
    )  # nothing there yet: it begins there
    assert (paused["folder"], paused["stopped_by"]) == ("here", "time_limit")
    assert json.loads(lrga(*command).stdout)["epochs"] == 2
    with pytest.raises(CheckpointError, match="lr=0.5"):
        lrga(*command, "--lr", "0.5")
    with pytest.raises(CheckpointError, match="name='PATTERN'"):
        lrga("train", "PATTERN", "--resume", "here")


def test_own_graphs_are_trained_on(tmp_path):
    folder = tmp_path / "mine"
    folder.mkdir()
    nodes = "".join(f"{g},{n},{n / 2}\n" for g in range(20) for n in range(3))
    (folder / "nodes.csv").write_text("graph,node,x0\n" + nodes)
    (folder / "edges.csv").write_text("graph,source,target\n" + "".join(f"{g},0,1\n{g},1,0\n" for g in range(20)))
    (folder / "graphs.csv").write_text("graph,y\n" + "".join(f"{g},{'ab'[g % 2]}\n" for g in range(20)))
    arguments = [
        "train",
        "mine",
        "--model",
        "gin",
        "--hidden",
        "8",
        "--layers",
        "2",
        "--epochs",
        "2",
        "--device",
        "cpu",
    ]
    result = lrga(*arguments, "--split", "0.5,0.25,0.25", "--data-seed", "1")
    assert "test accuracy (%)" in result.stdout
    assert "paper" not in result.stdout
    assert (tmp_path / "runs" / "mine-lrga-gin-seed41").is_dir()


def write_prices(folder, *, columns="size,age"):
    """Twelve graphs to predict a price of, in a folder of CSV files."""
    folder.mkdir()
    value = {"size": lambda g, n: g + n / 10, "age": lambda g, n: 50 - g * n}
    rows = [",".join([f"{g}", f"{n}", *(f"{value[name](g, n)}" for name in columns.split(","))])
            for g in range(30) for n in range(3)]  # fmt: skip
    (folder / "nodes.csv").write_text(f"graph,node,{columns}\n" + "\n".join(rows) + "\n")
    (folder / "edges.csv").write_text("graph,source,target\n" + "".join(f"{g},0,1\n{g},1,0\n" for g in range(30)))
    (folder / "graphs.csv").write_text("graph,y\n" + "".join(f"{g},{50_000.5 + 1_000 * g}\n" for g in range(30)))


def test_own_numbers_are_learnt_and_predicted_in_their_units_by_name(tmp_path):
    write_prices(tmp_path / "prices")
    write_prices(tmp_path / "sorted", columns="age,size")
    common = ["train", "prices", "--hidden", "16", "--layers", "2", "--epochs", "20", "--lr", "0.01", "--device", "cpu"]
    result = lrga(*common, "--run-name", "scaled", "--json")
    assert json.loads(result.stdout)["last"]["test_metric"] < 10_000
    assert result.stderr.count("data: graph regression, 50,000.5 to") == 1
    assert "data: 2 node features (size, age), no edge features, undirected edges" in result.stderr
    plain = lrga(*common, "--run-name", "plain", "--no-standardize-targets", "--quiet", "--json")
    assert json.loads(plain.stdout)["last"]["test_metric"] > 40_000
    assert "data:" not in plain.stderr
    lines = [lrga("predict", "runs/scaled", name).stdout.splitlines() for name in ("prices", "sorted")]
    assert lines[0] == lines[1]
    assert all(30_000 < float(line.split(",")[1]) < 100_000 for line in lines[0][1:])
    assert "data: graph regression" in lrga(*common, "--dry-run").stderr
    with pytest.raises(OptionError, match="only for your own data"):
        lrga("train", "ZINC", "--no-standardize-targets")
    with pytest.raises(OptionError, match="standardize-targets"):
        lrga("train", "ogbl-ddi", "--standardize-targets")


def test_a_configuration_file_is_trained(tmp_path):
    lrga("train", *SMALL, "--epochs", "1", "--run-name", "a")
    lrga("train", "--config", "runs/a/config.json", "--seed", "7", "--run-name", "b")
    assert json.loads((tmp_path / "runs" / "b" / "config.json").read_text())["run"]["seed"] == 7


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ([], OptionError, "lrga train ZINC"),
        (["CLUSTER", "--model", "transformer"], OptionError, "gatedgcn"),
        (["CLUSTER", "--sizes", "many"], OptionError, "1500,250,250"),
        (["CLUSTER", "--budget", "huge"], OptionError, "100k"),
        (["CLUSTER", "--device", "gpu", "--dry-run"], DeviceError, "cpu"),
        (["--resume", "nowhere"], CheckpointError, "no such folder"),
        (["--resume", "nowhere", "--lr", "1"], CheckpointError, "no such folder"),
    ],
)
def test_what_cannot_be_trained_is_refused_in_words(arguments, error, message):
    with pytest.raises(error, match=re.escape(message)):
        lrga("train", *arguments)


ENDLESS = ["train", *SMALL, "--epochs", "1000000", "--run-name", "a"]
ENDLESS += ["--checkpoint-minutes", "0.001"]


def wait_for_checkpoint(process, folder, terminal=None):
    limit = time.monotonic() + 120
    while not (folder / "runs" / "a" / "checkpoints").is_dir():
        assert process.returncode is None
        assert time.monotonic() < limit
        if terminal is not None and select.select([terminal], [], [], 0)[0]:
            os.read(terminal, 1 << 16)
        time.sleep(0.01)


@pytest.mark.skipif(os.name != "posix", reason="sends a POSIX signal")
@pytest.mark.parametrize(
    "number",
    ["SIGUSR1", *(pytest.param(other, marks=pytest.mark.slow) for other in ("SIGINT", "SIGTERM", "SIGHUP"))],
)
def test_a_signal_stops_cleanly_and_says_how_to_go_on(tmp_path, number):
    with Command(*ENDLESS) as process:
        wait_for_checkpoint(process, tmp_path)
        os.kill(process.pid, getattr(signal, number))
        _, said = process.communicate(timeout=60)
        assert process.returncode == (3 if number == "SIGUSR1" else 128 + getattr(signal, number))
    assert "interrupted" in (tmp_path / "runs" / "a" / "log.txt").read_text()
    assert "Continue with: lrga train --resume runs/a" in said
    assert "Traceback" not in said


@pytest.mark.skipif(os.name != "posix", reason="needs a pseudo-terminal")
def test_a_terminal_that_closes_leaves_a_checkpoint(tmp_path):
    import pty

    terminal, end = pty.openpty()
    with Command(*ENDLESS, terminal=os.ttyname(end)) as process:
        wait_for_checkpoint(process, tmp_path, terminal)
        os.close(end)
        os.close(terminal)
        process.communicate(timeout=60)
        assert process.returncode == 128 + signal.SIGHUP
    assert "interrupted" in (tmp_path / "runs" / "a" / "log.txt").read_text()


def test_several_seeds_have_a_table_and_a_folder_each(tmp_path):
    result = lrga("train", *SMALL, "--epochs", "1", "--seeds", "41", "95", "--engine", "captured")
    assert "test weighted accuracy (%): " in result.stdout
    assert "±" in result.stdout
    for seed in (41, 95):
        folder = tmp_path / "runs" / f"cluster-lrga-gcn-seed{seed}"
        assert json.loads((folder / "environment.json").read_text())[-1]["engine"] == "captured"
        assert f"seed {seed}: epoch 1/1" in result.stderr
    alone = json.loads(lrga("train", *SMALL, "--epochs", "1", "--seed", "95", "--engine", "captured", "--json").stdout)
    several = json.loads(lrga("train", *SMALL, "--epochs", "1", "--seeds", "41,95", "--json", "--quiet").stdout)
    tests = [run["test"] for run in several["runs"]]
    assert tests[1] == pytest.approx(alone["test"])
    assert (several["mean"], several["std"]) == (statistics.fmean(tests), pytest.approx(statistics.stdev(tests)))


def test_published_numbers_stand_beside_several_seeds(tmp_path):
    (tmp_path / "mine.toml").write_text('[[result]]\ndataset = "CLUSTER"\nmean = 12.5\nstd = 0.5\n')
    options = [*SMALL, "--epochs", "1", "--seeds", "41", "95", "--quiet", "--run-name", "a", "--published", "mine.toml"]
    lines = lrga("train", *options).stdout.splitlines()
    assert lines[1].split() == ["seed", "test", "n", "best", "epoch", "published", "diff", "epochs", "seconds"]
    assert lines[5].split()[0] == "all"
    assert "12.50 ± 0.50" in lines[5]
    found = json.loads(lrga("train", *options, "--json").stdout)
    assert found["difference"] == pytest.approx(found["mean"] - 12.5)


def test_seeds_beside_a_configuration_file_are_all_trained(tmp_path):
    lrga("train", *SMALL, "--epochs", "1", "--run-name", "a")
    arguments = ("--config", "runs/a/config.json", "--seeds", "41", "95", "--json", "--quiet")
    several = json.loads(lrga("train", *arguments).stdout)
    assert [run["seed"] for run in several["runs"]] == [41, 95]


def test_seeds_are_named_once():
    with pytest.raises(OptionError, match="--seeds without"):
        lrga("train", *SMALL, "--seeds", "41", "95", "--seed", "3")
    with pytest.raises(OptionError, match="left over"):
        lrga("train", *SMALL, "95")
    with pytest.raises(OptionError, match="engine"):
        lrga("train", *SMALL, "--engine", "turbo")


def test_a_seed_that_fails_makes_the_command_fail(tmp_path):
    result = lrga("train", *SMALL, "--epochs", "2", "--lr", "1e30", "--seeds", "41", "95", "--quiet", code=1)
    assert "failed: expected" in result.stdout


def test_seeds_with_a_name_are_continued(tmp_path):
    options = [*SMALL, "--epochs", "2", "--seeds", "41", "95", "--run-name", "both", "--quiet"]
    paused = lrga("train", *options, "--time-limit", "1e-9", code=3)
    assert "lrga train --resume runs/both/seed41" in paused.stdout
    assert "max_epochs" in lrga("train", *options).stdout


def test_a_plan_names_blocks_norm_and_weight_decay(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    cora, zinc = (lrga("train", name, "--dry-run", "--data-root", str(tmp_path)).stdout for name in ("Cora", "ZINC"))
    assert all(words in cora for words in ("residual blocks", "LayerNorm", "weight decay 0.02", "the whole graph"))
    assert "BatchNorm" in zinc
