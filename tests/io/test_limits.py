"""Small files that ask for all memory, or that never end, are refused in a sentence before memory is taken.

The limit of memory is set here, so that the tests do not depend on the machine.
"""

import io
import json
import os
import pickle
import zipfile

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from lrga.data.datasets.source import read_arrays
from lrga.data.datasets.zinc import read_pickles
from lrga.data.links.split import split_edges
from lrga.data.own.reading import load_custom
from lrga.errors import (
    CheckpointError,
    ChecksumError,
    DataError,
    LRGAError,
    OptionError,
)
from lrga.experiments.loading import load_runs
from lrga.experiments.records import read_record
from lrga.io import limits
from lrga.io.unpickle import load_pickle, read_pt
from lrga.report.sources import gather
from lrga.training import TrainingConfig, continue_run, load_run, train
from lrga.training.presets import make_config
from lrga.training.problems.data import plan_run
from lrga.training.runs.folder import RunFolder

GIGABYTE = 10**9
DEEP = "[" * 100_000


@pytest.fixture(autouse=True)
def limit(monkeypatch, tmp_path):
    monkeypatch.setenv(limits.ENVIRONMENT_VARIABLE, "1e9")
    monkeypatch.setenv("LRGA_DATA", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)


def test_the_limit_is_what_is_available_unless_it_is_set(monkeypatch):
    with pytest.raises(DataError, match=r"memory \(1.0 GB\), got 2.0 GB.*allow more bytes with LRGA_MAX_MEMORY"):
        limits.check_memory(2 * GIGABYTE, "a file")
    monkeypatch.delenv(limits.ENVIRONMENT_VARIABLE)
    limits.check_memory(1_000_000, "a file")
    with pytest.raises(DataError, match="fit into memory"):
        limits.check_memory(100 * limits.available_memory(), "a file")


class TestTorchFiles:
    def test_a_tensor_that_repeats_one_number(self, tmp_path):
        for name in ("x", "edge_attr", "y"):
            graph = Data(x=torch.zeros(4, 1), edge_index=torch.tensor([[0], [1]]), y=torch.tensor([1]))
            graph[name] = torch.zeros(1, 1).expand(10**12, 1)
            torch.save([graph] * 3, tmp_path / "a.pt")
            assert (tmp_path / "a.pt").stat().st_size < 10_000
            with pytest.raises(DataError, match="fit into memory"):
                load_custom(tmp_path / "a.pt")

    def test_a_number_of_nodes_without_nodes(self, tmp_path):
        for count in (10**12, 10**30):
            torch.save([Data(edge_index=torch.tensor([[0], [1]]), num_nodes=count, y=0)] * 3, tmp_path / "a.pt")
            with pytest.raises(DataError, match="fit into memory"):
                load_custom(tmp_path / "a.pt")

    def test_a_compressed_archive(self, tmp_path, monkeypatch):
        monkeypatch.setenv(limits.ENVIRONMENT_VARIABLE, "20e6")
        torch.save({"edge": torch.zeros(1)}, tmp_path / "a.pt")
        with zipfile.ZipFile(tmp_path / "a.pt") as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
        with zipfile.ZipFile(tmp_path / "b.pt", "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in members.items():
                archive.writestr(name, bytes(21_000_000) if name.endswith("data/0") else content)
        assert (tmp_path / "b.pt").stat().st_size < 50_000
        for read in (read_pt, load_custom):
            with pytest.raises(DataError, match="the content of .*fit into memory"):
                read(tmp_path / "b.pt")


def test_types_that_would_be_a_table_of_all_memory(tmp_path):
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "nodes.csv").write_text("node,type,y\n" + "".join(f"{i},{i},{i % 2}\n" for i in range(20)))
    (tmp_path / "own" / "edges.csv").write_text("source,target\n0,1\n")
    assert load_custom(tmp_path / "own").node_types == 20
    with open(tmp_path / "own" / "nodes.csv", "a") as file:
        file.write(f"20,{10**11},1\n")
    with pytest.raises(
        DataError, match=r"a table of 100,000,000,001 node types .*got 25,600.0 GB.*number the types 0, 1"
    ):
        load_custom(tmp_path / "own")
    graphs = [Data(x=torch.tensor([[0], [10**11]]), edge_index=torch.tensor([[0], [1]]), y=y) for y in (0, 1)]
    torch.save(graphs * 5, tmp_path / "own.pt")
    with pytest.raises(DataError, match="100,000,000,001 node types"):
        load_custom(tmp_path / "own.pt")
    given, config = (
        dict.fromkeys(("train", "val", "test"), graphs),
        make_config("own", hidden=8, layers=1, device="cpu"),
    )
    with pytest.raises(DataError, match="100,000,000,001 node types"):  # graphs that Python passes, too
        train(config, tmp_path / "run", data=given)
    assert not (tmp_path / "run").exists()


