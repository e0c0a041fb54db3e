"""Training on a GPU: precision, resuming, no waiting within an epoch, and the guard that looks now and then."""

import pytest
import torch

from lrga.data.datasets.building import load
from lrga.data.datasets.spec import spec_of
from lrga.errors import NonFiniteError
from lrga.tasks import task_of
from lrga.training import (
    DataConfig,
    GraphProblem,
    ModelConfig,
    OptimizerConfig,
    RunConfig,
    Trainer,
    TrainingConfig,
    continue_run,
    train,
)
from lrga.training.capture.engine import no_waiting
from lrga.training.problems.architecture import resolve

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU that PyTorch can use")]
SIZES = (512, 64, 64)


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    load("CLUSTER", folder, sizes=SIZES)
    return folder


def config_of(root, **options):
    config = TrainingConfig(
        data=DataConfig(name="CLUSTER", root=str(root), options={"sizes": SIZES}),
        model=ModelConfig(hidden=32, layers=3),
        optimizer=OptimizerConfig(max_epochs=4, batch_size=8, recalibrate_norm=5, lr=3e-3),
        run=RunConfig(device="cuda", seed=41),
    )
    return config.changed(**options)


@pytest.mark.parametrize("precision", ["float32", "bf16", "fp16"])
@pytest.mark.parametrize("model", ["gcn", "gatedgcn", "gat"])
def test_every_precision_learns(root, tmp_path, model, precision):
    options = {"heads": 4} if model == "gat" else {}
    result = train(config_of(root, model=model, precision=precision, **options), tmp_path / "run")
    assert result.history[-1].train_loss < 0.97 * result.history[0].train_loss
    assert {p.dtype for p in result.model.parameters()} == {torch.float32}


def test_a_gpu_starts_where_a_cpu_starts(root, tmp_path):
    """All graphs in one batch: the epoch's loss is that of the weights before the first step."""
    options = {"batch_size": SIZES[0], "max_epochs": 1}
    runs = [train(config_of(root, device=d, **options), tmp_path / d) for d in ("cpu", "cuda")]
    assert runs[0].history[0].train_loss == pytest.approx(runs[1].history[0].train_loss, rel=1e-4)


def test_a_paused_run_continues_here_or_on_a_cpu(root, tmp_path):
    whole = train(config_of(root, dropout=0.1), tmp_path / "whole")
    for device in ("cuda", "cpu"):
        folder = tmp_path / device
        train(config_of(root, dropout=0.1), folder, time_limit=0.02)
        after = continue_run(folder, device=device)
        assert after.finished
        assert after.history[-1].train_loss == pytest.approx(whole.history[-1].train_loss, rel=0.05)


def trainer_on_gpu(root, **options):
    splits = {name: graphs.to("cuda") for name, graphs in load("CLUSTER", root, sizes=SIZES).items()}
    torch.manual_seed(0)
    model = resolve(ModelConfig(hidden=32, layers=3), spec_of("CLUSTER").inputs).build().cuda()
    options = OptimizerConfig(batch_size=8, max_epochs=2, **options)
    return Trainer(GraphProblem(model, task_of("CLUSTER"), splits, options, seed=1))


def test_no_step_waits_for_the_gpu(root):
    trainer = trainer_on_gpu(root)
    trainer.model.train()
    batches = list(trainer.problem.epoch_batches(trainer.epoch, trainer.batch))[:12]
    trainer.step(batches[0])  # what is made once may wait
    with no_waiting():
        for batch in batches[1:]:
            trainer.step(batch)
    assert trainer.batch == 12


def test_the_batch_that_broke_is_found_by_repeating_the_epoch(root):
    trainer = trainer_on_gpu(root)
    assert trainer.guard.every > 1

    bias = trainer.model.layers[1].mix.bias
    original = trainer.step

    def step(batch):
        if trainer.batch == 20:
            with torch.no_grad():
                bias[0] = float("inf")
        original(batch)

    trainer.step = step
    with pytest.raises(NonFiniteError, match=r"epoch 1, batch 21 of 64.*'layers\.1\.mix'"):
        trainer.fit()
