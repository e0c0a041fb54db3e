"""Small files that ask for all memory, or that never end, are refused in a sentence before memory is taken.

The limit of memory is set here, so that the tests do not depend on the machine.
"""

import gzip
import io
import json
import os
import pickle
import signal
import subprocess
import sys
import tarfile
import zipfile
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch_geometric.data import Data
from typer.testing import CliRunner

from lrga.cli.main import app
from lrga.data.datasets.source import read_arrays
from lrga.data.datasets.superpixels.mnist import read_idx
from lrga.data.datasets.zinc import read_pickles
from lrga.data.links.split import SplitRequest
from lrga.data.own import edge_list
from lrga.data.own.csv_folder import read_table
from lrga.data.own.edge_list import load_edge_list, read_edge_list, read_pairs
from lrga.data.own.reading import load_custom
from lrga.errors import (
    CheckpointError,
    ChecksumError,
    DataError,
    DataMissingError,
    LRGAError,
    OptionError,
    UnsupportedError,
)
from lrga.experiments.loading import load_runs
from lrga.experiments.records import read_record
from lrga.io import limits
from lrga.io.archive import extract
from lrga.io.numeric_csv import read_numbers
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
    monkeypatch.setenv(limits.ENVIRONMENT_VARIABLE, "1GB")
    monkeypatch.setenv("LRGA_DATA", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)


def lrga(*arguments):
    result = CliRunner().invoke(app, list(map(str, arguments)))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def test_the_limit_is_what_is_available_unless_it_is_set(monkeypatch):
    assert limits.max_memory() == GIGABYTE
    with pytest.raises(DataError, match=r"fit into memory \(1.0 GB\), got 2.0 GB.*--max-memory SIZE or LRGA_MAX_MEM"):
        limits.check_memory(2 * GIGABYTE, "a file")
    monkeypatch.delenv(limits.ENVIRONMENT_VARIABLE)
    assert limits.max_memory() == pytest.approx(limits.available_memory(), rel=0.5)
    monkeypatch.setenv(limits.ENVIRONMENT_VARIABLE, "much")
    with pytest.raises(OptionError, match="a size of memory"):
        limits.max_memory()


def test_an_option_of_the_command_raises_it(tmp_path):
    torch.save([Data(x=torch.zeros(1, 1).expand(10**9, 1), y=0)] * 3, "wide.pt")
    with pytest.raises(DataError, match="--max-memory"):
        lrga("train", "wide.pt", "--dry-run")
    with pytest.raises(DataError, match=r"fit into memory \(2.0 GB\)"):
        lrga("--max-memory", "2GB", "train", "wide.pt", "--dry-run")


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

    def test_more_graphs_than_there_are(self, tmp_path):
        slices = {"x": torch.zeros(1, dtype=torch.long).expand(10**12)}
        torch.save(({"x": torch.zeros(3, 1)}, slices), tmp_path / "a.pt")
        with pytest.raises(DataError, match="999,999,999,999 graphs"):
            load_custom(tmp_path / "a.pt")

    def test_a_compressed_archive(self, tmp_path, monkeypatch):
        monkeypatch.setenv(limits.ENVIRONMENT_VARIABLE, "20MB")
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
        with pytest.raises(ChecksumError, match="whole arrays"):
            read_arrays(tmp_path / "a.npz", ["x"])

    def test_a_bomb(self, tmp_path, monkeypatch):
        monkeypatch.setenv(limits.ENVIRONMENT_VARIABLE, "20MB")
        npz_with_header(tmp_path / "a.npz", (3_000_000,), bytes(8 * 3_000_000))
        assert (tmp_path / "a.npz").stat().st_size < 50_000
        with pytest.raises(DataError, match="the arrays of .*fit into memory"):
            read_arrays(tmp_path / "a.npz", ["x"])

    def test_idx_files(self, tmp_path):
        head = b"\0\0\x08\x03"
        (tmp_path / "a.gz").write_bytes(gzip.compress(head + b"\xff" * 12))
        with pytest.raises(DataError, match="fit into memory"):
            read_idx(tmp_path / "a.gz")
        bomb = head + (3).to_bytes(4, "big") + (2).to_bytes(4, "big") * 2 + bytes(20_000_000)
        (tmp_path / "b.gz").write_bytes(gzip.compress(bomb))
        with pytest.raises(ChecksumError, match="as its header says, got more"):
            read_idx(tmp_path / "b.gz")


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


def bomb(path, line, times):
    with gzip.open(path, "wb", compresslevel=1) as file:
        for _ in range(times):
            file.write(line)