def npz_with_header(path, shape, content=b"", dtype="<f8"):
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": dtype, "fortran_order": False, "shape": shape})
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", header.getvalue() + content)


class TestArrays:
    @pytest.mark.parametrize("shape", [(10**9,), (10**13,), (10**10, 10**10), (2**62, 4)])
    def test_a_header_that_says_more_than_there_is(self, tmp_path, shape):
        npz_with_header(tmp_path / "a.npz", shape)
        with pytest.raises((ChecksumError, DataError), match=r"a\.npz"):
            read_arrays(tmp_path / "a.npz", ["x"])

    def test_a_bomb(self, tmp_path, monkeypatch):
        monkeypatch.setenv(limits.ENVIRONMENT_VARIABLE, "20e6")
        npz_with_header(tmp_path / "a.npz", (3_000_000,), bytes(8 * 3_000_000))
        assert (tmp_path / "a.npz").stat().st_size < 50_000
        with pytest.raises(DataError, match="the arrays of .*fit into memory"):
            read_arrays(tmp_path / "a.npz", ["x"])


@pytest.mark.parametrize("text", ['{"layers": 1, "a": ' + DEEP, DEEP])
def test_brackets_without_end(tmp_path, text):
    (tmp_path / "a.json").write_text(text)
    for read in (TrainingConfig.load, read_record, lambda path: load_runs([path])):
        with pytest.raises(LRGAError, match="nested too deeply"):
            read(tmp_path / "a.json")
    assert "nested too deeply" in gather([tmp_path / "a.json"]).problems[0].reason


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("limits")
    options = {"hidden": 8, "layers": 1, "batch_size": 4, "device": "cpu", "max_epochs": 1, "root": folder / "data"}
    train(make_config("CLUSTER", data_options={"sizes": (8, 4, 4)}, **options), folder / "run")
    return folder


@pytest.fixture
def run(finished, tmp_path):
    import shutil

    shutil.copytree(finished / "run", tmp_path / "run")
    return tmp_path / "run"


def change(path, **values):
    written = json.loads(path.read_text())
    found = next(section for section in (written.get("architecture"), written.get("model")) if section)
    found |= values
    written.pop("sha256", None)  # a checksum would refuse it first
    path.write_text(json.dumps(written))


