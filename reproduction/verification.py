"""Repeats a recorded run and compares the results.

If record and rerun are both deterministic (float32 on the same type of CPU, or ``deterministic`` on the same type of
GPU, with the same versions), every number must be equal to the last bit. Otherwise sums are added in
another order, and after many epochs two runs of a seed differ like two seeds: both numbers and the spread
over the seeds are printed, without a verdict.
"""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lrga.data.datasets.spec import dataset_specs, spec_of
from lrga.errors import ChecksumError, OptionError
from lrga.experiments.campaign import Campaign, Outcome, say_on_stderr
from lrga.experiments.cell import Cell, run_name
from lrga.experiments.loading import load_runs, rows_of
from lrga.experiments.records import FINISHED, FOLDER, RunRecord, find_record, read_record
from lrga.nn.layers.lrga import renamed_reading
from lrga.paper.printed import published_for
from lrga.tasks.task import METRICS
from lrga.training.config import TrainingConfig
from lrga.training.problems.data import load_training_data
from lrga.training.runs.trust import data_from_file

_SAME = ("packages", "lrga", "python", "cpu", "cpu_threads", "device", "gpu", "tf32", "engine")


@dataclass(frozen=True, kw_only=True)
class Rerun:
    """The result of :func:`verify`.

    Attributes:
        equal: Whether the second run is equal to its record; ``None`` if undecided.
        status: Status of the second run.
        lines: Lines of text about both runs.
        again: The record of the second run, if any.
    """

    equal: bool | None
    status: str
    lines: tuple[str, ...]
    again: RunRecord | None = None

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return {"equal": self.equal, "status": self.status, "lines": list(self.lines)}


def verify(
    path: str | Path,
    *,
    output: str | Path = "runs",
    epochs: int | None = None,
    time_limit: float | None = None,
    progress: bool = True,
    trust: bool = False,
    **places: Any,
) -> Rerun:
    """Repeats the run of a record on the same graphs with the same options and seed, and compares both.

    Args:
        path: The record; records in its folder give the spread over the seeds.
        output: The run is trained and resumed below ``output/verify``.
        epochs: Train only this number of epochs, and compare with the record's learning curve.
        time_limit: Minutes; repeat the call to resume.
        progress: Whether to show progress on stderr.
        trust: Whether a ``module:factory`` in the record may be imported and its data root written to.
        **places: ``device``, ``root`` and ``source``, which are not in the record.

    Raises:
        ChecksumError: The graphs here are not those of the record.
    """
    record = read_record(path)
    epochs_again(record, epochs)
    whole = TrainingConfig.from_json(record.config).changed(**{k: v for k, v in places.items() if v is not None})
    named = {key: places.get(key) for key in ("root", "source")}
    whole = replace(whole, data=data_from_file(whole.data, path, trust=trust, **named))
    config = whole if epochs is None else whole.changed(max_epochs=epochs)
    if whole.budget is not None:
        _check_graphs(record, whole)
    elif record.data.get("sha256") is None:
        raise _other_graphs(record, None)
    spread = _spread(record, Path(path).parent)
    cell = Cell(labels={}, config=config, seeds=(record.seed,))
    say, place = say_on_stderr if progress else None, Path(output) / "verify"
    _forget(place, run_name(cell.runs()[0]))
    outcome = Campaign([cell], place, time_limit=time_limit, say=say).run()[0]
    again = outcome.record
    if outcome.status != FINISHED or again is None:
        return Rerun(equal=None, status=outcome.status, lines=(_unfinished(outcome),), again=again)
    if again.data.get("sha256") != record.data.get("sha256"):
        raise _other_graphs(record, again.data.get("sha256"))
    equal: bool | None = None
    if odd := _other_network(record, again):
        equal, lines = False, odd
    elif (both := _both(record, again, beginning=epochs is not None)) is None:
        lines = ["Nothing compared: the record's learning curve has none of these epochs. Compare more epochs, or all."]
    elif _deterministic(record, again):
        odd = _unequal(record, again, beginning=epochs is not None)
        equal, lines = not odd, [both, f"Not equal in {', '.join(odd)}." if odd else "Equal to the last bit."]
    else:
        lines = [both, spread, "No verdict: not both runs are deterministic, or hardware or versions differ."]
    return Rerun(equal=equal, status=FINISHED, lines=tuple(lines), again=again)


def facts_of(path: str | Path, *, epochs: int | None = None) -> dict[str, Any]:
    """Describes the run that :func:`verify` would repeat: its epochs, and how long it took."""
    record = read_record(path)
    where = record.environment[-1] if record.environment else {}
    return {
        "run": record.run,
        "epochs": epochs_again(record, epochs),
        "recorded_epochs": record.epochs,
        "recorded_seconds": record.seconds,
        "recorded_on": where.get("gpu") or where.get("cpu"),
    }


def epochs_again(record: RunRecord, epochs: int | None) -> int:
    """The number of epochs to repeat; the run must be finished and have at least as many."""
    if record.status != FINISHED:
        raise OptionError("the record of a finished run", record.status, "choose another, or resume its campaign")
    if epochs is not None and not 1 <= epochs <= record.epochs:
        raise OptionError(f"1 to {record.epochs} epochs, as the run had", str(epochs), "ask for fewer, or leave it out")
    return record.epochs if epochs is None else epochs


def _check_graphs(record: RunRecord, config: TrainingConfig) -> None:
    found = load_training_data(config.data, config.run).fingerprint()
    if record.data.get("sha256") != found:
        raise _other_graphs(record, found)


