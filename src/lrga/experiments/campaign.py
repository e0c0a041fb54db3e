"""A campaign: many runs in sequence; each is trained once, even if the campaign is interrupted.

All files are in one folder: ``RUN/`` is the run folder of each run, ``records/RUN.json`` its record. Called again, a
campaign skips runs that have a record, resumes interrupted runs, and starts missing ones.
"""

import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lrga.data.datasets.building import plan_dataset
from lrga.data.datasets.spec import dataset_name
from lrga.errors import CheckpointError, FolderInUseError, NonFiniteError, OptionError, RankLostError, visible
from lrga.experiments.cell import Cell, budget_label, earlier_name, model_label, run_name
from lrga.experiments.recording import Witness, make_record
from lrga.experiments.records import DIVERGED, FAILED, FINISHED, TIME_LIMITED, RunRecord, find_record, write_record
from lrga.experiments.sheet import value_text
from lrga.tasks.task import METRICS
from lrga.training.callbacks.base import Callback
from lrga.training.config import SECTION_OF, DataConfig, TrainingConfig
from lrga.training.determinism import choose_device
from lrga.training.problems.data import Given, load_source
from lrga.training.runs.folder import RunFolder, TrainingResult
from lrga.training.runs.run import Interrupted
from lrga.training.runs.seeds import train_interleaved, worth_interleaving

PENDING, BUSY = "pending", "busy"


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """A run of a campaign and its current state.

    Attributes:
        name: Name of the run.
        config: Configuration of the run.
        status: As in its record; ``"pending"`` without a record; ``"busy"`` if another process trains it.
        record: Its record, if any.
        fresh: Whether this campaign started or resumed it, instead of finding it finished.
        begun: Whether it has a folder, from which it can be resumed; it may have no record.
    """

    name: str
    config: TrainingConfig
    status: str
    record: RunRecord | None = None
    fresh: bool = False
    begun: bool = False


