"""What every problem can do: graphs, links, and walks followed by links."""

import json
import math
import os
import signal
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from link_graphs import PauseAfter, communities, config_of, continued, link_trainer

import lrga
from lrga.data.datasets.spec import SPLITS
from lrga.errors import CheckpointError, LRGAError, NonFiniteError, OptionError
from lrga.experiments.records import compact
from lrga.report import write_report
from lrga.tasks import METRICS, Metric, Task
from lrga.tasks.running import Scores
from lrga.training import Callback, Interrupted, load_run, train
from lrga.training.config import OptimizerConfig
from lrga.training.evaluate import run_model
from lrga.training.optim import Schedule
from lrga.training.problems.data import load_run_data
from lrga.training.problems.graphs import GraphProblem
from lrga.training.problems.links import scores_of
from lrga.training.runs.checkpoint import FolderCheckpointer, capture, restore
from lrga.training.runs.folder import RunFolder
from lrga.training.runs.run import StopRequest
from lrga.training.trainer import Trainer

WALKS = {"model": "node2vec", "walk_epochs": 2, "walk_length": 5, "walk_context": 3, "walk_batch_size": 20}
KINDS = ("graphs", "links", "walks")


@pytest.fixture
def make_trainer(make_splits):
    """``make_trainer(kind, …)``: a trainer of a small run."""

    def make(kind, checkpointer=None, engine="plain", hidden=8, metric="accuracy", **options):
        if kind != "graphs":
            walks = WALKS if kind == "walks" else {}
            link = {"batch_size": 60, "max_epochs": 3, "hidden": hidden, "schedule": "constant"} | walks | options
            return link_trainer(checkpointer=checkpointer, engine=engine, **link)
        torch.manual_seed(0)
        model = lrga.GNN(3, hidden, 2, 2, conv="gcn", rank=3, dropout=0.3)
        config = OptimizerConfig(**({"batch_size": 8, "max_epochs": 3, "patience": 0} | options))
        task = Task(level="node", kind="classification", out_channels=2, metric=metric)
        problem = GraphProblem(model, task, make_splits(), config, seed=1)
        return Trainer(problem, checkpointer=checkpointer, engine=engine)

    return make


def numbers(record):
    return {key: value for key, value in record.to_json().items() if key not in ("seconds", "elapsed")}


def assert_ends_alike(second, whole):
    for name, value in whole.weights().items():
        assert torch.equal(value, second.weights()[name]), name
    assert numbers(second.last) == numbers(whole.last)
    assert numbers(second.best.record) == numbers(whole.best.record)
    assert all(torch.equal(value, second.best.weights[name]) for name, value in whole.best.weights.items())
    assert second.lr == whole.lr


def resumed_equals_whole(make_trainer, kind, after, **options):
    whole = make_trainer(kind, **options)
    whole.fit()
    first = make_trainer(kind, PauseAfter(after), **options)
    assert first.fit() == "time_limit"
    second = continued(first, lambda: make_trainer(kind, **options))
    second.fit()
    assert_ends_alike(second, whole)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("after", [0, 3, 7])
def test_a_restored_trainer_ends_bit_equal(make_trainer, kind, after):
    resumed_equals_whole(make_trainer, kind, after)


@pytest.mark.parametrize("options", [{"recalibrate_norm": 2}, {"metric": "roc_auc"}])
def test_a_restored_trainer_ends_bit_equal_with_fresh_statistics_and_metrics_of_all_scores(make_trainer, options):
    resumed_equals_whole(make_trainer, "graphs", 4, **options)


RECIPES = {
    "cosine": {"schedule": "cosine", "optimizer": "adamw", "weight_decay": 0.01, "selective_decay": True},
    "linear": {"schedule": "linear", "warmup_epochs": 0.5, "schedule_per": "epoch"},
    "one cycle": {"schedule": "one_cycle", "optimizer": "sgd", "lr": 0.05},
    "average": {"schedule": "constant", "warmup_epochs": 1, "weight_average": 0.9, "clip_gradient": 0.5},
    "plateau": {"schedule": "plateau", "patience": 0, "warmup_epochs": 1, "min_lr": 1e-9},
}


@pytest.mark.parametrize(
    ("kind", "recipe"), [*(("graphs", recipe) for recipe in RECIPES), ("links", "average"), ("links", "plateau")]
)
def test_every_schedule_and_optimizer_is_restored_to_the_bit(make_trainer, kind, recipe):
    resumed_equals_whole(make_trainer, kind, 4, **RECIPES[recipe])


