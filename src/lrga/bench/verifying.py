"""A recorded run made again: does it agree?

On the same CPU with the same versions in float32 every number must be equal to the last bit. Elsewhere sums are added
in another order, and after many epochs two runs differ as two seeds do: the reported number must then lie within twice
the deviation that the difference of two runs has, taken from the seeds of the cell (else from the paper's).
"""

import math
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lrga.bench.cell import Cell, run_name
from lrga.bench.gathering import gather_records, rows_of
from lrga.bench.records import FINISHED, FOLDER, RunRecord, find_record, read_record
from lrga.bench.runner import Campaign, Outcome, say_on_stderr
from lrga.bench.tables import Row
from lrga.errors import ChecksumError, OptionError
from lrga.tasks.task import METRICS
from lrga.training.config import TrainingConfig
from lrga.training.graphs import load_training_data

SHARE = 0.02  # of the number itself, where no deviation is known
EARLY = 0.05  # share by which losses of the first epochs may differ between machines
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
        **places: ``device``, ``root`` and ``source``, which the record leaves open.

    Raises:
        ChecksumError: The graphs here are not those of the record.
    """
    record = read_record(path)
    epochs_again(record, epochs)
    whole = TrainingConfig.from_json(record.config).changed(**{k: v for k, v in places.items() if v is not None})
    config = whole if epochs is None else whole.changed(max_epochs=epochs)
    if whole.link is None:
        _check_graphs(record, whole)
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
    return _compare_ends(record, again, exact=exact, deviation=_deviation(record, whole, [Path(path), *beside]))


def epochs_again(record: RunRecord, epochs: int | None) -> int:
    """How many epochs are made again: all, or those asked for, of a run that is finished and had as many."""
    if record.status != FINISHED:
        raise OptionError("the record of a finished run", record.status, "name another, or continue its campaign")
    if epochs is not None and not 1 <= epochs <= record.epochs:
        raise OptionError(f"1 to {record.epochs} epochs, as the run had", str(epochs), "ask for fewer, or for none")
    return record.epochs if epochs is None else epochs


def _check_graphs(record: RunRecord, config: TrainingConfig) -> None:
    found = load_training_data(config.data, config.run).fingerprint()
    if record.data.get("sha256") not in (None, found):
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
    """What the record says of network and metric that is not so; options that came later are passed over."""
    was = {"metric": record.metric, "parameters": record.parameters, **record.model.get("architecture", {})}
    now = {"metric": again.metric, "parameters": again.parameters, **again.model.get("architecture", {})}
    return [f"{key} is {was[key]} in the record, {now[key]} now." for key in was if key in now and was[key] != now[key]]


def _must_be_equal(record: RunRecord, again: RunRecord) -> bool:
    """Whether both ran on the same kind of CPU with the same versions, in float32."""
    starts = [*record.environment, *again.environment]
    alike = bool(starts) and all(start.get(key) == starts[0].get(key) for start in starts for key in _SAME)
    return alike and starts[0].get("device") == "cpu" and record.config["optimizer"]["precision"] == "float32"


def _compare_ends(record: RunRecord, again: RunRecord, *, exact: bool, deviation: tuple[float, str]) -> Verdict:
    assert record.metric is not None
    decimals = METRICS[record.metric].decimals + 1
    was, now = float(record.test or 0.0), float(again.test or 0.0)
    numbers = f"test {record.metric} {was:.{decimals}f} in the record, {now:.{decimals}f} now"
    lines = [f"{numbers}; {record.epochs} and {again.epochs} epochs."]
    if exact:
        odd = [
            f"{key} of the {word} epoch"
            for word, first, second in (("last", record.last, again.last), ("best", record.best, again.best))
            for key, value in _numbers(first).items()
            if _numbers(second).get(key) != value
        ]
        odd += [] if record.curve == again.curve else ["the learning curve"]
        odd += [] if record.epochs == again.epochs else ["the number of epochs"]
        same = not odd
        lines.append("Equal to the last bit." if same else f"Not equal in {', '.join(odd)}.")
        return Verdict(agrees=same, exact=True, lines=tuple(lines), again=again)
    size, source = deviation
    allowed = 2 * math.sqrt(2) * size
    lines.append(f"Other machine, device or versions: may differ by {allowed:.{decimals}f} ({source}).")
    return Verdict(agrees=abs(was - now) <= allowed, exact=False, lines=tuple(lines), again=again)


def _compare_curves(record: RunRecord, again: RunRecord, *, exact: bool) -> Verdict:
    """The learning curves at the epochs that both have."""
    now = {int(epoch): place for place, epoch in enumerate(again.curve.get("epoch", ()))}
    kept_epochs = enumerate(record.curve.get("epoch", ()))
    shared = [(place, now[int(epoch)]) for place, epoch in kept_epochs if int(epoch) in now]
    if not shared:
        nothing = "Nothing compared: the record's learning curve has none of these epochs. Ask for more, or for all."
        return Verdict(agrees=None, exact=exact, lines=(nothing,), again=again)
    worst, equal = 0.0, True
    for first, second in shared:
        for key in ("train_loss",) if "link" in record.config else ("train_loss", "train_metric"):
            was, here = record.curve[key][first], again.curve[key][second]
            worst = max(worst, abs(was - here) / max(abs(was), 1e-12))
        equal = equal and all(record.curve[key][first] == again.curve[key][second] for key in record.curve)
    kept = "" if len(shared) == again.epochs else f" of {again.epochs}, those that the record's curve keeps,"
    word = "epoch" if len(shared) == 1 else "epochs"
    lines = [f"{len(shared)} {word}{kept} compared; in training they differ by at most {worst:.2%}."]
    if exact:
        lines.append("Equal in all digits of the record." if equal else "Not equal, though machine and versions are.")
    else:
        lines.append(f"Other machine, device or versions: they may differ by {EARLY:.0%}.")
    return Verdict(agrees=equal if exact else worst <= EARLY, exact=exact, lines=tuple(lines), again=again)


def _deviation(record: RunRecord, config: TrainingConfig, folders: Iterable[Path | str]) -> tuple[float, str]:
    """The deviation of one run, and where it comes from."""
    cell = Cell(labels={}, config=config, seeds=(record.seed,))
    row: Row = rows_of([cell], gather_records(folders))[0]
    if (spread := row.spread()) is not None and spread.std:
        return spread.std, f"twice the deviation of a difference, over {spread.n} seeds"
    if record.published is not None and record.published["std"]:
        return float(record.published["std"]), "twice the deviation of a difference, by the paper's seeds"
    return SHARE * abs(record.test or 0.0) / (2 * math.sqrt(2)), f"{SHARE:.0%} of it, as no deviation is known"


def _numbers(epoch: Mapping[str, Any] | None) -> dict[str, Any]:
    return {key: value for key, value in (epoch or {}).items() if key not in ("seconds", "elapsed")}


def _unfinished(outcome: Outcome) -> str:
    reason = "" if outcome.record is None else f": {outcome.record.reason.splitlines()[0]}"
    return f"The second run is {outcome.status}{reason}; the same command continues it."