class Campaign:
    """Runs cells in sequence.

    Args:
        cells: The cells to run.
        folder: Folder of run folders and records.
        data: Graphs to use instead of the data sets of the configurations.
        time_limit: Minutes for all runs together, counted from the start of the first missing run.
        retry: Whether to repeat runs that diverged; failed runs are always repeated.
        at_once: Whether several seeds of a cell may be trained at once if that is faster.
        failed_since: Runs that failed after this time are skipped: another process of the campaign tried them.
        callbacks: Creates the callbacks of the runs that are trained at once (mostly one) from their titles.
        say: Called with one line for each event of a run.

    Example:
        >>> import tempfile
        >>> from lrga.training.presets import make_config
        >>> options = {"max_epochs": 1, "hidden": 8, "layers": 1, "batch_size": 4, "device": "cpu"}
        >>> root = tempfile.mkdtemp()
        >>> config = make_config("CLUSTER", root=root, data_options={"sizes": (8, 4, 4)}, **options)
        >>> cell = Cell(labels={}, config=config, seeds=(41,))
        >>> [outcome.status for outcome in Campaign([cell], root + "/runs").run()]
        ['finished']
        >>> [outcome.fresh for outcome in Campaign([cell], root + "/runs").run()]
        [False]
    """

    def __init__(
        self,
        cells: Sequence[Cell],
        folder: str | Path = "runs",
        *,
        data: Given = None,
        time_limit: float | None = None,
        retry: bool = False,
        at_once: bool = True,
        failed_since: str | None = None,
        callbacks: Callable[[Sequence[str]], Sequence[Sequence[Callback]]] | None = None,
        say: Callable[[str], None] | None = None,
    ) -> None:
        if time_limit is not None and not time_limit > 0:
            raise OptionError("a time limit above 0 minutes", repr(time_limit), "pass for example 60")
        self.cells, self.folder, self.data = list(cells), Path(folder), data
        self.time_limit, self.callbacks, self.say = time_limit, callbacks, say or (lambda _: None)
        self._done = (FINISHED,) if retry else (FINISHED, DIVERGED)  # not repeated
        self.at_once, self.failed_since = at_once, failed_since
        self._runs = [(cell, config) for cell in self.cells for config in cell.runs()]
        self._made: dict[str, Outcome] = {}
        self._loaded: tuple[DataConfig, Given] | None = None
        for _, config in self._runs:  # unknown data options raise an error before any training
            if data is None and dataset_name(config.data.name) is not None:
                plan_dataset(config.data.name, config.data.root, **config.data.options)

    def outcomes(self) -> list[Outcome]:
        """The state of every run, in the order of cells and seeds; nothing is trained."""
        return [self._made.get(run_name(config)) or self._found(config) for _, config in self._runs]

    def run(self) -> list[Outcome]:
        """Trains missing runs. On Ctrl-C the current run writes a checkpoint, and ``Interrupted`` is raised."""
        begin: float | None = None
        for device in {config.run.device for _, config in self._runs}:
            choose_device(device)
        for number, (cell, config) in enumerate(self._runs, start=1):
            place = f"[{number}/{len(self._runs)}]"
            title = f"{place} {run_title(config, cell.labels)}"
            found = self._found(config)
            if found.name in self._made:  # two cells may share a run
                continue
            if found.status in self._done:
                self.say(f"{title}: already {found.status}, skipped")
                continue
            failed = None if found.status != FAILED or found.record is None else found.record.time
            if failed is not None and self.failed_since is not None and failed >= self.failed_since:
                continue
            begin = begin or time.monotonic()
            left = None if self.time_limit is None else self.time_limit - (time.monotonic() - begin) / 60
            if left is not None and left <= 0:
                self.say("Time limit reached. Run the same command to resume.")
                break
            if self._in_use(found.name):
                self._made[found.name] = self._busy(config, title)
                continue
            self._made |= self._train(cell, self._at_once(cell, config), place, left)
        return self.outcomes()

    def _at_once(self, cell: Cell, config: TrainingConfig) -> list[TrainingConfig]:
        """The run, together with the cell's other missing seeds if training them at once is faster."""
        if not self.at_once or not worth_interleaving(config, choose_device(config.run.device)):
            return [config]
        others = [c for owner, c in self._runs if owner is cell and c is not config]
        waiting = [c for c in others if run_name(c) not in self._made and self._found(c).status not in self._done]
        return [config, *(c for c in waiting if not self._in_use(run_name(c)))]

    def prepare(self) -> None:
        """Checks the device and, if all runs use the same data, the data."""
        configs = [config for _, config in self._runs]
        for device in {config.run.device for config in configs}:
            choose_device(device)
        waiting = [config for config in configs if self._found(config).status not in self._done]
        if waiting and all(config.data == configs[0].data for config in configs):
            self._graphs(waiting[0])
            self._loaded = None

    def _found(self, config: TrainingConfig) -> Outcome:
        name = run_name(config)
        record = find_record(self.folder, name) or find_record(self.folder, earlier_name(config))
        status, begun = PENDING if record is None else record.status, RunFolder(self.folder / name).holds_a_run
        return Outcome(name=name, config=config, status=status, record=record, begun=begun)

    def _train(
        self, cell: Cell, configs: list[TrainingConfig], place: str, minutes: float | None
    ) -> dict[str, Outcome]:
        """Trains runs that differ only in their seeds."""
        first, begin, witnesses = configs[0], time.monotonic(), [Witness() for _ in configs]
        folders = [self.folder / run_name(config) for config in configs]
        for config, folder in zip(configs, folders, strict=True):
            continued = ", continued" if RunFolder(folder).holds_a_run else ""
            self.say(f"{place} {run_title(config, cell.labels)}{continued}{', at once' if len(configs) > 1 else ''}")
        if all(other.data == first.data for _, other in self._runs):
            self._graphs(first)  # if the graphs of all runs are missing, the campaign fails, not a run
        try:
            title = f"{place} {model_label(first)}"
            titles = [title] if len(configs) == 1 else [f"{title}, seed {config.run.seed}" for config in configs]
            asked = [()] * len(configs) if self.callbacks is None else self.callbacks(titles)
            heard = [[w, *more] for w, more in zip(witnesses, asked, strict=True)]
            graphs = self._graphs(first)
            results = train_interleaved(configs, folders, data=graphs, callbacks=heard, time_limit=minutes)
        except Interrupted:
            self.say(
                f"{place} {run_title(first, cell.labels)}: stopped after a checkpoint; run the same command to resume"
            )
            raise
        except RankLostError:  # the next run would wait for that rank
            raise
        except Exception as error:  # a failed run must not stop the others
            results = [error] * len(configs)
        made = zip(configs, folders, witnesses, results, strict=True)
        return {run_name(c): self._conclude(cell, c, place, folder, w, r, begin) for c, folder, w, r in made}

    def _conclude(
        self,
        cell: Cell,
        config: TrainingConfig,
        place: str,
        folder: Path,
        witness: Witness,
        result: TrainingResult | Exception,
        begin: float,
    ) -> Outcome:
        """Writes the record of a run after it ended, also if it failed."""
        name, title, seconds = run_name(config), f"{place} {run_title(config, cell.labels)}", None
        if isinstance(result, TrainingResult):
            status, reason, seconds = FINISHED if result.finished else TIME_LIMITED, result.stopped_by, result.seconds
        elif isinstance(result, FolderInUseError):  # another process started it a moment earlier
            return self._busy(config, title)
        elif isinstance(result, NonFiniteError):
            status, reason = DIVERGED, str(result)
        else:
            status, reason = FAILED, f"{type(result).__name__}: {result}"
            if not isinstance(result, ValueError | RuntimeError | OSError | ImportError):
                reason += "\n" + "".join(traceback.format_exception(result))
        facts: dict[str, Any] = {"published": cell.published, "facts": witness.facts, "given": self.data is not None}
        try:
            record = make_record(config, folder, status=status, reason=reason, seconds=seconds, **facts)
        except CheckpointError as error:  # a finished run whose folder was damaged later
            status, reason = FAILED, f"CheckpointError: {error}"
            record = make_record(config, folder, status=status, reason=reason, seconds=seconds, **facts)
        if seconds is None and not record.epochs:  # it ended in its first epoch
            record = replace(record, seconds=round(time.monotonic() - begin, 3))
        write_record(record, self.folder)
        self.say(f"{title}: {_ending(record, time.monotonic() - begin)}")
        return Outcome(name=name, config=config, status=status, record=record, fresh=True)

    def _graphs(self, config: TrainingConfig) -> Given:
        """The graphs of a run; consecutive runs with the same data share them."""
        if self.data is not None:
            return self.data
        if self._loaded is None or self._loaded[0] != config.data:
            self._loaded = None  # frees the last data set before reading the next
            self._loaded = config.data, load_source(config)
        return self._loaded[1]

    def _busy(self, config: TrainingConfig, title: str) -> Outcome:
        self.say(f"{title}: in training by another process, skipped")
        return Outcome(name=run_name(config), config=config, status=BUSY)

    def _in_use(self, name: str) -> bool:
        home = RunFolder(self.folder / name)
        if not home.holds_a_run:
            return False
        try:
            with home.lock():
                return False
        except FolderInUseError:
            return True


def run_title(config: TrainingConfig, labels: Mapping[str, Any] | None = None) -> str:
    """A short title of a run; with the ``labels`` of its cell, it shows the options that a sweep varies."""
    size, told = budget_label(config), ("model", "lrga", "budget", "seed", "name")
    varied = {key: value for key, value in (labels or {}).items() if key in SECTION_OF and key not in told}
    point = "".join(f", {key}={value_text(value)}" for key, value in varied.items())
    return f"{model_label(config)}{f' ({size})' if size else ''} on {config.data.name}{point}, seed {config.run.seed}"


def say_on_stderr(line: str) -> None:
    """Prints a line on stderr, separate from results."""
    print(visible(line), file=sys.stderr, flush=True)


def _ending(record: RunRecord, seconds: float) -> str:
    if record.status in (FAILED, DIVERGED):
        return f"{record.status}: {record.reason}"
    number = ""
    if record.test is not None and record.metric is not None:
        number = f", test {METRICS[record.metric].name} {record.test:.4g}"
    epochs = f"{record.epochs} epoch{'s' * (record.epochs != 1)}"
    return f"{record.status} ({record.reason}) after {epochs}{number}, {seconds:.0f} s"
