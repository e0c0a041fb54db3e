import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from lrga.data.datasets.building import build_command, build_dataset, load_splits, plan_dataset, plan_of_folder
from lrga.data.datasets.manifest import FILE_NAME
from lrga.data.datasets.sbm import cluster
from lrga.data.datasets.spec import dataset_specs
from lrga.errors import ChecksumError, DataMissingError, OptionError

SMALL = {"sizes": (6, 2, 3)}


def files_of(folder):
    return sorted(path.name for path in folder.iterdir() if path.name != ".lock")


FINISHED = sorted([FILE_NAME, "train.safetensors", "val.safetensors", "test.safetensors"])


def test_a_plan_names_the_folder_after_the_options_that_differ(tmp_path):
    assert plan_dataset("PATTERN", tmp_path).folder == tmp_path / "PATTERN" / "default"
    assert plan_dataset("pattern", tmp_path, seed=41).folder.name == "default"
    assert plan_dataset("pattern", tmp_path, seed=7).folder.name == "seed-7"
    assert plan_dataset("pattern", tmp_path, seed=7, sizes=(3, 2, 1)).folder.name == "seed-7_sizes-3-2-1"
    assert plan_dataset("ZINC", tmp_path).raw == tmp_path / "ZINC" / "raw"


def test_planning_touches_nothing(tmp_path):
    plan_dataset("CLUSTER", tmp_path / "root", **SMALL).report()
    assert not (tmp_path / "root").exists()


def test_an_unknown_option_lists_the_choices(tmp_path):
    with pytest.raises(OptionError, match="any of seed, sizes, got size"):
        plan_dataset("CLUSTER", tmp_path, size=3)


def test_a_finished_set_has_its_files_and_a_manifest_and_nothing_else(tmp_path):
    plan = plan_dataset("CLUSTER", tmp_path, **SMALL)
    assert plan.finished() is None
    manifest = build_dataset(plan, workers=1)
    assert files_of(plan.folder) == FINISHED
    assert plan.finished() == manifest
    assert manifest.recipe == {"version": cluster.SPEC.recipe_version, "options": {"seed": 41, "sizes": [6, 2, 3]}}
    assert manifest.notes["statistics"]["val"]["graphs"] == 2
    assert "fresh draw" in manifest.notes["note"]


def test_loading_gives_what_was_built(tmp_path):
    plan = plan_dataset("CLUSTER", tmp_path, **SMALL)
    splits = load_splits(plan, build_dataset(plan))
    assert {name: len(split) for name, split in splits.items()} == {"train": 6, "val": 2, "test": 3}
    assert splits["val"].meta == {"dataset": "CLUSTER", "split": "val", "recipe": plan.recipe}


def test_building_twice_builds_once(tmp_path):
    plan = plan_dataset("CLUSTER", tmp_path, **SMALL)
    build_dataset(plan)
    before = (plan.folder / "train.safetensors").stat().st_mtime_ns
    build_dataset(plan)
    assert (plan.folder / "train.safetensors").stat().st_mtime_ns == before
    build_dataset(plan, force=True)
    assert (plan.folder / "train.safetensors").stat().st_mtime_ns > before


def test_a_set_without_its_manifest_is_not_believed_and_built_again(tmp_path):
    plan = plan_dataset("CLUSTER", tmp_path, **SMALL)
    manifest = build_dataset(plan)
    (plan.folder / FILE_NAME).unlink()
    (plan.folder / "train.safetensors").write_bytes(b"half a file")
    (plan.folder / ".val.safetensors.abc.tmp").write_bytes(b"rubbish of a killed build")
    assert plan.finished() is None
    assert build_dataset(plan) == manifest
    assert files_of(plan.folder) == FINISHED


def test_a_set_of_an_older_recipe_is_built_again(tmp_path, monkeypatch):
    plan = plan_dataset("CLUSTER", tmp_path, **SMALL)
    build_dataset(plan)
    monkeypatch.setitem(dataset_specs(), "CLUSTER", replace(cluster.SPEC, recipe_version=7))
    newer = plan_dataset("CLUSTER", tmp_path, **SMALL)
    assert newer.finished() is None
    assert build_dataset(newer).recipe["version"] == 7


def test_a_damaged_file_is_named_and_refused_with_the_command_that_mends_it(tmp_path):
    plan = plan_dataset("CLUSTER", tmp_path, **SMALL)
    manifest = build_dataset(plan)
    path = plan.folder / "val.safetensors"
    path.write_bytes(path.read_bytes()[:-1])
    for attempt in (lambda: load_splits(plan, manifest), lambda: build_dataset(plan)):
        with pytest.raises(ChecksumError) as caught:
            attempt()
        assert str(path) in str(caught.value)
        assert "lrga data build CLUSTER --sizes 6,2,3" in str(caught.value)
    assert len(load_splits(plan, build_dataset(plan, force=True))["val"]) == 2


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("CLUSTER", {}),
        ("CLUSTER", {"sizes": [6, 2, 3], "seed": 5}),
        ("ZINC", {"sizes": [40, 15, 15]}),
        ("TSP", {"nodes": [8, 12], "neighbours": 3, "missing": "generate"}),
    ],
)
def test_the_name_of_a_folder_gives_back_its_plan(name, options, tmp_path):
    plan = plan_dataset(name, tmp_path, **options)
    assert plan_of_folder(plan.folder) == plan


