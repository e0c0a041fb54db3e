"""A run folder that was edited by hand, or damaged, is refused in a sentence."""

import json
import shutil

import pytest
from link_graphs import on_graphs

from lrga.errors import CheckpointError
from lrga.training import continue_run, load_run, train
from lrga.training.runs.folder import RunFolder


def edit(path, *keys, value):
    """Sets one value of a JSON file; the one that was there is returned."""
    whole = json.loads(path.read_text())
    place = whole
    for key in keys[:-1]:
        place = place[key]
    before, place[keys[-1]] = place[keys[-1]], value
    path.write_text(json.dumps(whole))
    return before


def without(path, *keys):
    """Deletes keys of a JSON file, those that older versions did not write."""
    path.write_text(json.dumps({key: v for key, v in json.loads(path.read_text()).items() if key not in keys}))


OPTIONS = [
    ("optimizer", "lr", 0.5), ("optimizer", "batch_size", 7), ("optimizer", "clip_gradient", 3.0), ("run", "seed", 9),
    ("model", "dropout", 0.4),
]  # fmt: skip


@pytest.mark.parametrize("finished", [False, True], ids=["paused", "finished"])
def test_an_edited_option_is_refused_with_both_values(kind, copy_run, finished):
    folder = copy_run(finished)
    for section, key, value in OPTIONS:
        then = edit(folder / "config.json", section, key, value=value)
        with pytest.raises(CheckpointError) as refused:
            continue_run(folder, data=kind.data())
        for word in (key, repr(value), repr(then), "new folder", "restore"):
            assert word in str(refused.value)
        edit(folder / "config.json", section, key, value=then)
    assert continue_run(folder, data=kind.data()).finished


@on_graphs
def test_epochs_of_a_finished_run_are_not_edited(kind, copy_run):
    folder = copy_run()
    edit(folder / "config.json", "optimizer", "max_epochs", value=9)
    with pytest.raises(CheckpointError, match=r"the 2 epochs .*max_epochs=9"):
        continue_run(folder, data=kind.data())


@on_graphs
@pytest.mark.parametrize("value", [float("nan"), None, "text", 10**400, 0.125, {}], ids=lambda v: str(v)[:9])
def test_an_edited_result_is_refused(kind, copy_run, value):
    folder = copy_run()
    for keys in (("test",), ("last", "test_metric"), ("epochs",), ("stopped_by",), ("best",)):
        then = edit(folder / "result.json", *keys, value=value)
        reads = (lambda: continue_run(folder, data=kind.data()), lambda: load_run(folder), RunFolder(folder).result)
        for read in reads:
            with pytest.raises(CheckpointError, match=r"result\.json"):
                read()
        edit(folder / "result.json", *keys, value=then)


@on_graphs
@pytest.mark.parametrize("name", ["result.json", "model.json"])
def test_a_number_that_no_float_holds_is_refused(kind, copy_run, name):
    folder = copy_run()
    (folder / name).write_text((folder / name).read_text().replace("{", '{"more": 1e400,', 1))
    for read in (lambda: continue_run(folder, data=kind.data(), max_epochs=3), lambda: load_run(folder)):
        with pytest.raises(CheckpointError, match=name.replace(".", r"\.") + ".*1e400"):
            read()


CONTENTS = ["null", "[]", '"text"', "3", "NaN", "{}", "[1", '{"a": Infinity}', "[" * 100_000]


@on_graphs
@pytest.mark.parametrize("name", ["result.json", "environment.json", "config.json", "model.json"])
def test_a_file_with_another_content_is_refused(kind, copy_run, name):
    folder = copy_run()
    for content in CONTENTS:
        if (name, content) == ("environment.json", "[]"):  # a list of no starts
            continue
        (folder / name).write_text(content)
        with pytest.raises(CheckpointError, match=name.replace(".", r"\.") + "|a result|the network"):
            continue_run(folder, data=kind.data(), max_epochs=3)


@on_graphs
@pytest.mark.parametrize("value", [None, [], "text", 10**400, -1, float("nan"), 7], ids=lambda v: str(v)[:9])
def test_an_edited_state_is_refused(kind, copy_run, value):
    folder = copy_run(finished=False)
    states = list((folder / "checkpoints").glob("*/state.json"))
    for key in ("epoch", "optimizer", "best", "metrics_bytes"):
        then = [edit(path, "state", key, value=value) for path in states]
        with pytest.raises(CheckpointError, match="checksum|NaN|number"):
            continue_run(folder, data=kind.data())
        for path, before in zip(states, then, strict=True):
            edit(path, "state", key, value=before)


@on_graphs
def test_a_state_without_its_checksum_is_refused(kind, copy_run):
    folder = copy_run(finished=False)
    for path in (folder / "checkpoints").glob("*/state.json"):
        without(path, "sha256")
    with pytest.raises(CheckpointError, match="with its checksum"):
        continue_run(folder, data=kind.data())


@on_graphs
def test_folders_without_checksums_are_read(kind, copy_run):
    folder = copy_run(finished=False)
    without(folder / "model.json", "sha256", "config")
    result = continue_run(folder, data=kind.data())
    without(folder / "result.json", "sha256")
    assert continue_run(folder, data=kind.data()).test == result.test


@on_graphs
def test_files_of_a_run_without_its_configuration_are_no_new_run(kind, copy_run):
    folder = copy_run(finished=False)
    config = RunFolder(folder).config()
    (folder / "config.json").unlink()
    for found in ("checkpoints", "metrics.jsonl"):
        with pytest.raises(CheckpointError, match=rf"config\.json of the run.*{found}"):
            train(config.changed(lr=0.5), folder, data=kind.data())
        shutil.rmtree(folder / "checkpoints", ignore_errors=True)


HUGE = [10**400, -(10**400), float("inf"), -1]


@on_graphs
@pytest.mark.parametrize("value", HUGE, ids=lambda v: str(v)[:9])
def test_huge_numbers_in_a_configuration_are_refused(copy_run, value):
    folder = copy_run()
    for section, key in (("optimizer", "lr"), ("optimizer", "batch_size"), ("run", "seed"), ("model", "hidden")):
        then = edit(folder / "config.json", section, key, value=value)
        with pytest.raises(CheckpointError, match=r"config\.json"):
            RunFolder(folder).config()
        edit(folder / "config.json", section, key, value=then)


def test_a_width_that_is_no_count_is_refused(copy_run):
    folder = copy_run()
    without(folder / "model.json", "sha256")  # as older versions wrote it
    for value in (*HUGE, None, "8", [8], True, 1.5):
        edit(folder / "model.json", "architecture", "hidden_channels", value=value)
        with pytest.raises(CheckpointError, match=r"model\.json"):
            load_run(folder)