@pytest.mark.parametrize("recipe", ["none", "cosine", "average", "one cycle"])
@pytest.mark.parametrize("kind", ["graphs", "links"])
def test_captured_steps_compute_what_the_plain_loop_computes(make_trainer, kind, recipe):
    options = RECIPES.get(recipe, {})
    plain, captured = (make_trainer(kind, engine=engine, **options) for engine in ("plain", "captured"))
    for trainer in (plain, captured):
        for module in trainer.model.modules():  # dropout draws for padding, too
            for name in ("dropout", "p"):
                if isinstance(getattr(module, name, None), float):
                    setattr(module, name, 0.0)
        trainer.fit()
    assert captured.engine is not None
    for key, value in numbers(plain.last).items():
        assert numbers(captured.last)[key] == pytest.approx(value, rel=1e-3, abs=1e-4), key


@pytest.mark.parametrize("kind", KINDS)
def test_weights_of_another_model_and_checkpoints_of_version_0_1_are_refused_with_a_remedy(make_trainer, kind):
    captured = capture(make_trainer(kind))
    with pytest.raises(CheckpointError, match="size mismatch for"):
        restore(make_trainer(kind, hidden=12), *captured)
    parts, state = capture(make_trainer(kind))
    del state["stage"]
    with pytest.raises(CheckpointError, match=r"a checkpoint of version 0\.1.*train again"):
        restore(make_trainer(kind), parts, state)


@pytest.mark.parametrize("kind", ["links", "walks"])
@pytest.mark.parametrize("minutes", [0.0, 10.0], ids=["checkpoint due", "time limit"])
def test_a_checkpoint_due_while_the_loss_is_nan_is_not_written(make_trainer, tmp_path, kind, minutes):
    """As on a GPU, where the loss is looked at now and then."""
    trainer, saved, callback = make_trainer(kind), [], Callback()
    callback.on_checkpoint, trainer.callbacks = saved.append, [callback]
    deadline = None if minutes == 0.0 else time.monotonic()
    trainer.checkpointer = FolderCheckpointer(RunFolder(tmp_path), StopRequest(), minutes, deadline)
    trainer.guard.every = 1000
    trainer.guard.begin()
    trainer.step(next(trainer.problem.epoch_batches(0, 0)))
    trainer.problem.sums.total.fill_(float("nan"))
    with pytest.raises(NonFiniteError):
        trainer.fit()
    assert saved == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_loss_that_is_not_finite_names_batch_and_layer(make_trainer, kind):
    trainer = make_trainer(kind)
    weight = next(iter(trainer.model.parameters()))
    steps, original = iter(range(100)), trainer.step

    def step(batch):
        if next(steps) == 1:
            with torch.no_grad():
                weight.fill_(float("inf"))
        original(batch)

    trainer.step = step
    named = r"epoch 1, batch 2 of.* first in the output of layer '\S+' \(\w+\); parameters that are not finite: \w+"
    with pytest.raises(NonFiniteError, match=named):
        trainer.fit()


@pytest.mark.parametrize("batch_size", [1, 4, 100])
def test_scores_of_pairs_do_not_depend_on_how_many_are_made_at_a_time(batch_size):
    h, pairs, seen = torch.randn(10, 3), torch.randint(10, (23, 2)), []

    def score(h, part):
        seen.append(part.size(1))
        return (h[part[0]] * h[part[1]]).sum(-1)

    found = scores_of(SimpleNamespace(score=score), h, pairs, batch_size=batch_size)
    torch.testing.assert_close(found, score(h, pairs.t()))
    assert max(seen[:-1]) <= batch_size


class Logs(Callback):
    """Logs a number of its own in every epoch."""

    def on_evaluation_end(self, trainer):
        trainer.log("largest weight", max(p.detach().abs().max().item() for p in trainer.model.parameters()))


@pytest.mark.parametrize("kind", ["graphs", "links"])
def test_any_number_can_be_logged_and_is_kept(kind, make_config, make_splits, tmp_path):
    config, data = (make_config(), make_splits()) if kind == "graphs" else (config_of(), communities())
    result = train(config, tmp_path / "run", data=data, callbacks=[Logs()])
    assert all(record.numbers["largest weight"] > 0 for record in result.history)
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    assert json.loads(lines[-1])["numbers"] == result.last.numbers
    assert train(config, tmp_path / "run", data=data).history == result.history
    assert compact(result.history)["largest weight"][-1] == pytest.approx(result.last.numbers["largest weight"], 1e-3)