def _other_graphs(record: RunRecord, found: str | None) -> ChecksumError:
    expected = f"the graphs of the record ({record.data['name']}, sha256 {str(record.data.get('sha256'))[:12]}…)"
    remedy = "build the data as the record says (data.recipe), or point --source or --data-root at those files"
    made, name = (record.data.get("recipe") or {}).get("version"), record.data["name"]
    if name in dataset_specs() and made not in (None, now := spec_of(name).recipe_version):
        remedy = (
            f"version {made} of the recipe built those graphs, this lrga builds version {now}; make a new record with "
            "`lrga reproduce run`, or verify with the commit of the record (environment.commit)"
        )
    return ChecksumError(expected, f"other graphs ({str(found)[:12]}…)", remedy)


def _forget(place: Path, run: str) -> None:
    """Removes a finished verification so that the run is repeated; a paused one is resumed."""
    found = find_record(place, run)
    if found is not None and found.status == FINISHED:
        (place / FOLDER / f"{run}.json").unlink()
        shutil.rmtree(place / run, ignore_errors=True)


def _other_network(record: RunRecord, again: RunRecord) -> list[str]:
    """Differences between the record and the current network, data and metric; newer options are ignored."""
    was, now = (
        renamed_reading({"graphs": run.data.get("graphs"), **run.model, **run.model.get("architecture", {})})
        | {"metric": None if run.metric is None else METRICS[run.metric].name}
        for run in (record, again)
    )
    for facts in (was, now):
        facts.pop("architecture", None)
    odd = [f"{key} is {was[key]} in the record, {now[key]} now." for key in was if key in now and was[key] != now[key]]
    printed, known = record.published, published_for(TrainingConfig.from_json(record.config))
    source = None if printed is None else printed.get("source", f"Table {printed.get('table')}")  # as in version 0.1
    if printed and known and source == known.source and (printed["mean"], printed["std"]) != (known.mean, known.std):
        was_printed = f"{printed['mean']} ± {printed['std']}"
        odd.append(f"The paper's number is {was_printed} in the record, but {known.mean} ± {known.std} in the paper.")
    return odd


def _deterministic(record: RunRecord, again: RunRecord) -> bool:
    """Whether both ran in the same way with the same versions and a fixed order of sums."""
    starts, config = [*record.environment, *again.environment], record.config
    if not starts or any(start.get(key) != starts[0].get(key) for start in starts for key in _SAME):
        return False
    on_cpu = starts[0].get("device") == "cpu" and config["optimizer"]["precision"] == "float32"
    return on_cpu or bool(config["run"].get("deterministic"))


def _both(record: RunRecord, again: RunRecord, *, beginning: bool) -> str | None:
    """A number of both runs: the test, or for a part of the epochs, the training loss of the last common epoch."""
    if not beginning:
        assert record.metric is not None
        metric = METRICS[record.metric]
        kind = f".{metric.decimals + 1}f"
        numbers = f"test {metric.name} {record.test or 0.0:{kind}} in the record, {again.test or 0.0:{kind}} now"
        return f"{numbers}; {record.epochs} and {again.epochs} epochs."
    shared, losses, now = _shared(record, again), record.curve.get("train_loss"), again.curve.get("train_loss")
    if not shared or losses is None or now is None:
        return None
    first, second = shared[-1]
    epoch = int(record.curve["epoch"][first])
    return f"Epoch {epoch}: training loss {losses[first]} in the record, {now[second]} now."


def _shared(record: RunRecord, again: RunRecord) -> list[tuple[int, int]]:
    """Positions of the common epochs in both learning curves."""
    now = {int(epoch): place for place, epoch in enumerate(again.curve.get("epoch", ()))}
    kept = enumerate(record.curve.get("epoch", ()))
    return [(place, now[int(epoch)]) for place, epoch in kept if int(epoch) in now]


def _unequal(record: RunRecord, again: RunRecord, *, beginning: bool) -> list[str]:
    """The numbers that differ between the records; for a part of the epochs only those of the curve."""
    odd = [
        f"{key} of the {word} epoch"
        for word, first, second in (("last", record.last, again.last), ("best", record.best, again.best))
        for key, value in _numbers(first).items()
        if not beginning and _numbers(second).get(key) != value
    ]
    if any(
        record.curve[key][first] != again.curve[key][second]
        for first, second in _shared(record, again)
        for key in record.curve.keys() & again.curve.keys()
    ):
        odd.append("the learning curve")
    return odd + ["the number of epochs"] * (not beginning and record.epochs != again.epochs)


def _numbers(epoch: Mapping[str, Any] | None) -> dict[str, Any]:
    return {key: value for key, value in (epoch or {}).items() if key not in ("seconds", "elapsed")}


def _spread(record: RunRecord, folder: Path) -> str:
    """The mean over the seeds of the record's cell, from the records of a folder with the same graphs."""
    cell = Cell(labels={}, config=TrainingConfig.from_json(record.config), seeds=(record.seed,))
    runs = [run for run in load_runs([folder]) if run.record.data.get("sha256") == record.data.get("sha256")]
    row = rows_of([cell], runs)[0]
    spread = row.spread()
    assert spread is not None  # the record itself is there
    seeds = f"{spread.n} seed{'s' * (spread.n > 1)}"
    return f"Records of this cell: {spread.text(row.metric.decimals + 1)} over {seeds}."


def _unfinished(outcome: Outcome) -> str:
    reason = "" if outcome.record is None else f": {outcome.record.reason.splitlines()[0]}"
    return f"The second run is {outcome.status}{reason}; run the same command to resume."