class TestText:
    @pytest.mark.parametrize(
        "read", [read_edge_list, lambda path: list(read_pairs(path)), lambda path: read_numbers(path)]
    )
    def test_one_line_without_end(self, tmp_path, read):
        bomb(tmp_path / "edges.csv.gz", b"1" * 1_000_000, 60)
        with pytest.raises(DataError, match="lines of at most 1 MB"):
            read(tmp_path / "edges.csv.gz")

    def test_one_line_of_a_table(self, tmp_path):
        with open(tmp_path / "nodes.csv", "w") as file:
            file.write("node,x\n0,1\n")
            file.truncate(10**8)  # zero bytes that take no place on the disk
        with pytest.raises(DataError, match="lines of at most 1 MB"):
            read_table(tmp_path / "nodes.csv")

    def test_more_lines_than_memory_holds_are_refused_after_the_first(self, tmp_path):
        bomb(tmp_path / "edges.csv.gz", b"1,2\n3,4\n" * 100_000, 100)
        told = []
        with pytest.raises(DataError, match="the edges of .* to fit into memory"):
            read_edge_list(tmp_path / "edges.csv.gz", progress=lambda *step: told.append(step))
        assert len(told) < 20
        assert told[0][2] == (tmp_path / "edges.csv.gz").stat().st_size

    def test_progress_is_told(self, tmp_path, monkeypatch):
        monkeypatch.setattr(edge_list, "BLOCK_LINES", 1_000)
        bomb(tmp_path / "edges.csv.gz", b"1,2\n3,4\n" * 750, 3)
        told = []
        assert len(read_edge_list(tmp_path / "edges.csv.gz", progress=lambda *step: told.append(step)).edge) == 4_500
        assert len(told) == 4

    def test_one_long_name_does_not_make_all_names_long(self, tmp_path):
        names = ["n" * 1_000_000, *(f"a{i}" for i in range(3_000))]
        (tmp_path / "edges.txt").write_text("".join(f"{a} {b}\n" for a, b in pairwise(names)))
        assert load_edge_list(tmp_path / "edges.txt").num_nodes == 3_001  # as an array of equally long names: 24 GB
        (tmp_path / "own").mkdir()
        rows = "".join(f"{i},{'c' * (100_000 if i == 0 else 1)}\n" for i in range(3_000))
        (tmp_path / "own" / "nodes.csv").write_text("node,y\n" + rows)
        (tmp_path / "own" / "edges.csv").write_text("source,target\n0,1\n")
        with pytest.raises(DataError, match="class names in column 'y'.*shorten the names"):
            load_custom(tmp_path / "own")


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


def zip_of(path, **members):
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return bytearray(path.read_bytes())


class TestArchives:
    def test_encrypted_members(self, tmp_path):
        content = zip_of(tmp_path / "a.zip", a=b"12")
        for place in (content.index(b"PK\x03\x04") + 6, content.index(b"PK\x01\x02") + 8):
            content[place] |= 1
        (tmp_path / "a.zip").write_bytes(content)
        with pytest.raises(DataError, match="'a', an encrypted member"):
            extract(tmp_path / "a.zip", tmp_path / "out")
        assert not (tmp_path / "out").exists()

    def test_unknown_compression(self, tmp_path):
        content = zip_of(tmp_path / "a.zip", a=b"12")
        for place in (content.index(b"PK\x03\x04") + 8, content.index(b"PK\x01\x02") + 10):
            content[place] = 97
        (tmp_path / "a.zip").write_bytes(content)
        with pytest.raises(ChecksumError, match="a sound archive"):
            extract(tmp_path / "a.zip", tmp_path / "out")

    @pytest.mark.parametrize("kind", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
    def test_damaged_members(self, tmp_path, kind):
        with zipfile.ZipFile(tmp_path / "a.zip", "w", kind) as archive:
            archive.writestr("a", bytes(range(256)) * 40)
        content = bytearray((tmp_path / "a.zip").read_bytes())
        content[45:70] = bytes(25)
        (tmp_path / "a.zip").write_bytes(content)
        with pytest.raises(ChecksumError, match="a sound archive"):
            extract(tmp_path / "a.zip", tmp_path / "out")

    @pytest.mark.parametrize("kind", ["gz", "bz2", "xz"])
    def test_damaged_tar_files(self, tmp_path, kind):
        (tmp_path / "a").write_bytes(os.urandom(50_000))
        with tarfile.open(tmp_path / "a.tar", f"w:{kind}") as archive:
            archive.add(tmp_path / "a", "a")
        content = bytearray((tmp_path / "a.tar").read_bytes())
        content[len(content) // 2 :] = bytes(len(content) // 2)
        (tmp_path / "a.tar").write_bytes(content)
        with pytest.raises((ChecksumError, UnsupportedError), match="a sound archive|it may be truncated"):
            extract(tmp_path / "a.tar", tmp_path / "out")

    def test_more_than_the_disk_holds(self, tmp_path):
        head = tarfile.TarInfo("a")
        head.size = 10**17
        (tmp_path / "a.tar").write_bytes(head.tobuf(tarfile.GNU_FORMAT) + bytes(10_240))
        with pytest.raises((DataError, ChecksumError), match="fits on the disk|a sound archive"):
            extract(tmp_path / "a.tar", tmp_path / "out")

    @pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes of POSIX")
    def test_a_pipe_is_not_waited_for(self, tmp_path):
        os.mkfifo(tmp_path / "a.zip")
        with pytest.raises(DataMissingError, match="no plain file"):
            extract(tmp_path / "a.zip", tmp_path / "out")


def test_sizes_that_would_never_be_built_are_refused():
    with pytest.raises(OptionError, match="1,000,000,000,002 graphs to fit into memory"):
        plan_run(make_config("CLUSTER", data_options={"sizes": (10**12, 1, 1)}))
    with pytest.raises(OptionError, match="negative pairs to fit into memory"):
        SplitRequest(negatives=10**12)


@pytest.mark.slow
def test_reading_a_long_file_shows_progress_and_ends_on_ctrl_c(tmp_path):
    bomb(tmp_path / "edges.txt.gz", b"".join(b"%d %d\n" % (i % 997, i % 991) for i in range(100_000)), 150)
    command = [sys.executable, "-m", "lrga", "--max-memory", "100GB", "train", "./edges.txt.gz", "--task", "link"]
    process = subprocess.Popen(
        [*command, "--dry-run"], stderr=subprocess.PIPE, text=True, cwd=tmp_path,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip
    assert process.stderr.readline().startswith("reading edges.txt.gz (bytes): ")
    process.send_signal(signal.SIGINT)
    told = process.communicate(timeout=60)[1]
    assert process.returncode not in (0, None)
    assert "Traceback" not in told
