"""A recorded run made again: does it agree?

On the same CPU with the same versions in float32 every number must be equal to the last bit. Elsewhere sums are added
in another order, and after many epochs two runs differ as two seeds do: the numbers of the last and of the best epoch
must then lie within twice the deviation that the difference of two runs has, taken from the second run, the other seeds
of the cell and the paper's, and the first epochs must be alike in training: within a hundredth in the first one, which
another seed is not, and within so many more in each that follows. The record itself does not count: a number that was
altered would widen what it is measured by.
"""

import math
import shutil
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lrga.bench.beside import published_for
from lrga.bench.cell import Cell, run_name
from lrga.bench.gathering import gather_records, rows_of
from lrga.bench.record_table import PAPER_SEEDS
from lrga.bench.records import FINISHED, FOLDER, RunRecord, find_record, read_record
from lrga.bench.runner import Campaign, Outcome, say_on_stderr
from lrga.errors import ChecksumError, OptionError
from lrga.tasks.task import METRICS
from lrga.training.config import TrainingConfig
from lrga.training.problems.graph_data import load_training_data
from lrga.training.runs.trust import data_from_file

SHARE = 0.02  # of the number itself, where no deviation is known
EARLY = 0.05  # share by which losses of the first epochs may differ between machines at most
EPOCH = 0.01  # share that each epoch adds where devices draw the same random numbers
FIRST = 3  # epochs in which they do not differ by more
_SAME = ("packages", "cpu", "cpu_threads", "device", "python")


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What :func:`verify` found.

    Attributes:
        agrees: Whether the runs agree; ``None`` where the second is not finished.
        exact: Whether they had to agree to the last bit.
        lines: What was compared, in words.
        again: The record of the second run, where it has one.
    """

    agrees: bool | None
    exact: bool
    lines: tuple[str, ...]
    again: RunRecord | None = None

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {"agrees": self.agrees, "exact": self.exact, "lines": list(self.lines)}


def verify(
    path: str | Path,
    *,
    output: str | Path = "runs",
    beside: Iterable[str | Path] = (),
    epochs: int | None = None,
    time_limit: float | None = None,
    progress: bool = True,
    trust: bool = False,
    **places: Any,
) -> Verdict:
    """Makes the run of a record again, on the same graphs with the same options and seed, and compares.

    Args:
        path: The record.
        output: The run is made, and continued, below ``output/verify``.
        beside: Folders of further records, for the deviation over the seeds.
        epochs: Only so many epochs, compared with the record's learning curve.
        time_limit: Minutes; the same call continues.
        progress: Whether to tell on stderr what happens.
        trust: Whether a ``module:factory`` that the record names may be imported and its data root written to.
        **places: ``device``, ``root`` and ``source``, which the record leaves open.

    Raises:
        ChecksumError: The graphs here are not those of the record.
    """
    record = read_record(path)
    epochs_again(record, epochs)
    whole = TrainingConfig.from_json(record.config).changed(**{k: v for k, v in places.items() if v is not None})
    named = {key: places.get(key) for key in ("root", "source")}
    whole = replace(whole, data=data_from_file(whole.data, path, trust=trust, **named))
    config = whole if epochs is None else whole.changed(max_epochs=epochs)
    if whole.link is None:
        _check_graphs(record, whole)
    elif record.data.get("sha256") is None:
        raise _other_graphs(record, None)
    cell = Cell(labels={}, config=config, seeds=(record.seed,))
    say, place = say_on_stderr if progress else None, Path(output) / "verify"
    _forget(place, run_name(cell.runs()[0]))
    outcome = Campaign([cell], place, time_limit=time_limit, say=say).run()[0]
    if outcome.status != FINISHED or outcome.record is None:
        return Verdict(agrees=None, exact=False, lines=(_unfinished(outcome),), again=outcome.record)
    again = outcome.record
    if again.data.get("sha256") != record.data.get("sha256"):
        raise _other_graphs(record, again.data.get("sha256"))
    exact = _must_be_equal(record, again)
    if odd := _other_network(record, again):
        return Verdict(agrees=False, exact=exact, lines=tuple(odd), again=again)
    if epochs is not None:
        return _compare_curves(record, again, exact=exact)
    if exact:
        return _compare_bits(record, again)
    return _compare_ends(record, again, deviation=_deviation(record, again, whole, [Path(path), *beside]))


def epochs_again(record: RunRecord, epochs: int | None) -> int:
    """How many epochs are made again: all, or those asked for, of a run that is finished and had as many."""
    if record.status != FINISHED:
        raise OptionError("the record of a finished run", record.status, "name another, or continue its campaign")
    if epochs is not None and not 1 <= epochs <= record.epochs:
        raise OptionError(f"1 to {record.epochs} epochs, as the run had", str(epochs), "ask for fewer, or for none")
    return record.epochs if epochs is None else epochs


def _check_graphs(record: RunRecord, config: TrainingConfig) -> None:
    found = load_training_data(config.data, config.run).fingerprint()
    if record.data.get("sha256") != found:
        raise _other_graphs(record, found)


def _other_graphs(record: RunRecord, found: str | None) -> ChecksumError:
    expected = f"the graphs of the record ({record.data['name']}, sha256 {str(record.data.get('sha256'))[:12]}…)"
    remedy = "build the data as the record says (data.recipe), or point --source or --data-root at those files"
    return ChecksumError(expected, f"others ({str(found)[:12]}…)", remedy)


def _forget(place: Path, run: str) -> None:
    """Takes away a verification that came to its end, so that the run is made again; one that was paused goes on."""
    found = find_record(place, run)
    if found is not None and found.status == FINISHED:
        (place / FOLDER / f"{run}.json").unlink()
        shutil.rmtree(place / run, ignore_errors=True)


def _other_network(record: RunRecord, again: RunRecord) -> list[str]:
    """What the record says of network, data and metric that is not so; options that came later are passed over."""
    was, now = (
        {"graphs": run.data.get("graphs"), **run.model, **run.model.get("architecture", {})}
        | {"metric": None if run.metric is None else METRICS[run.metric].name}
        for run in (record, again)
    )
    for facts in (was, now):
        facts.pop("architecture", None)
    odd = [f"{key} is {was[key]} in the record, {now[key]} now." for key in was if key in now and was[key] != now[key]]
    printed, known = record.published, published_for(TrainingConfig.from_json(record.config))
    if printed is not None and known is not None and (printed["mean"], printed["std"]) != (known.mean, known.std):
        was_printed = f"{printed['mean']} ± {printed['std']}"
        odd.append(f"The paper's number is {was_printed} in the record, it prints {known.mean} ± {known.std}.")
    return odd


def _must_be_equal(record: RunRecord, again: RunRecord) -> bool:
    """Whether both ran on the same kind of CPU with the same versions, in float32."""
    starts = [*record.environment, *again.environment]
    alike = bool(starts) and all(start.get(key) == starts[0].get(key) for start in starts for key in _SAME)
    return alike and starts[0].get("device") == "cpu" and record.config["optimizer"]["precision"] == "float32"


def _compare_bits(record: RunRecord, again: RunRecord) -> Verdict:
    """Every number of both records."""
    odd = [
        f"{key} of the {word} epoch"
        for word, first, second in (("last", record.last, again.last), ("best", record.best, again.best))
        for key, value in _numbers(first).items()
        if _numbers(second).get(key) != value
    ]
    odd += [] if record.curve == again.curve else ["the learning curve"]
    odd += [] if record.epochs == again.epochs else ["the number of epochs"]
    verdict = f"Not equal in {', '.join(odd)}." if odd else "Equal to the last bit."
    return Verdict(agrees=not odd, exact=True, lines=(_both(record, again), verdict), again=again)


def _compare_ends(record: RunRecord, again: RunRecord, *, deviation: tuple[float, str]) -> Verdict:
    """Numbers of the last and the best epoch, within a deviation; the first epochs, which hardly depend on chance."""
    assert record.metric is not None
    decimals = METRICS[record.metric].decimals + 1
    size, source = deviation
    allowed = 2 * math.sqrt(2) * size
    lines = [
        _both(record, again),
        f"Other machine, device or versions: may differ by {allowed:.{decimals}f} ({source}).",
    ]
    agrees = True
    for word, was, now in (("last", record.last, again.last), ("best", record.best, again.best)):
        apart = abs(_test(was) - _test(now))
        if apart > allowed:
            agrees = False
            lines.append(f"The test at the {word} epoch differs by {apart:.{decimals}f}.")
    apart_by = _apart_in_training(record, again, _shared(record, again)[:FIRST])
    if too_far := [epoch for epoch in apart_by if apart_by[epoch] > _allowed(record, epoch)]:
        agrees, epoch = False, too_far[0]
        allowed_here = _allowed(record, epoch)
        lines.append(f"In training epoch {epoch} differs by {apart_by[epoch]:.2%}; it may by {allowed_here:.0%}.")
    return Verdict(agrees=agrees, exact=False, lines=tuple(lines), again=again)


def _both(record: RunRecord, again: RunRecord) -> str:
    assert record.metric is not None
    decimals = METRICS[record.metric].decimals + 1
    was, now = float(record.test or 0.0), float(again.test or 0.0)
    numbers = f"test {record.metric} {was:.{decimals}f} in the record, {now:.{decimals}f} now"
    return f"{numbers}; {record.epochs} and {again.epochs} epochs."


def _test(epoch: Mapping[str, Any] | None) -> float:
    return float((epoch or {}).get("test_metric", 0.0))


def _shared(record: RunRecord, again: RunRecord) -> list[tuple[int, int]]:
    """Places in both learning curves of the epochs that both keep."""
    now = {int(epoch): place for place, epoch in enumerate(again.curve.get("epoch", ()))}
    kept = enumerate(record.curve.get("epoch", ()))
    return [(place, now[int(epoch)]) for place, epoch in kept if int(epoch) in now]


def _allowed(record: RunRecord, epoch: int) -> float:
    """The share by which an early epoch may differ between machines."""
    model = record.config["model"]
    if "link" in record.config or model.get("random_features") or model.get("dropout"):
        return EARLY  # each device draws numbers of its own
    return min(EARLY, EPOCH * epoch)


def _apart_in_training(record: RunRecord, again: RunRecord, shared: list[tuple[int, int]]) -> dict[int, float]:
    """By what share losses and metrics of training differ in each epoch that has some."""
    keys = ("train_loss",) if "link" in record.config else ("train_loss", "train_metric")
    apart: dict[int, float] = {}
    for first, second in shared:
        epoch = int(record.curve["epoch"][first])
        for key in keys:
            was, here = (run.curve.get(key) for run in (record, again))
            if was is not None and here is not None and was[first] is not None and here[second] is not None:
                share = abs(was[first] - here[second]) / max(abs(was[first]), 1e-12)
                apart[epoch] = max(apart.get(epoch, 0.0), share)
    return apart


def _other_rates(record: RunRecord, again: RunRecord, shared: list[tuple[int, int]]) -> list[int]:
    """Epochs that had another learning rate, before the schedule, which hangs on chance, could have changed it."""
    patience, was, now = record.config["optimizer"]["patience"], record.curve.get("lr"), again.curve.get("lr")
    if was is None or now is None:
        return []
    epochs = [(int(record.curve["epoch"][first]), was[first], now[second]) for first, second in shared]
    return [epoch for epoch, first, second in epochs if epoch <= patience and first != second]


def _compare_curves(record: RunRecord, again: RunRecord, *, exact: bool) -> Verdict:
    """The learning curves at the epochs that both have."""
    shared = _shared(record, again)
    apart = _apart_in_training(record, again, shared)
    if not apart:
        nothing = "Nothing compared: the record's learning curve has none of these epochs. Ask for more, or for all."
        return Verdict(agrees=None, exact=exact, lines=(nothing,), again=again)
    equal = all(
        record.curve[key][first] == again.curve[key][second]
        for first, second in shared
        for key in record.curve
        if key in again.curve
    )
    kept = "" if len(shared) == again.epochs else f" of {again.epochs}, those that the record's curve keeps,"
    word = "epoch" if len(shared) == 1 else "epochs"
    lines = [f"{len(shared)} {word}{kept} compared; in training they differ by at most {max(apart.values()):.2%}."]
    if exact:
        lines.append("Equal in all digits of the record." if equal else "Not equal, though machine and versions are.")
        return Verdict(agrees=equal, exact=True, lines=tuple(lines), again=again)
    first, last = (_allowed(record, epoch) for epoch in (min(apart), max(apart)))
    limits = f"{first:.0%}" if first == last else f"{first:.0%} in epoch {min(apart)} and {last:.0%} in {max(apart)}"
    lines.append(f"Other machine, device or versions: they may differ by {limits}.")
    lines.append("Validation and test, which swing between machines at first, count at the end of a whole run only.")
    odd = _other_rates(record, again, shared)
    lines += [f"Epoch {epoch} had another learning rate." for epoch in odd]
    near = all(share <= _allowed(record, epoch) for epoch, share in apart.items())
    return Verdict(agrees=near and not odd, exact=False, lines=tuple(lines), again=again)


def _deviation(
    record: RunRecord, again: RunRecord, config: TrainingConfig, folders: Iterable[Path | str]
) -> tuple[float, str]:
    """The deviation of one run, and where it comes from: the second run and other seeds, pooled with the paper's."""
    cell = Cell(labels={}, config=config, seeds=(record.seed,))
    row = rows_of([cell], gather_records(folders))[0]
    tests = [_test(again.best if "link" in again.config else again.last)]
    tests += [float(run.test) for run in row.finished if run.seed != record.seed and run.test is not None]
    free, squares = 0, 0.0
    sources = []
    if len(tests) > 1:
        free, squares = len(tests) - 1, (len(tests) - 1) * statistics.variance(tests)
        sources.append(f"the second run and {len(tests) - 1} other seed{'s' if len(tests) > 2 else ''}")
    if record.published is not None and record.published["std"]:
        own = PAPER_SEEDS.get(int(record.published.get("table") or 0), 2) - 1
        free, squares = free + own, squares + own * float(record.published["std"]) ** 2
        sources.append("the paper's seeds")
    if squares:
        return math.sqrt(squares / free), f"twice the deviation of a difference, by {' and '.join(sources)}"
    return SHARE * abs(tests[0]) / (2 * math.sqrt(2)), f"{SHARE:.0%} of it, as no deviation is known"


def _numbers(epoch: Mapping[str, Any] | None) -> dict[str, Any]:
    return {key: value for key, value in (epoch or {}).items() if key not in ("seconds", "elapsed")}


def _unfinished(outcome: Outcome) -> str:
    reason = "" if outcome.record is None else f": {outcome.record.reason.splitlines()[0]}"
    return f"The second run is {outcome.status}{reason}; the same command continues it."
