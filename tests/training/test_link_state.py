import sys
import time
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))
from link_graphs import communities, config_of

from lrga.errors import CheckpointError, NonFiniteError
from lrga.tasks.link import LinkTask
from lrga.training.callbacks.events import Listener
from lrga.training.problems.link_architecture import resolve_link
from lrga.training.problems.link_state import LinkKeeper, capture_links, restore_links
from lrga.training.problems.link_trainer import LinkTrainer
from lrga.training.runs.folder import RunFolder
from lrga.training.runs.signals import StopRequest
from lrga.training.trainer import Keeper


def trainer_of(keeper=None, **options):
    config = config_of(batch_size=60, **options)
    data = communities()
    torch.manual_seed(3)
    return LinkTrainer(resolve_link(config, data).build(), LinkTask(metric="auc"), data, config, keeper=keeper)


class PauseAfter(Keeper):
    """Pauses after so many batches, of walks and of edges."""

    def __init__(self, count):
        self.count = count

    def pause(self, trainer):
        self.count -= 1
        return "time_limit" if self.count < 0 else None


@pytest.mark.parametrize("model", ["gcn", "node2vec"])
@pytest.mark.parametrize("after", [0, 1, 3, 7, 11])
def test_a_trainer_taken_up_anywhere_ends_bit_equal(model, after):
    walks = {"walk_epochs": 2, "walk_length": 5, "walk_context": 3, "walk_batch_size": 20} if model != "gcn" else {}
    whole = trainer_of(model=model, **walks)
    whole.fit()
    first = trainer_of(PauseAfter(after), model=model, **walks)
    assert first.fit() == "time_limit"
    parts, state = capture_links(first)
    copied = {part: {k: v.clone() for k, v in own.items()} for part, own in parts.items()}
    second = trainer_of(model=model, **walks)
    restore_links(second, copied, state)
    assert second.position == first.position
    second.fit()
    for name, value in whole.model.state_dict().items():
        assert torch.equal(value, second.model.state_dict()[name]), name
    assert whole.best.record.val_metric == second.best.record.val_metric
    assert whole.last.train_loss == second.last.train_loss


def test_weights_of_another_network_are_refused():
    parts, state = capture_links(trainer_of())
    with pytest.raises(CheckpointError, match="weights of this model"):
        restore_links(trainer_of(hidden=8), parts, state)


@pytest.mark.parametrize("minutes", [0.0, 10.0], ids=["checkpoint due", "time limit"])
def test_a_checkpoint_due_while_the_loss_is_nan_is_not_written(tmp_path, minutes):
    """As on a GPU, where the loss is looked at after the epoch."""
    home, trainer, saved = RunFolder(tmp_path), trainer_of(), []
    listener = Listener()
    listener.checkpointed = saved.append
    deadline = None if minutes == 0.0 else time.monotonic()
    trainer.keeper = LinkKeeper(home, listener, StopRequest(), minutes, deadline)
    trainer.step(*trainer.pairs())
    trainer.loss.add(torch.tensor(float("nan")))
    with pytest.raises(NonFiniteError, match="finite loss in epoch 1"):
        trainer.fit()
    assert saved == []
