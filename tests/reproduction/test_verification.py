"""A recorded run made again is equal to its record, or it is said what differs, or that nothing decides it."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from lrga.errors import ChecksumError, DataError, OptionError
from lrga.experiments.campaign import Campaign
from lrga.experiments.cell import run_name
from lrga.experiments.records import read_record, write_record
from lrga.paper.protocols import paper_config, table1
from lrga.training.config import TrainingConfig
from reproduction import verification as verifying
from reproduction.verification import verify


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
    rerun = verify(path, **options)
    assert (rerun.equal, rerun.status) == (True, "finished")
    assert "Equal to the last bit." in rerun.lines
    assert json.loads(json.dumps(rerun.to_json()))["equal"] is True
    beginning = verify(path, epochs=2, **options)
    assert (beginning.equal, beginning.again.epochs) == (True, 2)
    assert beginning.lines[0].startswith("Epoch 2: training loss ")


def test_a_number_that_was_altered_is_found_out(recorded, tmp_path):
    path, options = recorded
    record = read_record(path)
    wrong = changed(path, tmp_path, last=record.last | {"test_loss": record.last["test_loss"] + 1e-6})
    rerun = verify(wrong, **options)
    assert rerun.equal is False
    assert "Not equal in test_loss of the last epoch, the learning curve." in rerun.lines
    best = changed(path, tmp_path / "best", best=record.best | {"test_metric": 99.0})
    assert "Not equal in test_metric of the best epoch." in verify(best, **options).lines
    curve = {**record.curve, "train_loss": [value + 0.001 for value in record.curve["train_loss"]]}
    assert verify(changed(path, tmp_path / "b", curve=curve), epochs=1, **options).equal is False


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
        rerun = verify(changed(path, tmp_path / key, environment=environment, **values), epochs=1, **options)
        assert rerun.equal is False
        assert any(line.startswith(f"{key} is ") for line in rerun.lines)
    with pytest.raises(DataError, match="metric 'mae', but the metric of CLUSTER is 'weighted_accuracy_by_batch'"):
        verify(changed(path, tmp_path / "metric", metric="mae"), **options)


def test_it_is_made_again_every_time(recorded):
    path, options = recorded
    assert verify(path, epochs=1, **options).equal
    (kept,) = (options["output"] / "verify" / "records").iterdir()
    kept.write_text(json.dumps(json.loads(kept.read_text()) | {"seconds": 12345.0}))
    second = verify(path, epochs=1, **options)
    assert second.equal
    assert second.again.seconds != 12345.0


def test_nothing_to_compare_is_no_agreement(recorded, tmp_path):
    path, options = recorded
    record = read_record(path)
    late = {key: column[1:] for key, column in record.curve.items()}
    for number, curve in enumerate([late, {}]):
        rerun = verify(changed(path, tmp_path / str(number), curve=curve), epochs=1, **options)
        assert rerun.equal is None
        assert "Nothing compared" in rerun.lines[0]


@pytest.fixture
def elsewhere(recorded):
    """The environment of the record, had it been made on a GPU."""
    return [read_record(recorded[0]).environment[0] | {"device": "cuda:0", "gpu": "NVIDIA H200"}]


def test_on_another_machine_both_numbers_and_the_spread_over_seeds_are_given_without_a_verdict(
    recorded, elsewhere, tiny, tmp_path
):
    path, options = recorded
    (other,) = Campaign([table1("CLUSTER", seeds=[95], **tiny)], tmp_path / "runs").run()
    for seed95, spread in ((None, "over 1 seed."), (other.record, "over 2 seeds.")):
        moved = changed(path, tmp_path, environment=elsewhere)
        if seed95 is not None:
            write_record(seed95, tmp_path / "changed")
        rerun = verify(moved, **options)
        assert (rerun.equal, rerun.status) == (None, "finished")
        was = f"{read_record(path).test:.3f}"
        assert rerun.lines[0].endswith(f"{was} in the record, {was} now; 3 and 3 epochs.")
        assert rerun.lines[1].startswith("Records of this cell: ")
        assert rerun.lines[1].endswith(spread)
        assert rerun.lines[2].startswith("No verdict: ")
    far = read_record(path).last | {"test_metric": 99.0}
    rerun = verify(changed(path, tmp_path / "far", environment=elsewhere, last=far), **options)
    assert rerun.equal is None
    assert "99.000 in the record" in rerun.lines[0]


def test_the_beginning_on_another_machine_has_no_rerun_either(recorded, elsewhere, tmp_path):
    path, options = recorded
    rerun = verify(changed(path, tmp_path, environment=elsewhere), epochs=2, **options)
    loss = read_record(path).curve["train_loss"][1]
    assert rerun.equal is None
    assert rerun.lines[0] == f"Epoch 2: training loss {loss} in the record, {loss} now."


def test_a_gpu_counts_as_deterministic_where_the_run_asked_for_it(recorded, elsewhere):
    record = replace(read_record(recorded[0]), environment=elsewhere)
    sure = replace(record, config=record.config | {"run": record.config["run"] | {"deterministic": True}})
    assert not verifying._deterministic(record, record)
    assert verifying._deterministic(sure, sure)
    other = replace(sure, environment=[elsewhere[0] | {"gpu": "NVIDIA A100"}])
    assert not verifying._deterministic(sure, other)
    newer = replace(sure, environment=[elsewhere[0] | {"lrga": "9.0"}])
    assert not verifying._deterministic(sure, newer)


def test_a_number_that_the_paper_does_not_print_is_found_out(recorded, tmp_path, monkeypatch):
    path, options = recorded
    known = verifying.published_for(paper_config("CLUSTER", "gcn", budget="100K"))  # not of the tiny network
    monkeypatch.setattr(verifying, "published_for", lambda config: known)
    for mean, agrees in ((68.44, True), (1.0, False)):
        published = {"mean": mean, "std": 0.16, "table": 1}
        rerun = verify(changed(path, tmp_path / str(mean), published=published), epochs=1, **options)
        assert rerun.equal is agrees
    assert rerun.lines == ("The paper's number is 1.0 ± 0.16 in the record, but 68.44 ± 0.16 in the paper.",)


def test_published_numbers_of_another_source_are_not_compared_with_the_paper(recorded, tmp_path, monkeypatch):
    path, options = recorded
    known = verifying.published_for(paper_config("CLUSTER", "gcn", budget="100K"))
    monkeypatch.setattr(verifying, "published_for", lambda config: known)
    own = {"mean": 1.0, "std": None, "source": "a leaderboard"}
    assert verify(changed(path, tmp_path / "own", published=own), epochs=1, **options).equal
    papers = {"mean": 1.0, "std": 0.16, "source": "Table 1"}
    assert verify(changed(path, tmp_path / "paper", published=papers), epochs=1, **options).equal is False


def test_the_spread_over_seeds_is_of_records_with_the_same_graphs(recorded, tmp_path):
    path, _ = recorded
    record = read_record(path)
    write_record(record, tmp_path)
    alike = [(1, record.data), (2, record.data | {"sha256": "0" * 64})]
    for seed, data in alike:
        config = record.config | {"run": record.config["run"] | {"seed": seed}}
        name = run_name(TrainingConfig.from_json(config))
        write_record(replace(record, run=name, seed=seed, config=config, data=data), tmp_path)
    assert verifying._spread(record, tmp_path).endswith("over 2 seeds.")


def test_a_curve_without_losses_is_nothing_to_compare(recorded, tmp_path):
    path, options = recorded
    record = read_record(path)
    bare = changed(path, tmp_path, curve={"epoch": record.curve["epoch"]})
    assert verify(bare, epochs=2, **options).equal is None


@pytest.mark.parametrize("checksum", ["0" * 64, None])
def test_other_graphs_are_refused_before_training(recorded, tmp_path, checksum):
    path, options = recorded
    record = read_record(path)
    with pytest.raises(ChecksumError, match="other graphs"):
        verify(changed(path, tmp_path, data=record.data | {"sha256": checksum}), **options)
    assert not options["output"].exists()


def test_graphs_of_an_earlier_recipe_are_named(recorded, tmp_path):
    path, options = recorded
    data = read_record(path).data
    earlier = data | {"sha256": "0" * 64, "recipe": data["recipe"] | {"version": 0}}
    with pytest.raises(ChecksumError, match="version 0 of the recipe built those graphs, this lrga builds version 1"):
        verify(changed(path, tmp_path, data=earlier), **options)


def test_a_second_run_that_is_paused_is_neither_right_nor_wrong(recorded):
    path, options = recorded
    rerun = verify(path, time_limit=1e-9, **options)
    assert rerun.equal is None
    assert "run the same command to resume" in rerun.lines[0]
    assert verify(path, **options).equal


def test_what_cannot_be_verified_is_refused(recorded, tmp_path):
    path, options = recorded
    with pytest.raises(OptionError, match="1 to 3 epochs"):
        verify(path, epochs=4, **options)
    with pytest.raises(OptionError, match="finished"):
        verify(changed(path, tmp_path, status="time-limited"), **options)


def test_a_record_that_was_repeated_on_another_machine_is_equal_to_the_last_bit():
    results = Path(verifying.__file__).parent / "results"
    (path,) = (results / "repeated").glob("*.json")
    first, again = read_record(results / "table1" / path.name), read_record(path)
    assert (first.status, again.status, first.epochs) == ("finished", "finished", 98)
    assert first.time != again.time
    assert verifying._deterministic(first, again)
    assert verifying._unequal(first, again, beginning=False) == []
