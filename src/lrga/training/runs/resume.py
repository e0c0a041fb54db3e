"""Resuming a run: is it the same run on the same data, and which checkpoint is the newest?

All checks (:func:`check_folder`, :func:`restored`) come before the first write (:func:`begin_folder`), so a start that
fails leaves the folder unchanged.
"""

from typing import Any

from lrga.errors import CheckpointError, OptionError
from lrga.training.config import TrainingConfig, first_difference
from lrga.training.parallel import broadcast
from lrga.training.problems.data import RunData
from lrga.training.runs.checkpoint import Checkpoint, restore
from lrga.training.runs.folder import RunFolder
from lrga.training.runs.result import FINISHED
from lrga.training.trainer import Trainer


def written_result(folder: RunFolder, config: TrainingConfig, *, extend: bool = False) -> dict[str, Any] | None:
    """The result of a run that is finished; ``None`` where there is something to train. Another run is refused.

    Args:
        folder: Where the run is.
        config: What is to be trained.
        extend: Whether the number of epochs may be another one: a run that ended by the old number then goes on.
    """
    if not folder.holds_a_run:
        return None
    check_same(folder, config, ignore=("max_epochs",) if extend else ())
    written, wanted = folder.result(), config.optimizer.max_epochs
    if written is not None and extend:
        _check_epochs(written["epochs"], wanted)
        if written["stopped_by"] == "max_epochs" and written["epochs"] < wanted:
            return None
    return written


def check_folder(
    folder: RunFolder, config: TrainingConfig, run: RunData, fingerprint: str, *, extend: bool = False
) -> None:
    """Sees that the folder is new or holds this very run. The caller holds its lock; nothing is written."""
    if not folder.holds_a_run:
        return
    # Again: another process may have begun another run while this one waited for the lock, or read its data.
    check_same(folder, config, ignore=("max_epochs",) if extend else ())
    architecture, task, seen = folder.model_facts()
    if seen != fingerprint:
        remedy = "restore the original data, or train in another folder"
        raise CheckpointError(f"the data that {folder.path} was trained on", "others under the same name", remedy)
    if (architecture, task) != (run.architecture, run.task):
        remedy = "continue with the version of lrga that began it, or train in another folder"
        raise CheckpointError(f"the network of {folder.path}", "another one from the same configuration", remedy)
    if (names := folder.features()) is not None and names != run.features:
        remedy = "give the columns their names again, or train in another folder"
        raise CheckpointError(f"the features that {folder.path} was trained on ({names})", f"{run.features}", remedy)
    folder.check_files()
    folder.environments()  # which refuses a damaged file


def restored(folder: RunFolder, trainer: Trainer) -> tuple[Checkpoint | None, list[str]]:
    """Puts a trainer where the newest sound checkpoint of the folder left off, if there is one; nothing is written.

    Returns:
        That checkpoint, and what was wrong with newer ones.
    """
    checkpoint, problems = broadcast(folder.checkpoint())
    if checkpoint is not None:
        restore(trainer, checkpoint.parts, checkpoint.state)
        _check_epochs(trainer.epoch, trainer.problem.options.max_epochs)
    elif folder.holds_a_run and (written := folder.result()) is not None and written["stopped_by"] in FINISHED:
        remedy = "restore the folder checkpoints, or train anew in another folder"
        raise CheckpointError(f"a checkpoint in {folder.path} to go on from", "none", remedy)
    return checkpoint, problems


def begin_folder(
    folder: RunFolder,
    config: TrainingConfig,
    run: RunData,
    fingerprint: str,
    found: tuple[Checkpoint | None, list[str]],
) -> None:
    """Writes down that a run begins or goes on, after every check."""
    checkpoint, problems = found
    if folder.holds_a_run:
        folder.continue_with(config)
    else:
        folder.create(config, run.architecture, run.task, fingerprint, run.features)
    for problem in problems:
        folder.log(f"a checkpoint was passed over: {problem}")
    folder.cut_metrics(0 if checkpoint is None else checkpoint.state["metrics_bytes"])


def check_same(folder: RunFolder, config: TrainingConfig, *, ignore: tuple[str, ...] = ()) -> None:
    """Refuses to continue a run under a configuration that would compute something else."""
    if (found := first_difference(config, folder.config(), ignore=ignore)) is not None:
        key, value, there = found
        remedy = "train into another folder, or pass the options of that run"
        raise CheckpointError(f"the run that {folder.path} holds ({key}={there!r})", f"{key}={value!r}", remedy)


def _check_epochs(done: int, wanted: int) -> None:
    if wanted < done:
        raise OptionError(f"at least the {done} epochs that are done", str(wanted), "ask for more")
