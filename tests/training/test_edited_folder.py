"""A run folder that was edited by hand, or damaged, is refused in a sentence."""

import json
import shutil

import pytest

from lrga.errors import CheckpointError
from lrga.training import continue_run, load_run, train
from lrga.training.runs.folder import RunFolder


def edit(path, *keys, value):
    """Sets one value of a JSON file."""
    whole = json.loads(path.read_text())
    place = whole
    for key in keys[:-1]:
        place = place[key]
    place[keys[-1]] = value
    path.write_text(json.dumps(whole))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Runs that are made once."""
    return tmp_path_factory.mktemp("runs")


@pytest.fixture
def run(kind, made, tmp_path):
    """Copies a run that is paused in its second epoch, or finished."""

    def make(finished):
        source, target = made / f"{kind.name}-{finished}", tmp_path / "run"
        if not source.exists():
            train(kind.config(max_epochs=1), source, data=kind.data())
            continue_run(source, data=kind.data(), max_epochs=2, time_limit=None if finished else 1e-9)
        shutil.rmtree(target, ignore_errors=True)
        return shutil.copytree(source, target)

    return make


OPTIONS = [
    ("optimizer", "lr", 0.5), ("optimizer", "weight_decay", 0.5), ("optimizer", "batch_size", 7),
    ("optimizer", "patience", 77), ("optimizer", "clip_gradient", 3.0), ("run", "seed", 9), ("model", "dropout", 0.4),
]  # fmt: skip


@pytest.mark.parametrize(("section", "key", "value"), OPTIONS, ids=[key for _, key, _ in OPTIONS])
@pytest.mark.parametrize("finished", [False, True], ids=["paused", "finished"])
def test_an_edited_option_is_refused_with_both_values(kind, run, finished, section, key, value):
    folder = run(finished)
    then = json.loads((folder / "config.json").read_text())[section][key]
    edit(folder / "config.json", section, key, value=value)
    with pytest.raises(CheckpointError) as refused:
        continue_run(folder, data=kind.data())
    for word in (key, repr(value), repr(then), "new folder", "again"):
        assert word in str(refused.value)
    edit(folder / "config.json", section, key, value=then)
    assert continue_run(folder, data=kind.data()).finished


def test_epochs_of_a_finished_run_are_not_edited(kind, run):
    folder = run(finished=True)
    edit(folder / "config.json", "optimizer", "max_epochs", value=9)
    with pytest.raises(CheckpointError, match=r"the 2 epochs .*max_epochs=9"):
        continue_run(folder, data=kind.data())


@pytest.mark.parametrize("value", [float("nan"), None, [], "text", 10**400, 0.125, {}], ids=lambda v: str(v)[:9])
@pytest.mark.parametrize(
    "keys", [("test",), ("last", "test_metric"), ("epochs",), ("stopped_by",), ("metric",), ("best",)]
)
def test_an_edited_result_is_refused(kind, run, keys, value):
    folder = run(finished=True)
    edit(folder / "result.json", *keys, value=value)
    for read in (lambda: continue_run(folder, data=kind.data()), lambda: load_run(folder), RunFolder(folder).result):
        with pytest.raises(CheckpointError, match=r"result\.json"):
            read()


@pytest.mark.parametrize("name", ["result.json", "model.json"])
def test_a_number_that_no_float_holds_is_refused(kind, run, name):
    folder = run(finished=True)
    (folder / name).write_text((folder / name).read_text().replace("{", '{"more": 1e400,', 1))
    for read in (lambda: continue_run(folder, data=kind.data(), max_epochs=3), lambda: load_run(folder)):
        with pytest.raises(CheckpointError, match=name.replace(".", r"\.") + ".*1e400"):
            read()


@pytest.mark.parametrize("content", ["null", "[]", '"text"', "3", "NaN", "{}", "[1", '{"a": Infinity}', "[" * 100_000])
@pytest.mark.parametrize("name", ["result.json", "environment.json", "config.json", "model.json"])
def test_a_file_with_another_content_is_refused(kind, run, name, content):
    folder = run(finished=True)
    (folder / name).write_text(content)
    if (name, content) == ("environment.json", "[]"):  # a list of no starts
        return
    with pytest.raises(CheckpointError, match=name.replace(".", r"\.") + "|a result|the network"):
        continue_run(folder, data=kind.data(), max_epochs=3)


@pytest.mark.parametrize("value", [None, [], "text", 10**400, -1, float("nan"), 7], ids=lambda v: str(v)[:9])
@pytest.mark.parametrize("key", ["epoch", "batch", "optimizer", "best", "seconds", "metrics_bytes", "last"])
def test_an_edited_state_is_refused(kind, run, key, value):
    folder = run(finished=False)
    for path in (folder / "checkpoints").glob("*/state.json"):
        edit(path, "state", key, value=value)
    with pytest.raises(CheckpointError, match="checksum|NaN|number"):
        continue_run(folder, data=kind.data())


def test_a_state_without_its_checksum_is_refused(kind, run):
    folder = run(finished=False)
    for path in (folder / "checkpoints").glob("*/state.json"):
        written = json.loads(path.read_text())
        del written["sha256"]
        path.write_text(json.dumps(written))
    with pytest.raises(CheckpointError, match="with its checksum"):
        continue_run(folder, data=kind.data())


def test_folders_without_checksums_are_read(kind, run):
    folder = run(finished=False)
    written = json.loads((folder / "model.json").read_text())
    del written["sha256"], written["config"]
    (folder / "model.json").write_text(json.dumps(written))
    result = continue_run(folder, data=kind.data())
    written = json.loads((folder / "result.json").read_text())
    del written["sha256"]
    (folder / "result.json").write_text(json.dumps(written))
    assert continue_run(folder, data=kind.data()).test == result.test


HUGE = [10**400, -(10**400), float("inf"), -1]


@pytest.mark.parametrize("value", HUGE, ids=lambda v: str(v)[:9])
@pytest.mark.parametrize(
    ("section", "key"), [("optimizer", "lr"), ("optimizer", "batch_size"), ("run", "seed"), ("model", "hidden")]
)
def test_huge_numbers_in_a_configuration_are_refused(run, section, key, value):
    folder = run(finished=True)
    edit(folder / "config.json", section, key, value=value)
    with pytest.raises(CheckpointError, match=r"config\.json"):
        RunFolder(folder).config()


@pytest.mark.parametrize("value", [*HUGE, None, "8", [8], True, 1.5], ids=lambda v: str(v)[:9])
def test_a_width_that_is_no_count_is_refused(run, value):
    folder = run(finished=True)
    facts = json.loads((folder / "model.json").read_text())
    facts["architecture"]["hidden_channels"] = value
    del facts["sha256"]  # as older versions wrote it
    (folder / "model.json").write_text(json.dumps(facts))
    with pytest.raises(CheckpointError, match=r"model\.json"):
        load_run(folder)
