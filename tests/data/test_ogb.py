import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from data_files import write_csv

from lrga.data import load
from lrga.data.datasets.building import verify
from lrga.data.datasets.ogb import SPECS
from lrga.data.datasets.source import BuildContext
from lrga.data.datasets.spec import dataset_specs, spec_of
from lrga.errors import ChecksumError, DataError, DataMissingError
from tests.helpers.server import served

DDI = Path(__file__).resolve().parents[3] / "shared" / "data" / "ogbl_ddi"


def read(name, folder):
    """The set in ``folder``, without writing anything."""
    return spec_of(name).build(BuildContext(folder, folder, folder))


@pytest.mark.parametrize("name", [spec.name for spec in SPECS])
def test_a_set_of_ogbs_layout_is_read(ogb_folder, tmp_path, name):
    folder = ogb_folder(name)
    data = load(name, tmp_path / "root", source=folder)
    edge = np.loadtxt(folder / "raw" / "edge.csv.gz", delimiter=",", dtype=np.int64)
    # The layout of OGB's own reader: every edge followed by its inverse.
    wanted = np.repeat(edge.T, 2, axis=1)
    wanted[0, 1::2], wanted[1, 1::2] = wanted[1, 0::2], wanted[0, 0::2]
    np.testing.assert_array_equal(data.edge_index.numpy(), wanted)
    assert data.num_nodes == 60
    assert {"ogbl-ppa": 58, "ogbl-collab": 128, "ogbl-ddi": None}[name] == data.num_features
    assert [len(split.edge) for split in data.splits.values()] == [280, 60, 60]
    assert [len(data.splits[s].edge_neg) for s in ("val", "test")] == [30, 40]
    assert "not the published set: nodes 60 (published" in data.meta["differs"]
    if name == "ogbl-collab":
        weights = np.loadtxt(folder / "raw" / "edge_weight.csv.gz")
        np.testing.assert_array_equal(data.edge_weight.numpy(), weights)
        assert int(data.edge_time.min()) >= 1990
        assert data.splits["test"].time.unique().tolist() == [2019]
    assert load(name, tmp_path / "root", download=False).fingerprint() == data.fingerprint()
    assert [check.problem for check in verify(name, tmp_path / "root")] == [None]


def test_real_ddi_has_its_published_sizes(tmp_path):
    if not DDI.is_dir():
        pytest.skip("the files of ogbl-ddi are not beside this checkout")
    data = load("ogbl-ddi", tmp_path, source=DDI)
    assert data.num_nodes == 4_267
    assert data.edge_index.shape == (2, 2_135_822)
    assert [len(split.edge) for split in data.splits.values()] == [1_067_911, 133_489, 133_489]
    assert [len(data.splits[s].edge_neg) for s in ("val", "test")] == [101_882, 95_599]
    assert "differs" not in data.meta
    assert not data.graph().has_loops


@pytest.mark.parametrize("below", ["ogbl_ddi", "ogbl-ddi", "ddi"])
def test_a_folder_that_holds_the_sets_folder_will_do(ogb_folder, tmp_path, below):
    (tmp_path / "all").mkdir()
    ogb_folder("ogbl-ddi").rename(tmp_path / "all" / below)
    assert load("ogbl-ddi", tmp_path / "root", source=tmp_path / "all").num_nodes == 60


