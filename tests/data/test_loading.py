from pathlib import Path

import pytest
import torch

from lrga.data.datasets.loading import built_sets, describe, load, overview, verify
from lrga.data.datasets.manifest import FILE_NAME, write_manifest
from lrga.data.datasets.spec import dataset_specs
from lrga.errors import ChecksumError, DataMissingError, OptionError

SHARED = Path(__file__).resolve().parents[2] / "../shared/data"
SMALL = {"sizes": (6, 2, 3), "seed": 5}


def test_a_set_is_built_on_first_use_and_read_afterwards(tmp_path):
    told = []
    first = load("cluster", tmp_path, progress=lambda label, done, total: told.append(label), **SMALL)
    again = load("CLUSTER", tmp_path, progress=lambda label, done, total: told.append("built again"), **SMALL)
    assert set(told) == {"CLUSTER train", "CLUSTER val", "CLUSTER test"}
    for split in ("train", "val", "test"):
        assert torch.equal(first[split].source, again[split].source)
        assert torch.equal(first[split].y, again[split].y)


def test_the_environment_names_the_root(tmp_path, monkeypatch):
    monkeypatch.setenv("LRGA_DATA", str(tmp_path))
    load("PATTERN", **SMALL)
    assert (tmp_path / "PATTERN/seed-5_sizes-6-2-3" / FILE_NAME).is_file()


def test_a_quick_build_prints_nothing(tmp_path, capsys):
    load("PATTERN", tmp_path, **SMALL)
    assert capsys.readouterr() == ("", "")


def test_an_unknown_name_lists_the_choices(tmp_path):
    with pytest.raises(OptionError, match="TSP, CIFAR10, MNIST"):
        load("ZINK", tmp_path)


def test_an_unknown_option_lists_the_choices(tmp_path):
    with pytest.raises(OptionError, match="seed, sizes"):
        load("PATTERN", tmp_path, split="train")


def test_offline_the_error_says_which_file_to_put_where(tmp_path):
    with pytest.raises(DataMissingError) as caught:
        load("ZINC", tmp_path, download=False)
    assert str(tmp_path / "ZINC" / "raw") in str(caught.value)
    assert "https://" in str(caught.value)


@pytest.mark.parametrize("damage", [lambda data: data[:-7], lambda data: data[:-1] + b"?", lambda data: b""])
def test_a_damaged_file_is_named_and_refused(tmp_path, damage):
    load("PATTERN", tmp_path, **SMALL)
    path = tmp_path / "PATTERN/seed-5_sizes-6-2-3/test.safetensors"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ChecksumError) as caught:
        load("PATTERN", tmp_path, **SMALL)
    assert str(path) in str(caught.value)


def test_a_missing_file_is_named(tmp_path):
    load("PATTERN", tmp_path, **SMALL)
    (tmp_path / "PATTERN/seed-5_sizes-6-2-3/val.safetensors").unlink()
    with pytest.raises(DataMissingError, match=r"val\.safetensors"):
        load("PATTERN", tmp_path, **SMALL)


def test_a_damaged_manifest_is_named_and_refused(tmp_path):
    load("PATTERN", tmp_path, **SMALL)
    (tmp_path / "PATTERN/seed-5_sizes-6-2-3" / FILE_NAME).write_text("{")
    with pytest.raises(ChecksumError, match=r"manifest\.json"):
        load("PATTERN", tmp_path, **SMALL)


def test_verify_checks_every_file_of_every_variant(tmp_path):
    load("PATTERN", tmp_path, **SMALL)
    load("PATTERN", tmp_path, sizes=(1, 1, 1))
    checks = verify("pattern", tmp_path)
    assert len(checks) == 6
    assert all(check.problem is None for check in checks)


def test_verify_names_the_bad_file_and_goes_on(tmp_path):
    load("PATTERN", tmp_path, **SMALL)
    path = tmp_path / "PATTERN/seed-5_sizes-6-2-3/train.safetensors"
    path.write_bytes(path.read_bytes()[1:])
    problems = {check.file.name: check.problem for check in verify("PATTERN", tmp_path)}
    assert "truncated" in problems["train.safetensors"]
    assert str(path) in problems["train.safetensors"]
    assert problems["val.safetensors"] is None


def test_verify_reports_an_unfinished_build_and_a_damaged_manifest(tmp_path):
    load("PATTERN", tmp_path, **SMALL)
    manifest = tmp_path / "PATTERN/seed-5_sizes-6-2-3" / FILE_NAME
    manifest.write_text("{")
    assert "damaged" in str(verify("PATTERN", tmp_path)[0].problem)
    manifest.unlink()
    assert "did not end" in str(verify("PATTERN", tmp_path)[0].problem)