@pytest.mark.parametrize("kind", ["graphs", "links"])
def test_a_number_logged_before_a_pause_is_in_the_record_of_its_epoch(make_trainer, kind):
    trainer = make_trainer(kind, max_epochs=1)
    next(trainer.steps())
    trainer.log("seen", 1.5)
    again = make_trainer(kind, max_epochs=1)
    restore(again, *capture(trainer))
    again.fit()
    assert again.last.numbers == {"seen": 1.5}


OTHERS = {"graphs": ["f1_positive", "roc_auc", "weighted_accuracy_by_batch"], "links": ["mrr", "hits@5"]}
PAUSED = {"graphs": 4, "links": 3}  # in the middle of the second epoch


@pytest.mark.parametrize("kind", ["graphs", "links"])
def test_numbers_of_a_task_are_recorded_for_every_split_also_over_a_pause(kind, make_config, make_splits, tmp_path):
    config, data = (make_config(), make_splits()) if kind == "graphs" else (config_of(), communities())
    config = config.changed(log_metrics=OTHERS[kind])
    whole = train(config, tmp_path / "whole", data=data)
    folder, signal = tmp_path / "paused", Signal(PAUSED[kind])
    with pytest.raises(Interrupted):
        train(config, folder, data=data, callbacks=[signal])
    result = train(config, folder, data=data)
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    names = {f"{name}/{split}" for name in OTHERS[kind] for split in ("train", "val", "test")}
    assert len(lines) == config.optimizer.max_epochs
    assert all(set(line["numbers"]) == names for line in lines)
    assert [line["numbers"] for line in lines] == [record.numbers for record in whole.history]
    assert RunFolder(folder).model_facts()[1].log_metrics == tuple(OTHERS[kind])
    write_report([folder], tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert all(f'value="logged:{name}"' in page for name in names)
    assert result.last.numbers == whole.last.numbers


class Signal(Callback):
    """Stops the process after so many batches, as Ctrl-C does."""

    def __init__(self, batches):
        self.left = batches

    def on_batch_end(self, epoch, batch, batches):
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGINT)


class Confidence(Task):
    """Logs how sure the predictions are, over all rows."""

    def numbers(self):
        def sums(scores, targets, valid):
            sure = scores.softmax(1).amax(1)
            counted = torch.ones_like(sure) if valid is None else valid.to(sure)
            return torch.stack([(sure * counted).sum(), counted.sum()])

        return {"confidence": Metric("confidence", lambda sums: sums[0] / sums[1], (self.kind,), True, sums)}


@pytest.mark.parametrize("engine", ["plain", "captured"])
def test_a_task_of_one_s_own_logs_what_it_computes(engine, make_config, make_splits, tmp_path):
    config = make_config(engine=engine)
    run = load_run_data(config, make_splits())
    run = replace(run, task=Confidence(**vars(run.task)))
    found = []
    for size in (8, 3):
        result = train(config.changed(eval_batch_size=size), tmp_path / str(size), data=run)
        assert train(config.changed(eval_batch_size=size), tmp_path / str(size), data=run).history == result.history
        assert all(set(record.numbers) == {f"confidence/{split}" for split in SPLITS} for record in result.history)
        found.append([record.numbers["confidence/val"] for record in result.history])
    assert found[0] == pytest.approx(found[1], rel=1e-6)
    graphs = run.data.splits["test"].batch(slice(None))
    expected = run_model(result.model, graphs).softmax(1).amax(1).mean().item()
    assert result.last.numbers["confidence/test"] == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("kind", ["graphs", "links"])
def test_a_number_of_a_task_has_a_name_of_its_own(kind, make_trainer):
    trainer = make_trainer(kind)
    for name in ("loss/val", f"{trainer.problem.task.metric}/test"):
        with pytest.raises(OptionError, match=r"a name for a logged value, other than .*loss/val.*choose another name"):
            trainer.log(name, 1.0)
    for name in ("loss", trainer.problem.task.metric):
        trainer.problem.task = SimpleNamespace(metric=trainer.problem.task.metric, logged=lambda name=name: {name: 0})
        with pytest.raises(OptionError, match=rf"names other than loss and \S+, got {name}. To fix: choose other"):
            Trainer(trainer.problem)