@pytest.mark.parametrize("variant", ["", "mine", "sizes-1-2", "sizes-a-b-c", "seed-", "colour-3", "sizes-01-2-3"])
def test_a_folder_that_no_plan_makes_has_none(variant, tmp_path):
    assert plan_of_folder(tmp_path / "CLUSTER" / f"x{variant}") is None
    assert plan_of_folder(tmp_path / "CLUSTER" / (variant or "x")) is None


def test_the_command_that_builds_a_variant_names_all_it_needs():
    root = Path("my data")
    assert build_command("CLUSTER", None, None, {}) == "lrga data build CLUSTER"
    command = build_command("TSP", root, "/a b", {"sizes": [4, 1, 1], "missing": "generate"})
    assert command == "lrga data build TSP --sizes 4,1,1 --missing generate --data-root 'my data' --source '/a b'"
    # The command line has no --nodes, so it is not told.
    command = build_command("TSP", root, None, {"nodes": [8, 12]})
    assert command == "in Python, lrga.data.load('TSP', root='my data', nodes=[8, 12])"


def test_a_build_that_fails_leaves_nothing_believed_and_its_parts_for_the_next(tmp_path):
    plan = plan_dataset("CLUSTER", tmp_path, **SMALL)

    def broken(place, **options):
        (place.work / "part").write_text("done so far")
        raise RuntimeError("power cut")

    with pytest.raises(RuntimeError, match="power cut"):
        build_dataset(replace(plan, spec=replace(plan.spec, build=broken)))
    assert plan.finished() is None
    assert (plan.work / "part").read_text() == "done so far"
    build_dataset(plan)
    assert files_of(plan.folder) == FINISHED


def test_builds_of_two_variants_wait_for_each_other(tmp_path):
    inside, most, told = 0, 0, []
    begun, go_on = threading.Event(), threading.Event()
    build = cluster.SPEC.build

    def slow(place, **options):
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        begun.set()
        assert go_on.wait(timeout=60)
        inside -= 1
        return build(place, **options)

    def tell(label, done, total):
        if label.startswith("waiting for process"):
            told.append(label)
            go_on.set()

    plans = [plan_dataset("CLUSTER", tmp_path, seed=seed, **SMALL) for seed in (1, 2)]
    plans = [replace(plan, spec=replace(plan.spec, build=slow)) for plan in plans]
    first = threading.Thread(target=build_dataset, args=(plans[0],))
    first.start()
    assert begun.wait(timeout=60)
    build_dataset(plans[1], progress=tell)
    first.join()
    assert most == 1
    assert str(tmp_path / "CLUSTER") in told[0]
    assert all(plan.finished() is not None for plan in plans)


def test_a_source_that_is_not_there_is_named(tmp_path):
    with pytest.raises(DataMissingError, match="nowhere"):
        build_dataset(plan_dataset("CLUSTER", tmp_path, **SMALL), source=tmp_path / "nowhere")


@pytest.mark.parametrize("workers", [0, -2, 1.5, True])
def test_workers_are_checked(tmp_path, workers):
    with pytest.raises(OptionError, match="workers"):
        build_dataset(plan_dataset("CLUSTER", tmp_path, **SMALL), workers=workers)


def test_a_report_says_what_would_be_done_and_what_is_there(tmp_path):
    plan = plan_dataset("CLUSTER", tmp_path, **SMALL)
    report = plan.report()
    assert not report["built"]
    assert "would be generated with seed 41, sizes 6, 2, 3" in report["what"]
    assert "molecules.zip" in plan_dataset("ZINC", tmp_path).report()["what"]
    build_dataset(plan)
    report = plan.report()
    assert report["built"]
    assert report["bytes"] > 0
    assert report["statistics"]["train"]["graphs"] == 6


@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL is POSIX's")
def test_a_killed_build_is_not_believed(tmp_path):
    plan = plan_dataset("CLUSTER", tmp_path, sizes=(3000, 1000, 1000))
    script = (
        "import sys\n"
        "from lrga.data.datasets.building import build_dataset, plan_dataset\n"
        "plan = plan_dataset('CLUSTER', sys.argv[1], sizes=(3000, 1000, 1000))\n"
        "print('ready', flush=True)\n"
        "build_dataset(plan, workers=1)\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        while not plan.folder.exists():  # until the build has begun
            time.sleep(0.001)
        time.sleep(0.1)
        process.send_signal(signal.SIGKILL)
    assert plan.finished() is None
    assert len(load_splits(plan, build_dataset(plan))["train"]) == 3000
    assert files_of(plan.folder) == FINISHED
