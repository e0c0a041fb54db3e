"""Resuming a run: is it the same run on the same data, and which checkpoint is the newest?

All checks (:func:`check_folder`, :func:`restored`) come before the first write (:func:`begin_folder`), so a start that
fails leaves the folder unchanged.
"""

from typing import Any

from lrga.errors import CheckpointError, OptionError
from lrga.training.config import TrainingConfig, first_difference
from lrga.training.parallel import broadcast
from lrga.training.problems.kinds import RunData
from lrga.training.runs.checkpoint import Checkpoint
from lrga.training.runs.folder import RunFolder
from lrga.training.runs.result import FINISHED
from lrga.training.runs.state import restore
from lrga.training.trainer import Trainer


def written_result(home: RunFolder, config: TrainingConfig, *, extend: bool = False) -> dict[str, Any] | None:
    """The result of a run that is finished; ``None`` where there is something to train. Another run is refused.

    Args:
        home: The folder.
        config: What is to be trained.
        extend: Whether the number of epochs may be another one: a run that ended by the old number then goes on.
    """
    if not home.holds_a_run:
        return None
    check_same(home, config, ignore=("max_epochs",) if extend else ())
    written, wanted = home.result(), config.optimizer.max_epochs
    if written is not None and extend:
        _check_epochs(written["epochs"], wanted)
        if written["stopped_by"] == "max_epochs" and written["epochs"] < wanted:
            return None
    return written


def check_folder(
    home: RunFolder, config: TrainingConfig, run: RunData, fingerprint: str, *, extend: bool = False
) -> None:
    """Sees that the folder is new or holds this very run. The caller holds its lock; nothing is written."""
    if not home.holds_a_run:
        return
    # Again: another process may have begun another run while this one waited for the lock, or read its data.
    check_same(home, config, ignore=("max_epochs",) if extend else ())
    architecture, task, seen = home.model_facts()
    if seen != fingerprint:
        remedy = "restore the original data, or train in another folder"
        raise CheckpointError(f"the data that {home.path} was trained on", "others under the same name", remedy)
    if (architecture, task) != (run.architecture, run.task):
        remedy = "continue with the version of lrga that began it, or train in another folder"
        raise CheckpointError(f"the network of {home.path}", "another one from the same configuration", remedy)
    if (names := home.features()) is not None and names != run.features:
        remedy = "give the columns their names again, or train in another folder"
        raise CheckpointError(f"the features that {home.path} was trained on ({names})", f"{run.features}", remedy)
    home.check_files()
    home.environments()  # which refuses a damaged file


def restored(home: RunFolder, trainer: Trainer) -> tuple[Checkpoint | None, list[str]]:
    """Puts a trainer where the newest sound checkpoint of the folder left off, if there is one; nothing is written.

    Returns:
        That checkpoint, and what was wrong with newer ones.
    """
    checkpoint, problems = broadcast(home.checkpoint())
    if checkpoint is not None:
        restore(trainer, checkpoint.parts, checkpoint.state)
        _check_epochs(trainer.epoch, trainer.problem.options.max_epochs)
    elif home.holds_a_run and (written := home.result()) is not None and written["stopped_by"] in FINISHED:
        remedy = "restore the folder checkpoints, or train anew in another folder"
        raise CheckpointError(f"a checkpoint in {home.path} to go on from", "none", remedy)
    return checkpoint, problems


def begin_folder(
    home: RunFolder,
    config: TrainingConfig,
    run: RunData,
    fingerprint: str,
    found: tuple[Checkpoint | None, list[str]],
) -> None:
    """Writes down that a run begins or goes on, after every check."""
    checkpoint, problems = found
    if home.holds_a_run:
        home.continue_with(config)
    else:
        home.create(config, run.architecture, run.task, fingerprint, run.features)
    for problem in problems:
        home.log(f"a checkpoint was passed over: {problem}")
    home.cut_metrics(0 if checkpoint is None else checkpoint.state["metrics_bytes"])


def check_same(home: RunFolder, config: TrainingConfig, *, ignore: tuple[str, ...] = ()) -> None:
    """Refuses to continue a run under a configuration that would compute something else."""
    if (found := first_difference(config, home.config(), ignore=ignore)) is not None:
        key, value, there = found
        remedy = "train into another folder, or pass the options of that run"
        raise CheckpointError(f"the run that {home.path} holds ({key}={there!r})", f"{key}={value!r}", remedy)


def _check_epochs(done: int, wanted: int) -> None:
    if wanted < done:
        raise OptionError(f"at least the {done} epochs that are done", str(wanted), "ask for more")