def test_the_remedy_names_the_whole_command_of_the_broken_variant(tmp_path):
    load("PATTERN", tmp_path, **SMALL)
    folder = tmp_path / "PATTERN/seed-5_sizes-6-2-3"
    command = f"lrga data build PATTERN --seed 5 --sizes 6,2,3 --data-root {tmp_path}"
    (folder / "val.safetensors").unlink()
    assert command in str(verify("PATTERN", tmp_path)[1].problem)
    (folder / FILE_NAME).write_text("null")
    assert command in str(verify("PATTERN", tmp_path)[0].problem)
    (folder / FILE_NAME).unlink()
    assert command in str(verify("PATTERN", tmp_path)[0].problem)
    folder.rename(tmp_path / "PATTERN/mine")
    assert "which this version would not build" in str(verify("PATTERN", tmp_path)[0].problem)


def test_the_remedy_names_the_source_a_set_was_built_from(tmp_path):
    folder, source = tmp_path / "ZINC/sizes-40-15-15", tmp_path / "mine"
    recipe = {"version": 1, "options": {"sizes": [40, 15, 15]}}
    folder.mkdir(parents=True)
    (folder / "train.safetensors").write_text("")
    write_manifest(folder, name="ZINC", recipe=recipe, files=["train.safetensors"], notes={"source": str(source)})
    (folder / "train.safetensors").unlink()
    command = f"lrga data build ZINC --sizes 40,15,15 --data-root {tmp_path}"
    assert f"{command} --source {source}" in str(verify("ZINC", tmp_path)[0].problem)
    (folder / FILE_NAME).write_text("null")
    assert f"{command} (and --source DIR if" in str(verify("ZINC", tmp_path)[0].problem)


@pytest.mark.parametrize("content", ["null", "[]", "3", '{"files": {"a": {"size": Infinity}}}', "[" * 100_000])
def test_a_damaged_manifest_is_listed_as_such_beside_the_others(content, tmp_path):
    for name in ("seed-5", "sizes-1-1-1"):
        (tmp_path / "PATTERN" / name).mkdir(parents=True)
    (tmp_path / "PATTERN/seed-5" / FILE_NAME).write_text(content)
    damaged, unfinished = built_sets("PATTERN", tmp_path)
    assert damaged.manifest is None
    assert str(damaged.folder / FILE_NAME) in damaged.problem
    assert unfinished.problem is None
    assert describe("PATTERN", tmp_path)["damaged"]


def test_verify_checks_downloads_too(tmp_path):
    raw = tmp_path / "ZINC" / "raw"
    raw.mkdir(parents=True)
    (raw / "molecules.zip").write_bytes(b"abd")
    sha256 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    (raw / "molecules.zip.facts.json").write_text(f'{{"size": 3, "sha256": "{sha256}"}}')
    (check,) = verify("ZINC", tmp_path)
    assert check.file == raw / "molecules.zip"
    assert "corrupted" in str(check.problem)


def test_verifying_what_is_not_there_is_an_error(tmp_path):
    with pytest.raises(DataMissingError, match="lrga data build TSP"):
        verify("TSP", tmp_path)


def test_the_overview_tells_what_is_built_and_how_large_it_is(tmp_path):
    load("PATTERN", tmp_path, **SMALL)
    rows = {row["name"]: row for row in overview(tmp_path)}
    assert list(rows) == list(dataset_specs())
    assert rows["PATTERN"]["built"]
    assert not rows["PATTERN"]["full"]
    folder = tmp_path / "PATTERN/seed-5_sizes-6-2-3"
    assert rows["PATTERN"]["bytes"] == sum(path.stat().st_size for path in folder.iterdir())
    assert rows["PATTERN"]["variants"][0]["options"] == {"seed": 5, "sizes": [6, 2, 3]}
    assert not rows["ZINC"]["built"]
    assert rows["ZINC"]["bytes"] == 0


def test_an_unfinished_build_is_described_as_such(tmp_path):
    load("PATTERN", tmp_path, **SMALL)
    (tmp_path / "PATTERN/seed-5_sizes-6-2-3" / FILE_NAME).unlink()
    assert built_sets("PATTERN", tmp_path)[0].manifest is None
    assert not describe("PATTERN", tmp_path)["built"]


def test_the_real_zinc_files_give_the_published_statistics(tmp_path):
    if not (SHARED / "zinc").is_dir():
        pytest.skip("the real ZINC files are not beside the checkout")
    splits = load("ZINC", tmp_path, source=SHARED / "zinc")
    assert [len(split) for split in splits.values()] == [10_000, 1_000, 1_000]
    assert splits["train"].statistics["mean_nodes"] == pytest.approx(23.2, abs=0.1)
    assert splits["train"].statistics["mean_edges"] == pytest.approx(49.8, abs=0.1)
    assert splits["train"].y_level == "graph"
    assert all(check.problem is None for check in verify("ZINC", tmp_path))
