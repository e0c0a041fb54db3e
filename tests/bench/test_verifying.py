"""A recorded run made again agrees, or the reason is said."""

import json
from dataclasses import replace

import pytest

from lrga.bench import verifying
from lrga.bench.protocols import paper_config, table1
from lrga.bench.records import read_record, write_record
from lrga.bench.runner import Campaign
from lrga.bench.verifying import verify
from lrga.errors import ChecksumError, DataError, OptionError


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
def test_a_record_of_another_network_or_other_data_is_found_out(recorded, tmp_path, elsewhere):
    path, options = recorded
    record = read_record(path)
    environment = [record.environment[0] | ({"cpu": "another"} if elsewhere else {})]
    narrow = record.model["architecture"] | {"hidden_channels": 7}
    wrong = {
        "parameters": {"model": record.model | {"parameters": 5}},
        "hidden_channels": {"model": record.model | {"architecture": narrow}},
        "lrga": {"model": record.model | {"lrga": False}},
        "graphs": {"data": record.data | {"graphs": {"train": 10_000, "val": 4, "test": 4}}},
    }
    for key, values in wrong.items():
        verdict = verify(changed(path, tmp_path / key, environment=environment, **values), epochs=1, **options)
        assert verdict.agrees is False
        assert any(line.startswith(f"{key} is ") for line in verdict.lines)
    with pytest.raises(DataError, match="metric 'mae', where CLUSTER has 'weighted_accuracy_by_batch'"):
        verify(changed(path, tmp_path / "metric", metric="mae"), **options)


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


def test_an_altered_number_does_not_widen_what_it_is_measured_by(recorded, tiny, tmp_path):
    path, options = recorded
    Campaign([table1("CLUSTER", seeds=[95], **tiny)], tmp_path / "runs").run()
    record = read_record(path)
    elsewhere = [record.environment[0] | {"device": "cuda:0", "gpu": "NVIDIA H200"}]
    beside = [tmp_path / "runs"]
    verdict = verify(changed(path, tmp_path, environment=elsewhere), beside=beside, **options)
    assert verdict.agrees
    assert "by the second run and 1 other seed" in verdict.lines[1]
    for key in ("last", "best"):
        wrong = getattr(record, key) | {"test_metric": 90.0}
        verdict = verify(changed(path, tmp_path / key, environment=elsewhere, **{key: wrong}), beside=beside, **options)
        assert verdict.agrees is False
        assert verdict.lines[2].startswith(f"The test at the {key} epoch differs by")
    curve = record.curve | {"train_loss": [9.0, 9.0, record.curve["train_loss"][-1]]}
    verdict = verify(changed(path, tmp_path / "curve", environment=elsewhere, curve=curve), beside=beside, **options)
    assert verdict.agrees is False
    assert verdict.lines[-1].startswith("In training epoch 1 differs by")


def test_the_beginning_of_another_seed_or_with_another_rate_is_found_out_on_another_machine(recorded, tiny, tmp_path):
    path, options = recorded
    record = read_record(path)
    elsewhere = [record.environment[0] | {"device": "cuda:0", "gpu": "NVIDIA H200"}]
    right = verify(changed(path, tmp_path / "right", environment=elsewhere), epochs=3, **options)
    assert right.agrees
    assert "they may differ by 1% in epoch 1 and 3% in 3" in right.lines[1]
    assert "Validation and test" in right.lines[2]
    (other,) = Campaign([table1("CLUSTER", seeds=[95], **tiny)], tmp_path / "runs").run()
    mixed = changed(path, tmp_path / "seed", environment=elsewhere, last=other.record.last, curve=other.record.curve)
    assert verify(mixed, epochs=3, **options).agrees is False
    rates = {**record.curve, "lr": [0.5, *record.curve["lr"][1:]]}
    fast = verify(changed(path, tmp_path / "rate", environment=elsewhere, curve=rates), epochs=3, **options)
    assert fast.agrees is False
    assert fast.lines[-1] == "Epoch 1 had another learning rate."
    near = {**record.curve, "train_loss": [value * 1.04 for value in record.curve["train_loss"]]}
    last = record.last | {"train_loss": near["train_loss"][-1]}
    noisy = record.config | {"model": record.config["model"] | {"random_features": True}}
    assert verifying._allowed(replace(record, config=noisy), 1) == verifying.EARLY  # a device has noise of its own
    apart = changed(path, tmp_path / "near", environment=elsewhere, curve=near, last=last)
    assert verify(apart, epochs=3, **options).agrees is False


def test_a_number_that_the_paper_does_not_print_is_found_out(recorded, tmp_path, monkeypatch):
    path, options = recorded
    known = verifying.published_for(paper_config("CLUSTER", "gcn", budget="100K"))  # not of the tiny network
    monkeypatch.setattr(verifying, "published_for", lambda config: known)
    for mean, agrees in ((68.44, True), (1.0, False)):
        published = {"mean": mean, "std": 0.16, "table": 1}
        verdict = verify(changed(path, tmp_path / str(mean), published=published), epochs=1, **options)
        assert verdict.agrees is agrees
    assert verdict.lines == ("The paper's number is 1.0 ± 0.16 in the record, it prints 68.44 ± 0.16.",)


def test_a_curve_without_losses_is_nothing_to_compare(recorded, tmp_path):
    path, options = recorded
    record = read_record(path)
    bare = changed(path, tmp_path, curve={"epoch": record.curve["epoch"]})
    assert verify(bare, epochs=2, **options).agrees is None


@pytest.mark.parametrize("checksum", ["0" * 64, None])
def test_other_graphs_are_refused_before_training(recorded, tmp_path, checksum):
    path, options = recorded
    record = read_record(path)
    with pytest.raises(ChecksumError, match="others"):
        verify(changed(path, tmp_path, data=record.data | {"sha256": checksum}), **options)
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
