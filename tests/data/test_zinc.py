import io
import pickle
import threading
import zipfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from data_files import Hostile, shared

from lrga.data import load, verify
from lrga.data.datasets import zinc
from lrga.data.datasets.source import BuildContext
from lrga.errors import ChecksumError, DataError, DataMissingError, OptionError
from lrga.io.progress import silent
from tests.helpers.server import served

SPLITS = ("train", "val", "test")


def molecule(n: int = 3, *, y: float = 0.5) -> dict:
    bonds = torch.zeros(n, n, dtype=torch.int8)
    for i in range(n - 1):
        bonds[i, i + 1] = bonds[i + 1, i] = 1 + i % 3
    return {
        "num_atom": n,
        "atom_type": torch.arange(n, dtype=torch.int8),
        "bond_type": bonds,
        "logP_SA_cycle_normalized": torch.tensor([y]),
    }


def write_raw(folder: Path, counts=(5, 2, 2), **changed) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for split, count in zip(SPLITS, counts, strict=True):
        molecules = [molecule(3 + i, y=i / 2) for i in range(count)]
        (folder / f"{split}.pickle").write_bytes(pickle.dumps(molecules))
        (folder / f"{split}.index").write_text(",".join(map(str, reversed(range(count)))) + "\n")
    return folder


def build(folder: Path, source: Path | None, sizes=(3, 2, 2), **options):
    place = BuildContext(raw=folder / "raw", work=folder / "work", source=source, **options)
    return zinc.build(place, **zinc.SPEC.options(sizes=sizes))


def test_the_real_files_have_the_protocols_statistics(tmp_path):
    graphs = build(tmp_path, shared("zinc"), sizes=None)
    facts = zinc.SPEC
    assert (
        {split: len(graphs[split]) for split in SPLITS} == facts.splits == {"train": 10000, "val": 1000, "test": 1000}
    )
    nodes, edges = (sum(getattr(graphs[s], f"num_{what}") for s in SPLITS) for what in ("nodes", "edges"))
    assert round(nodes / 12000, 1) == 23.2
    assert round(edges / 12000, 1) == 49.8
    assert nodes == 231_664 + 23_083 + 23_117
    train = graphs["train"]
    assert train.x.shape == (231_664, 1)
    assert train.x.dtype == train.edge_attr.dtype == torch.int64
    assert 0 <= int(train.x.min()) < int(train.x.max()) < 28
    assert set(train.edge_attr.unique().tolist()) == {1, 2, 3}
    assert train.y.dtype == torch.float32
    assert float(train.y.mean()) == pytest.approx(0.015, abs=5e-4)
    assert float(train.y.std()) == pytest.approx(2.01, abs=5e-3)


def test_graphs_equal_those_of_pyg(tmp_path):
    datasets = pytest.importorskip("torch_geometric.datasets")
    write_raw(tmp_path / "pyg/raw")
    theirs = datasets.ZINC(str(tmp_path / "pyg"), subset=True, split="train")
    ours = build(tmp_path, tmp_path / "pyg", sizes=(5, 2, 2))["train"].to_data_list()
    assert len(ours) == len(theirs) == 5
    for mine, other in zip(ours, theirs, strict=True):
        for name in ("x", "edge_index", "edge_attr", "y"):
            assert torch.equal(mine[name], other[name]), name


def test_the_index_chooses_and_orders_the_molecules(tmp_path):
    raw = write_raw(tmp_path / "raw")
    graphs = zinc.read_pickles(raw / "train.pickle", raw / "train.index", limit=2)
    assert [data.num_nodes for data in graphs] == [7, 6]
    assert [float(data.y) for data in graphs] == [2.0, 1.5]


@pytest.mark.parametrize("nested", [False, True])
def test_a_hostile_pickle_is_refused_and_nothing_of_it_runs(nested, tmp_path):
    raw, mark = write_raw(tmp_path / "zinc"), tmp_path / "ran"
    inner = Hostile(mark)
    if nested:
        content = io.BytesIO()
        torch.save(inner, content, _use_new_zipfile_serialization=False)

        class Tensor:
            def __reduce__(self):
                return torch.storage._load_from_bytes, (content.getvalue(),)

        inner = Tensor()
    (raw / "train.pickle").write_bytes(pickle.dumps([molecule() | {"atom_type": inner}]))
    with pytest.raises(DataError, match=r"train\.pickle"):
        build(tmp_path, raw)
    assert not mark.exists()


