"""A recorded run made again agrees, or the reason is said."""

import json
from dataclasses import replace

import pytest

from lrga.bench.protocols import table1
from lrga.bench.records import read_record, write_record
from lrga.bench.runner import Campaign
from lrga.bench.verifying import verify
from lrga.errors import ChecksumError, OptionError


@pytest.fixture
def recorded(tiny, tmp_path):
    tiny["max_epochs"] = 3
    Campaign([table1("CLUSTER", seeds=[41], **tiny)], tmp_path / "runs").run()
    path = next((tmp_path / "runs" / "records").iterdir())
    return path, {"root": tiny["root"], "device": "cpu", "progress": False, "output": tmp_path / "again"}


def changed(path, tmp_path, **values):
    """The record with other values; where the last epoch's are, the end of the curve as well, as a record must be."""
    record = read_record(path)
    if "last" in values and "curve" not in values:
        values["curve"] = {k: [*v[:-1], values["last"][k]] for k, v in record.curve.items()}
    return write_record(replace(record, **values), tmp_path / "changed")


def test_on_the_same_machine_it_is_equal_to_the_last_bit(recorded):
    path, options = recorded
    verdict = verify(path, **options)
    assert (verdict.agrees, verdict.exact) == (True, True)
    assert "Equal to the last bit." in verdict.lines
    assert json.loads(json.dumps(verdict.to_json()))["agrees"] is True
    beginning = verify(path, epochs=2, **options)
    assert (beginning.agrees, beginning.exact, beginning.again.epochs) == (True, True, 2)
    assert "2 epochs compared" in beginning.lines[0]


def test_a_number_that_was_altered_is_found_out(recorded, tmp_path):
    path, options = recorded
    record = read_record(path)
    wrong = changed(path, tmp_path, last=record.last | {"test_loss": record.last["test_loss"] + 1e-6})
    verdict = verify(wrong, **options)
    assert verdict.agrees is False
    assert "Not equal in test_loss of the last epoch, the learning curve." in verdict.lines
    best = changed(path, tmp_path / "best", best=record.best | {"test_metric": 99.0})
    assert "Not equal in test_metric of the best epoch." in verify(best, **options).lines
    curve = {**record.curve, "train_loss": [value + 0.001 for value in record.curve["train_loss"]]}
    assert verify(changed(path, tmp_path / "b", curve=curve), epochs=1, **options).agrees is False


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_record_of_another_network_or_metric_is_found_out(recorded, tmp_path, elsewhere):
    path, options = recorded
    record = read_record(path)
    environment = [record.environment[0] | ({"cpu": "another"} if elsewhere else {})]
    narrow = record.model["architecture"] | {"hidden_channels": 7}
    wrong = {
        "parameters": {"model": record.model | {"parameters": 5}},
        "hidden_channels": {"model": record.model | {"architecture": narrow}},
        "metric": {"metric": "mae"},
    }
    for key, values in wrong.items():
        verdict = verify(changed(path, tmp_path / key, environment=environment, **values), epochs=1, **options)
        assert verdict.agrees is False
        assert any(line.startswith(f"{key} is ") for line in verdict.lines)


def test_it_is_made_again_every_time(recorded):
    path, options = recorded
    assert verify(path, epochs=1, **options).agrees
    (kept,) = (options["output"] / "verify" / "records").iterdir()
    kept.write_text(json.dumps(json.loads(kept.read_text()) | {"seconds": 12345.0}))
    second = verify(path, epochs=1, **options)
    assert second.agrees
    assert second.again.seconds != 12345.0


def test_nothing_to_compare_is_no_agreement(recorded, tmp_path):
    path, options = recorded
    record = read_record(path)
    late = {key: column[1:] for key, column in record.curve.items()}
    for number, curve in enumerate([late, {}]):
        verdict = verify(changed(path, tmp_path / str(number), curve=curve), epochs=1, **options)
        assert verdict.agrees is None
        assert "Nothing compared" in verdict.lines[0]


def test_another_machine_may_differ_as_seeds_do(recorded, tmp_path):
    path, options = recorded
    record = read_record(path)
    elsewhere = [record.environment[0] | {"device": "cuda:0", "gpu": "NVIDIA H200"}]
    published = {"mean": 68.44, "std": 0.16, "table": 1}
    near = record.last | {"test_metric": record.last["test_metric"] + 0.4}
    verdict = verify(changed(path, tmp_path, environment=elsewhere, published=published, last=near), **options)
    assert (verdict.agrees, verdict.exact) == (True, False)
    assert "may differ by 0.45" in verdict.lines[1]
    far = record.last | {"test_metric": record.last["test_metric"] + 0.5}
    assert not verify(
        changed(path, tmp_path / "b", environment=elsewhere, published=published, last=far), **options
    ).agrees
    verdict = verify(changed(path, tmp_path / "c", environment=elsewhere, published=None), **options)
    assert "no deviation is known" in verdict.lines[1]
    assert verify(changed(path, tmp_path / "d", environment=elsewhere), epochs=1, **options).agrees


def test_other_graphs_are_refused_before_training(recorded, tmp_path):
    path, options = recorded
    record = read_record(path)
    with pytest.raises(ChecksumError, match="others"):
        verify(changed(path, tmp_path, data=record.data | {"sha256": "0" * 64}), **options)
    assert not options["output"].exists()


def test_a_second_run_that_is_paused_is_neither_right_nor_wrong(recorded):
    path, options = recorded
    verdict = verify(path, time_limit=1e-9, **options)
    assert verdict.agrees is None
    assert "the same command continues it" in verdict.lines[0]
    assert verify(path, **options).agrees


def test_what_cannot_be_verified_is_refused(recorded, tmp_path):
    path, options = recorded
    with pytest.raises(OptionError, match="1 to 3 epochs"):
        verify(path, epochs=4, **options)
    with pytest.raises(OptionError, match="finished"):
        verify(changed(path, tmp_path, status="time-limited"), **options)
