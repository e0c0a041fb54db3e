"""Several seeds of a run at once on one GPU: small networks leave most of it idle, so their steps take turns.

Each run has its own folder, weights, random states, recorded steps and stream; the graphs are shared. On a CPU, where
nothing would be gained, the runs come one after the other.
"""

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import torch

from lrga.distributed.launch import launched
from lrga.errors import OptionError, RankLostError
from lrga.training.callbacks.events import Listener, Listeners
from lrga.training.callbacks.tensorboard import TensorBoardLog
from lrga.training.config import TrainingConfig
from lrga.training.determinism import OwnRandomness, choose_device, deterministic
from lrga.training.problems.graph_data import Given
from lrga.training.problems.kinds import load_run_data
from lrga.training.runs.folder import RunFolder
from lrga.training.runs.result import TrainingResult
from lrga.training.runs.resume import check_folder, written_result
from lrga.training.runs.run import finished_result, forked_devices, train
from lrga.training.runs.session import Session
from lrga.training.runs.signals import Interrupted, StopRequest

TURN = 8  # steps of one run before it is the next one's turn
Outcome = TrainingResult | Exception


def train_together(
    configs: Sequence[TrainingConfig],
    folders: Sequence[str | Path],
    *,
    data: Given = None,
    listeners: Sequence[Iterable[Listener]] = (),
    time_limit: float | None = None,
) -> list[Outcome]:
    """Trains runs that differ in their seeds only, at once on a GPU, or continues them.

    Args:
        configs: The runs.
        folders: The run folder of each.
        data: As in :func:`lrga.training.runs.run.train`, for all.
        listeners: Those of each run.
        time_limit: Minutes after which all pause.

    Returns:
        For each run its result, or the error that ended it: one that fails does not cost the others. On Ctrl-C all
        write a checkpoint and :class:`~lrga.training.runs.signals.Interrupted` is raised.
    """
    _check(configs, folders, time_limit)
    heard = [list(own) for own in listeners] or [[] for _ in configs]
    for config, own in zip(configs, heard, strict=True):
        own += [TensorBoardLog()] if config.run.tensorboard else []
    begin, device = time.monotonic(), choose_device(configs[0].run.device)
    if len(configs) == 1 or not pays(configs[0], device):
        return _one_by_one(configs, folders, data, heard, begin, time_limit)
    outcomes: dict[int, Outcome] = {}
    run = load_run_data(configs[0], data)
    on_device, fingerprint = run.to(device), run.fingerprint()
    deadline = None if time_limit is None else begin + 60 * time_limit
    with ExitStack() as stack, torch.random.fork_rng(forked_devices(device)):
        request = stack.enter_context(StopRequest())
        stack.enter_context(deterministic(configs[0].run.deterministic))
        turns: dict[int, _Turns] = {}
        for number, (config, folder) in enumerate(zip(configs, folders, strict=True)):
            home = RunFolder(folder)
            try:
                if (written := written_result(home, config)) is not None:
                    outcomes[number] = finished_result(home, written)
                    continue
                stack.enter_context(home.lock())
                check_folder(home, config, run, fingerprint)
                player = _Turns(device)
                with player.turn():
                    listener = Listeners(heard[number])
                    player.session = Session(home, config, on_device, fingerprint, listener, request, deadline)
                    player.steps = player.session.steps()
                turns[number] = player
            except Exception as error:  # one run that cannot begin must not cost the others
                outcomes[number] = error
        outcomes |= _take_turns(turns, request)
    return [outcomes[number] for number in range(len(configs))]


def pays(config: TrainingConfig, device: torch.device) -> bool:
    """Whether several runs at once are faster: in captured steps on a GPU, whose host is free meanwhile."""
    if launched():  # whose processes share each run
        return False
    return device.type == "cuda" and config.run.engine != "plain"


class _Turns:
    """A run with its stream and random states."""

    session: Session
    steps: Iterator[None]

    def __init__(self, device: torch.device) -> None:
        self.device, self.random = device, OwnRandomness(device)
        self.stream = torch.cuda.Stream(device) if device.type == "cuda" else None
        if self.stream is not None:
            self.stream.wait_stream(torch.cuda.current_stream(device))

    @contextmanager
    def turn(self) -> Iterator[None]:
        with self.random.turn(), torch.cuda.stream(self.stream):  # no stream is no change
            yield


def _take_turns(turns: dict[int, _Turns], request: StopRequest) -> dict[int, Outcome]:
    outcomes: dict[int, Outcome] = {}
    interrupted: Interrupted | None = None
    waiting = dict(turns)
    while waiting:
        for number, own in list(waiting.items()):
            try:
                with own.turn():
                    for _ in range(TURN):
                        next(own.steps)
            except StopIteration:
                del waiting[number]
                try:
                    outcomes[number] = own.session.outcome(request)
                except Interrupted as stop:
                    interrupted = stop
            except Exception as error:  # as above
                del waiting[number]
                outcomes[number] = error
    if interrupted is not None:
        raise interrupted
    return outcomes


def _one_by_one(
    configs: Sequence[TrainingConfig],
    folders: Sequence[str | Path],
    data: Given,
    listeners: Sequence[Sequence[Listener]],
    begin: float,
    time_limit: float | None,
) -> list[Outcome]:
    outcomes: list[Outcome] = []
    for config, folder, heard in zip(configs, folders, listeners, strict=True):
        left = None if time_limit is None else max(time_limit - (time.monotonic() - begin) / 60, 1e-9)
        quiet = config.changed(tensorboard=False)  # its listener is among those given
        try:
            outcomes.append(train(config if not heard else quiet, folder, data=data, listeners=heard, time_limit=left))
        except RankLostError:  # the next run would wait for that rank
            raise
        except Exception as error:  # one run that fails must not cost the others
            outcomes.append(error)
    return outcomes


def _check(configs: Sequence[TrainingConfig], folders: Sequence[str | Path], time_limit: float | None) -> None:
    if not configs or len(folders) != len(configs):
        got = f"{len(configs)} and {len(folders)}"
        raise OptionError("as many folders as runs, at least one", got, "name a folder for each seed")
    same = {str(replace(config, run=replace(config.run, seed=0)).to_json()) for config in configs}
    seeds = [config.run.seed for config in configs]
    if len(same) > 1 or len(set(seeds)) < len(seeds):
        raise OptionError("runs that differ in their seeds only", f"seeds {seeds}", "train others one by one")
    if time_limit is not None and not time_limit > 0:
        raise OptionError("a time limit above 0 minutes", repr(time_limit), "pass for example 60")