@pytest.mark.parametrize(
    "name",
    ["raw/edge.csv.gz", "raw/num-node-list.csv.gz", "raw/num-edge-list.csv.gz", "raw/edge_weight.csv.gz",
     "raw/edge_year.csv.gz", "raw/node-feat.csv.gz", "split/time/train.pt", "split/time/valid.pt",
     "split/time/test.pt"],
)  # fmt: skip
def test_every_missing_or_truncated_file_is_named(ogb_folder, tmp_path, name):
    folder = ogb_folder("ogbl-collab")
    content = (folder / name).read_bytes()
    (folder / name).write_bytes(content[: len(content) // 2])
    with pytest.raises((ChecksumError, DataError), match=Path(name).name):
        load("ogbl-collab", tmp_path / "root", source=folder)
    (folder / name).unlink()
    with pytest.raises(DataMissingError, match=Path(name).name):
        load("ogbl-collab", tmp_path / "root", source=folder)


def test_files_of_different_sets_do_not_fit_together(ogb_folder, tmp_path):
    folder = ogb_folder("ogbl-ddi")
    torch.save({"edge": np.array([[0, 99]])}, folder / "split" / "target" / "train.pt")
    with pytest.raises(DataError, match="node 99"):
        read("ogbl-ddi", folder)
    torch.save({"edges": np.array([[0, 9]])}, folder / "split" / "target" / "train.pt")
    with pytest.raises(DataError, match="a dict with edge"):
        read("ogbl-ddi", folder)
    torch.save({"edge": np.array([[0.5, 9]])}, folder / "split" / "target" / "train.pt")
    with pytest.raises(DataError, match="integers"):
        read("ogbl-ddi", folder)
    with pytest.raises(DataMissingError, match="no such folder|edge.csv.gz"):
        load("ogbl-ddi", tmp_path / "root", source=folder / "raw")


def test_a_checksum_beside_the_files_is_held(ogb_folder, tmp_path):
    folder = ogb_folder("ogbl-ddi")
    (folder / "SHA256SUMS").write_text(f"{'0' * 64}  raw/edge.csv.gz\n")
    with pytest.raises(ChecksumError, match="edge.csv.gz"):
        load("ogbl-ddi", tmp_path / "root", source=folder)


def test_the_official_archive_is_downloaded_and_unpacked(ogb_folder, tmp_path, monkeypatch):
    folder = ogb_folder("ogbl-ppa")
    (tmp_path / "site").mkdir()
    with zipfile.ZipFile(tmp_path / "site" / "ppassoc.zip", "w") as archive:
        for path in folder.rglob("*.*"):
            archive.write(path, Path("ppassoc") / path.relative_to(folder))
    with served(tmp_path / "site") as address:
        facts = dataset_specs()["ogbl-ppa"]
        remote = replace(facts.files[0], url=f"{address}/ppassoc.zip")
        monkeypatch.setitem(dataset_specs(), "ogbl-ppa", replace(facts, files=(remote,)))
        data = load("ogbl-ppa", tmp_path / "root")
    assert data.num_features == 58
    with pytest.raises(DataMissingError, match="collab.zip"):
        load("ogbl-collab", tmp_path / "root", download=False)


def test_arrays_of_the_other_byte_order_are_read(ogb_folder):
    folder = ogb_folder("ogbl-ddi")
    path = folder / "split" / "target" / "valid.pt"
    value = torch.load(path, weights_only=False)
    torch.save({key: np.asarray(array).astype(">i8") for key, array in value.items()}, path)
    found = read("ogbl-ddi", folder).splits["val"].edge
    np.testing.assert_array_equal(found.numpy(), np.asarray(value["edge"]))


def test_features_of_another_width_and_infinite_weights_are_refused(ogb_folder):
    folder = ogb_folder("ogbl-collab")
    write_csv(folder / "raw" / "node-feat.csv.gz", np.ones((60, 5)))
    with pytest.raises(DataError, match=r"128 finite numbers on each line, got 5"):
        read("ogbl-collab", folder)
    write_csv(folder / "raw" / "node-feat.csv.gz", np.ones((60, 128)))
    path = folder / "split" / "time" / "train.pt"
    torch.save({"edge": np.array([[0, 1]]), "weight": np.array([np.inf])}, path)
    with pytest.raises(DataError, match="integers as 'weight'"):
        read("ogbl-collab", folder)


def test_files_that_are_not_read_for_the_set_is_built_from_others_are_warned_of(ogb_folder, tmp_path):
    first = ogb_folder("ogbl-ddi")
    other = first.rename(tmp_path / "other")
    root, here = tmp_path / "root", ogb_folder("ogbl-ddi", seed=1)
    built = load("ogbl-ddi", root, source=here).fingerprint()
    assert load("ogbl-ddi", root, source=here / ".." / here.name).fingerprint() == built  # the same folder: no warning
    assert load("ogbl-ddi", root).fingerprint() == built
    with pytest.warns(UserWarning, match=f"built from {here}; {other} is ignored"):
        assert load("ogbl-ddi", root, source=other).fingerprint() == built