class TestRunFolders:
    @pytest.mark.parametrize("values", [{"hidden_channels": 10**8}, {"num_layers": 10**7}, {"hidden_channels": 10**12}])
    def test_a_network_beyond_all_memory(self, run, values):
        change(run / "model.json", **values)
        with pytest.raises(LRGAError, match="weights that fit model.json|a network"):
            load_run(run)
        assert len(gather([run]).runs) + len(gather([run]).problems) == 1

    @pytest.mark.parametrize("values", [{"hidden": 10**8}, {"layers": 10**7}, {"layers": 10**7, "hidden": None}])
    def test_a_configuration_of_one(self, run, values):
        change(run / "config.json", **values)
        config = RunFolder(run).config()
        for use in (plan_run, lambda config: train(config, run.with_name("new"))):
            with pytest.raises(OptionError, match="a network of .* to fit into memory"):
                use(config)
        assert not run.with_name("new").exists()

    @pytest.mark.parametrize("name", ["model.json", "result.json", "environment.json", "config.json"])
    def test_brackets_without_end(self, run, name):
        (run / name).write_text(DEEP)
        read = {
            "model.json": RunFolder(run).model_facts, "result.json": RunFolder(run).result,
            "environment.json": RunFolder(run).environments, "config.json": RunFolder(run).config,
        }[name]  # fmt: skip
        with pytest.raises(CheckpointError, match="nested too deeply"):
            read()
        gather([run])

    def test_brackets_in_epochs_and_checkpoints(self, run):
        (run / "metrics.jsonl").write_text(DEEP + "\n")
        with pytest.raises(CheckpointError, match="nested too deeply"):
            RunFolder(run).history()
        assert gather([run]).runs[0].faults
        (state,) = (run / "checkpoints").glob("*/state.json")
        state.write_text(DEEP)
        with pytest.raises(CheckpointError, match="nested too deeply"):
            RunFolder(run).checkpoint()

    @pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes of POSIX")
    @pytest.mark.parametrize("kind", ["pipe", "device"])
    @pytest.mark.parametrize(
        "name",
        ["config.json", "model.json", "environment.json", "metrics.jsonl", "result.json", "model.safetensors",
         "best.safetensors", "log.txt", ".lock", "state.json", "training.safetensors"],
    )  # fmt: skip
    def test_a_pipe_or_a_device_is_never_waited_for(self, run, finished, kind, name):
        found = sorted(run.rglob(name))[-1]
        found.unlink()
        os.mkfifo(found) if kind == "pipe" else found.symlink_to("/dev/zero")
        for use in (
            lambda: load_run(run),
            lambda: load_run(run, which="best"),
            lambda: continue_run(run, max_epochs=2),
            lambda: gather([run]),
            lambda: RunFolder(run).history(),
            lambda: RunFolder(run).checkpoint(),
        ):
            try:
                use()
            except LRGAError as error:
                assert str(found.parent) in str(error)  # noqa: PT017  (some uses do not read this file)

    @pytest.mark.parametrize("name", ["log.txt", "metrics.jsonl", ".lock"])
    def test_a_link_out_of_the_folder_is_not_written_through(self, run, tmp_path, name):
        mine = tmp_path / "mine.txt"
        mine.write_text((run / name).read_text() * 2)
        before = mine.read_text()
        (run / name).unlink()
        (run / name).symlink_to(mine)
        with pytest.raises(CheckpointError, match="a link to another file"):
            continue_run(run, max_epochs=3)
        assert mine.read_text() == before


class TestPickles:
    @pytest.mark.parametrize("program", [b"\x80\x02]r\xff\xff\xff\xff.", b"(lp99999999999\n."])
    def test_a_far_place_in_the_memo_takes_no_memory(self, program):
        assert load_pickle(program) == []

    def test_molecules_that_repeat_one_bond(self, tmp_path):
        n = 10**6
        molecule = {
            "num_atom": n, "atom_type": torch.zeros(1, dtype=torch.long).expand(n),
            "bond_type": torch.zeros(1, 1, dtype=torch.long).expand(n, n), "logP_SA_cycle_normalized": torch.zeros(1),
        }  # fmt: skip
        (tmp_path / "a.pickle").write_bytes(pickle.dumps([molecule], 2))
        (tmp_path / "a.index").write_text("0")
        with pytest.raises(DataError, match="molecule 0 of .* fit into memory"):
            read_pickles(tmp_path / "a.pickle", tmp_path / "a.index")


def test_sizes_that_would_never_be_built_are_refused():
    with pytest.raises(OptionError, match="1,000,000,000,002 graphs to fit into memory"):
        plan_run(make_config("CLUSTER", data_options={"sizes": (10**12, 1, 1)}))
    with pytest.raises(OptionError, match="negative pairs to fit into memory"):
        split_edges(np.array([[0, 1]]), None, negatives=10**12)
