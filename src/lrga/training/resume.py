"""Taking up a run where it was left: is it the same run, on the same graphs, and where does it stand?"""

from dataclasses import replace
from typing import Any

from lrga.errors import CheckpointError, OptionError
from lrga.training.architecture import Architecture
from lrga.training.config import TrainingConfig
from lrga.training.graphs import TrainingData
from lrga.training.run_folder import RunFolder
from lrga.training.state import restore
from lrga.training.trainer import Trainer

# What may differ when a run is continued: where things are and how often they are saved, not what is computed.
_FREE = {
    "data": ("root", "source"),
    "run": ("device", "checkpoint_minutes", "tensorboard", "engine", "deterministic", "memory_limit"),
}


def open_folder(home: RunFolder, config: TrainingConfig, architecture: Architecture, graphs: TrainingData) -> None:
    """Begins the folder, or sees that it holds this very run."""
    fingerprint = graphs.fingerprint()
    if not home.holds_a_run:
        home.create(config, architecture, graphs.task, fingerprint, graphs.features)
        return
    written, task, seen = home.model_facts()
    if seen != fingerprint:
        remedy = "bring back the graphs of the run, or train on these in another folder"
        raise CheckpointError(f"the graphs that {home.path} was trained on", "others under the same name", remedy)
    if (written, task) != (architecture, graphs.task):
        remedy = "continue with the version of lrga that began it, or train in another folder"
        raise CheckpointError(f"the network of {home.path}", "another one from the same configuration", remedy)
    if (names := home.features()) is not None and names != graphs.features:
        got, remedy = f"{graphs.features}", "give the columns their names again, or train in another folder"
        raise CheckpointError(f"the features that {home.path} was trained on ({names})", got, remedy)
    home.rewrite_config(config)


def take_up(home: RunFolder, trainer: Trainer) -> None:
    """Puts a trainer where the newest sound checkpoint of the folder left off, if there is one."""
    checkpoint, problems = home.checkpoint()
    for problem in problems:
        home.log(f"a checkpoint was passed over: {problem}")
    if checkpoint is None:
        home.cut_metrics(0)
        return
    home.cut_metrics(checkpoint.state["metrics_bytes"])
    restore(trainer, checkpoint.parts, checkpoint.state)


def check_same(home: RunFolder, config: TrainingConfig) -> None:
    """Refuses to continue a run under a configuration that would compute something else."""
    written = home.config()
    ours, theirs = _essence(config), _essence(written)
    for section in ours:
        for key, value in ours[section].items():
            there = theirs.get(section, {}).get(key)
            if value != there:
                raise CheckpointError(
                    f"the run that {home.path} holds ({key}={there!r})",
                    f"{key}={value!r}",
                    "train into another folder, or pass the options of that run",
                )


def _essence(config: TrainingConfig) -> dict[str, dict[str, Any]]:
    return {
        section: {key: value for key, value in values.items() if key not in _FREE.get(section, ())}
        for section, values in config.to_json().items()
    }


def prolong(home: RunFolder, config: TrainingConfig, max_epochs: int) -> TrainingConfig:
    """Gives the run of a folder another number of epochs; one that ended by the old number becomes unfinished."""
    config = config.changed(max_epochs=max_epochs)
    written = home.result()
    done = len(home.history())
    if max_epochs < done:
        raise OptionError(f"at least the {done} epochs that are done", str(max_epochs), "ask for more")
    with home.lock():
        if written is not None and written.get("stopped_by") == "max_epochs" and max_epochs > done:
            (home.path / "result.json").unlink()
        home.rewrite_config(replace(home.config(), optimizer=config.optimizer))
    return config