@pytest.mark.parametrize(
    ("molecules", "match"),
    [
        ({"a": 1}, "list of molecules"),
        ([], "list of molecules"),
        ([1, 2, 3], "num_atom"),
        ([{"num_atom": 3}] * 3, "atom_type"),
        ([molecule() | {"num_atom": 4}] * 3, "num_atom 4"),
        ([molecule() | {"atom_type": torch.tensor([0, 1, 28])}] * 3, "atom types 0 to 27"),
        ([molecule() | {"bond_type": torch.full((3, 3), 4)}] * 3, "bond types 0 to 3"),
        ([molecule(y=float("nan"))] * 3, "finite targets"),
        ([molecule()], "indices of existing molecules"),
    ],
)
def test_pickles_that_do_not_fit_are_refused(molecules, match, tmp_path):
    raw = write_raw(tmp_path / "zinc", counts=(3, 2, 2))
    (raw / "train.pickle").write_bytes(pickle.dumps(molecules))
    with pytest.raises(DataError, match=match):
        build(tmp_path, raw)


@pytest.mark.parametrize("text", ["", "1,a,2", "-1,0"])
def test_an_index_that_does_not_fit_is_refused(text, tmp_path):
    raw = write_raw(tmp_path / "zinc")
    (raw / "train.index").write_text(text)
    with pytest.raises((DataError, ChecksumError), match=r"train\.index"):
        build(tmp_path, raw)


def test_without_files_the_error_says_which_to_put_where(tmp_path):
    with pytest.raises(DataMissingError, match=r"train\.pickle"):
        build(tmp_path, tmp_path)
    with pytest.raises(DataMissingError) as caught:
        build(tmp_path, None, download=False)
    assert str(tmp_path / "raw/molecules.zip") in str(caught.value)


def test_sizes_beyond_the_subset_are_refused():
    with pytest.raises(OptionError, match="at most 10,000 graphs of train"):
        zinc.SPEC.options(sizes=(10_001, 1, 1))


@pytest.fixture
def site(tmp_path):
    """A server of small official files: the folder that it serves, and its address."""
    raw, folder = write_raw(tmp_path / "official"), tmp_path / "site"
    folder.mkdir()
    with zipfile.ZipFile(folder / "molecules.zip", "w") as archive:
        archive.writestr("molecules/other.bin", bytes(4_000_000))  # so that downloads overlap
        for split in SPLITS:
            archive.write(raw / f"{split}.pickle", f"molecules/{split}.pickle")
            (folder / f"{split}.index").write_bytes((raw / f"{split}.index").read_bytes())
    with served(folder) as address:
        yield address


def test_the_official_archive_is_downloaded_and_read(tmp_path, monkeypatch, site):
    files = tuple(replace(file, url=f"{site}/{file.name}") for file in zinc.SPEC.files)
    monkeypatch.setattr(zinc, "SPEC", replace(zinc.SPEC, files=files))
    graphs = build(tmp_path, None)
    assert [data.num_nodes for data in graphs["train"]] == [7, 6, 5]
    again = build(tmp_path, None, download=False)  # from then on without a network
    assert torch.equal(again["train"].x, graphs["train"].x)
    (tmp_path / "raw/molecules.zip").write_bytes((tmp_path / "raw/molecules.zip").read_bytes()[:-99])
    with pytest.raises(ChecksumError, match=r"molecules\.zip"):
        build(tmp_path, None, download=False)


def test_three_variants_are_downloaded_at_once_into_an_empty_root(tmp_path, monkeypatch, site):
    files = tuple(replace(file, url=f"{site}/{file.name}") for file in zinc.SPEC.files)
    monkeypatch.setattr(zinc, "SPEC", replace(zinc.SPEC, files=files))
    together = threading.Barrier(3)

    def train_size(size):
        together.wait(timeout=30)
        return len(load("ZINC", tmp_path, sizes=(size, 2, 2), progress=silent)["train"])

    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(train_size, (3, 4, 5))) == [3, 4, 5]
    assert all(check.problem is None for check in verify("ZINC", tmp_path))