def test_a_number_of_a_task_that_is_not_finite_is_an_error_that_names_it(make_trainer):
    trainer = make_trainer("graphs")
    task = trainer.problem.task
    nothing = Metric("nothing", lambda sums: sums.sum() * math.nan, ("classification",), True, METRICS["accuracy"].sums)
    trainer.problem.task = type("Own", (Task,), {"numbers": lambda self: {"nothing": nothing}})(**vars(task))
    trainer.problem.sums = Scores(trainer.problem.task)
    with pytest.raises(NonFiniteError, match=r"a finite value to log as 'nothing/train', got .*nan"):
        trainer.fit()


@pytest.mark.parametrize(
    ("sums", "words"),
    [
        (lambda scores, targets, valid: 1.0, r"sums of 'own' that are a tensor, also of 0 rows"),
        (lambda scores, targets, valid: scores.max(), r"sums of 'own' that are a tensor, also of 0 rows, got Runtime"),
        (lambda scores, targets, valid: scores.sum(0), r"a finite value to log as 'own/train', got tensor.*pass one n"),
    ],
)
def test_a_number_of_a_task_that_cannot_be_added_up_is_an_error_in_words(
    make_config, make_splits, tmp_path, sums, words
):
    run, config = load_run_data(make_config(), make_splits()), make_config()
    metric = Metric("own", lambda total: total, ("classification",), True, sums)
    task = type("Own", (Task,), {"numbers": lambda self: {"own": metric}})(**vars(run.task))
    with pytest.raises(LRGAError, match=words):
        train(config, tmp_path / "run", data=replace(run, task=task))


HOSTILE = [*(("norm", value) for value in (math.nan, -math.inf, 10**400, "text", None)), ("val_loss", 1.0), (3, 1.0)]


@pytest.mark.parametrize(("name", "value"), [*HOSTILE, (" ", 1.0)], ids=lambda value: str(value)[:9])
def test_a_logged_value_has_a_name_of_its_own_and_is_finite(make_trainer, name, value):
    trainer = make_trainer("graphs")
    with pytest.raises(LRGAError, match=r"finite value to log as 'norm'|a name for a logged value"):
        trainer.log(name, value)


@pytest.mark.parametrize("schedule", ["constant", "linear", "cosine", "plateau"])
@pytest.mark.parametrize("per", ["step", "epoch"])
@pytest.mark.parametrize("warmup", [0.5, 1.0, 1.5])
def test_a_warm_up_reaches_the_full_rate_and_never_exceeds_it(schedule, per, warmup):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    options = OptimizerConfig(lr=0.5, schedule=schedule, schedule_per=per, warmup_epochs=warmup, max_epochs=4)
    made, rates = Schedule(optimizer, options, 5), []
    for _ in range(20):
        rates.append(made.lr)
        made.step()
    assert max(rates) == 0.5
    assert Schedule(optimizer, replace(options, lr=1e-6, warmup_epochs=0.0), 5).lr == 1e-6  # below min_lr
    assert rates.index(0.5) <= (round(5 * warmup) - 1 if per == "step" else 5 * math.ceil(warmup) - 1)
    assert per == "step" or all(rates[i] == rates[i - i % 5] for i in range(20))


def test_an_averaged_model_is_what_is_evaluated_and_saved(make_config, make_splits, tmp_path):
    splits = make_splits()
    result = train(make_config(weight_average=0.9), tmp_path / "run", data=splits)
    plain = train(make_config(), tmp_path / "plain", data=splits)
    model, _ = load_run(tmp_path / "run")
    saved, other = model.state_dict(), plain.model.state_dict()
    assert all(torch.equal(value, saved[name]) for name, value in result.model.state_dict().items())
    assert any(not torch.equal(value, saved[name]) for name, value in other.items())


def test_stages_follow_each_other_and_checkpoints_name_them(tmp_path):
    config = config_of(**WALKS, checkpoint_minutes=0.0)
    paused = train(config, tmp_path / "run", data=communities(), time_limit=1e-7)
    assert paused.stopped_by == "time_limit"
    (checkpoint,) = (tmp_path / "run" / "checkpoints").iterdir()
    assert json.loads((checkpoint / "state.json").read_text())["state"]["stage"] == "walks"
    train(config, tmp_path / "run", data=communities())
    last = max((tmp_path / "run" / "checkpoints").iterdir())
    assert json.loads((last / "state.json").read_text())["state"]["stage"] == "links"
