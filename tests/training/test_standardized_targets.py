"""Numbers to predict of any scale: standardised for training, reported and predicted in their own units."""

import csv
import json

import pytest
import torch
from torch_geometric.data import Data

from lrga.data.own.reading import load_custom
from lrga.errors import CheckpointError, DataError, OptionError
from lrga.experiments.table import Spread
from lrga.explain.attention import explain
from lrga.training import (
    DataConfig,
    ModelConfig,
    OptimizerConfig,
    RunConfig,
    TrainingConfig,
    continue_run,
    load_run,
    train,
)
from lrga.training.callbacks.terminal import ProgressDisplay
from lrga.training.evaluate import evaluate
from lrga.training.predict import Predictor, write_table
from lrga.training.presets import make_config as config_of
from lrga.training.problems.data import load_training_data

RING = torch.tensor([[0, 1, 2, 3, 1, 2, 3, 0], [1, 2, 3, 0, 0, 1, 2, 3]])


def graphs_with(level, *, mean=65_000.0, spread=15_000.0, targets=1, count=50):
    """Graphs whose targets are linear in the features, of any mean and spread; float64."""
    generator = torch.Generator().manual_seed(5)
    graphs = []
    for _ in range(count):
        x = torch.rand(4, 2, generator=generator)
        signal = {"graph": x[:, :1].mean(0, keepdim=True), "node": x[:, :1], "edge": x[RING[0], :1]}[level]
        columns = [mean * 10**i + spread * 10**i * (signal.double() - 0.5) for i in range(targets)]
        graphs.append(Data(x=x, edge_index=RING, y=torch.cat(columns, dim=1)))
    return graphs


def save(path, graphs):
    torch.save({"train": graphs[:30], "val": graphs[30:40], "test": graphs[40:]}, path)
    return path


def config_for(path, **options):
    base = TrainingConfig(
        data=DataConfig(name=str(path)),
        model=ModelConfig(model="gcn", hidden=16, layers=2, rank=4),
        optimizer=OptimizerConfig(max_epochs=3, batch_size=10, lr=1e-2),
        run=RunConfig(seed=3, device="cpu"),
    )
    return base.changed(**options)


@pytest.mark.parametrize(("level", "epochs", "lr"), [("graph", 8, 1e-2), ("node", 8, 1e-2), ("edge", 12, 3e-2)])
def test_targets_of_natural_scale_are_learnt_and_reported_in_their_units(tmp_path, level, epochs, lr):
    path = save(tmp_path / "data.pt", graphs_with(level))
    result = train(config_for(path, max_epochs=epochs, lr=lr), tmp_path / "run")
    spread = torch.cat([g.y for g in graphs_with(level)]).std()
    best = min(record.test_metric for record in result.history)
    assert best < 0.5 * float(spread)  # guessing the mean gives 0.86 of it
    assert best > 10  # in the units of the data, not in standard deviations
    assert result.last.test_loss == pytest.approx(result.last.test_metric, rel=1e-4)  # l1: both are the error
    without = train(config_for(path, standardize_targets=False), tmp_path / "without")
    assert without.last.test_metric > 2 * float(spread)


def test_each_of_several_targets_has_a_scale_of_its_own(tmp_path):
    path = save(tmp_path / "data.pt", graphs_with("graph", targets=3))
    found = load_training_data(DataConfig(name=str(path)))
    raw = load_custom(path).splits["train"].y.double()
    assert found.task.target_mean == pytest.approx(raw.mean(0).tolist(), rel=1e-6)
    assert found.task.target_std == pytest.approx(raw.std(0).tolist(), rel=1e-6)
    torch.testing.assert_close(found.splits["train"].y.std(0), torch.ones(3))
    result = train(config_for(path, max_epochs=2), tmp_path / "run")
    model, _ = load_run(tmp_path / "run")
    loss, metric = evaluate(model, load_custom(path).splits["test"], load_training_data(
        DataConfig(name=str(path)), RunConfig(standardize_targets=False)).task, batch_size=10)  # fmt: skip
    assert metric == pytest.approx(result.last.test_metric, rel=1e-5)
    assert loss == pytest.approx(result.last.test_loss, rel=1e-5)


def test_squared_errors_are_reported_in_squared_units(tmp_path):
    path = save(tmp_path / "data.pt", graphs_with("node", mean=1e25, spread=1e24))
    result = train(config_for(path, loss="mse", max_epochs=2), tmp_path / "run")
    assert result.last.val_loss > 1e40  # beyond float32


def test_predictions_are_in_the_units_of_the_data(tmp_path):
    path = save(tmp_path / "data.pt", graphs_with("graph"))
    result = train(config_for(path), tmp_path / "run")
    predictor = Predictor.of(tmp_path / "run", device="cpu")
    write_table(predictor.header(), predictor.rows(predictor.read(path)), tmp_path / "out.csv")
    with open(tmp_path / "out.csv") as file:
        predicted = torch.tensor([float(row["prediction"]) for row in csv.DictReader(file)])
    truth = torch.cat([g.y for g in graphs_with("graph")]).view(-1)
    error = (predicted - truth)[40:].abs().mean()
    assert float(error) == pytest.approx(result.last.test_metric, rel=1e-4)
    batch = load_custom(path).splits["test"].batch(slice(None))
    for model in (result.model, load_run(tmp_path / "run")[0]):
        output = model(batch.x, batch.edge_index, batch=batch.batch, num_graphs=10)
        torch.testing.assert_close(output.view(-1), predicted[40:].double(), rtol=1e-5, atol=1e-2)


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_errors_of_any_scale_are_printed_with_digits(tmp_path, capsys, scale):
    path = save(tmp_path / "data.pt", graphs_with("graph", mean=4 * scale, spread=scale))
    result = train(config_for(path, max_epochs=1), tmp_path / "run", callbacks=[ProgressDisplay()])
    shown = result.format_metric(result.test)
    assert float(shown) == pytest.approx(result.test, rel=1e-3)
    assert f"test {shown} " in (said := capsys.readouterr().err)
    assert float(said.split("  loss ")[1].split(",")[0]) == pytest.approx(result.last.train_loss, rel=1e-3)
    assert float(Spread.of([result.test]).text(3)) == pytest.approx(result.test, rel=1e-3)


def test_differences_that_float32_cannot_hold_are_refused(tmp_path):
    path = save(tmp_path / "data.pt", graphs_with("graph", mean=0.0, spread=1e-200))
    with pytest.raises(DataError, match="scale the target"):
        load_training_data(DataConfig(name=str(path)))


def test_times_far_from_zero_are_told_apart(tmp_path):
    """Seconds since 1970 within an hour: float32 has a value every 128 seconds."""
    path = save(tmp_path / "data.pt", graphs_with("graph", mean=1.7e9, spread=3_600.0))
    assert load_custom(path).splits["train"].y.dtype == torch.float64
    result = train(config_for(path), tmp_path / "run")
    assert result.last.test_metric < 500
    predictor = Predictor.of(tmp_path / "run", device="cpu")
    values = [float(row[-1]) for row in predictor.rows(predictor.read(path))]
    assert len(set(values)) > 40
    with pytest.raises(DataError, match="keep the default, which standardises"):
        load_training_data(DataConfig(name=str(path)), RunConfig(standardize_targets=False))


def test_a_constant_target_is_predicted(tmp_path):
    path = save(tmp_path / "data.pt", graphs_with("graph", mean=0.1, spread=0.0))
    found = load_training_data(DataConfig(name=str(path)))
    assert found.task.target_std == (1.0,)
    assert found.splits["train"].y.unique().tolist() == [0.0]
    assert train(config_for(path, max_epochs=2), tmp_path / "run").finished


def test_statistics_are_those_of_the_training_split_alone(tmp_path):
    graphs = graphs_with("node")
    for graph in graphs[30:]:
        graph.y = graph.y * 1_000
    found = load_training_data(DataConfig(name=str(save(tmp_path / "data.pt", graphs))))
    mean = torch.cat([g.y for g in graphs[:30]]).mean()
    assert found.task.target_mean == (pytest.approx(float(mean), rel=1e-6),)

    one = Data(x=torch.rand(40, 2), edge_index=torch.stack([torch.arange(40), torch.arange(40).roll(1)]))
    one.y = torch.arange(40.0) * 100
    for number, name in enumerate(("train_mask", "val_mask", "test_mask")):
        one[name] = torch.arange(40) // 15 == number
    torch.save(one, tmp_path / "one.pt")
    masked = load_training_data(DataConfig(name=str(tmp_path / "one.pt"), options={"level": "node"}))
    assert masked.task.target_mean == (pytest.approx(700.0),)


def test_graphs_given_in_python_are_standardised_too(tmp_path):
    graphs = graphs_with("graph")
    given = {"train": graphs[:30], "val": graphs[30:40], "test": graphs[40:]}
    result = train(config_for("mine"), tmp_path / "run", data=given)
    assert 10 < result.last.test_metric < 2_500


def test_a_paused_run_ends_bit_equal(tmp_path):
    path = save(tmp_path / "data.pt", graphs_with("graph"))
    whole = train(config_for(path, max_epochs=4), tmp_path / "whole")
    train(config_for(path, max_epochs=2), tmp_path / "parts")
    parts = continue_run(tmp_path / "parts", max_epochs=4)
    assert [e.test_loss for e in parts.history] == [e.test_loss for e in whole.history]
    for name, value in whole.model.state_dict().items():
        assert torch.equal(value, parts.model.state_dict()[name])


def test_runs_of_older_versions_go_on_and_predict_as_they_were(tmp_path):
    path = save(tmp_path / "data.pt", graphs_with("graph"))
    train(config_for(path, standardize_targets=False, max_epochs=2), tmp_path / "run")
    facts = json.loads((tmp_path / "run" / "model.json").read_text())
    assert not any(key.startswith("target_") for key in facts["task"])
    for added in ("features", "config", "sha256"):  # an older version wrote none of them
        del facts[added]
    (tmp_path / "run" / "model.json").write_text(json.dumps(facts))
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    del config["run"]["standardize_targets"]
    (tmp_path / "run" / "config.json").write_text(json.dumps(config))
    assert continue_run(tmp_path / "run", max_epochs=3).epochs == 3
    predictor = Predictor.of(tmp_path / "run", device="cpu")
    assert abs(float(next(predictor.rows(predictor.read(path)))[-1])) < 1_000


def test_the_option_is_part_of_the_run(tmp_path):
    path = save(tmp_path / "data.pt", graphs_with("graph"))
    train(config_for(path, max_epochs=1), tmp_path / "run")
    with pytest.raises(CheckpointError, match="standardize_targets"):
        train(config_for(path, max_epochs=1, standardize_targets=False), tmp_path / "run")


def test_the_option_is_refused_where_it_would_do_nothing(tmp_path, make_splits):
    with pytest.raises(OptionError, match="only for your own data"):
        config_of("ZINC", standardize_targets=False)
    with pytest.raises(OptionError, match="a regression task for --standardize-targets"):
        load_training_data(DataConfig(name="own"), RunConfig(standardize_targets=False), make_splits("node"))


def test_the_explorer_shows_targets_and_predictions_in_the_units_of_the_data(tmp_path):
    path = save(tmp_path / "data.pt", graphs_with("node"))
    train(config_for(path, max_epochs=10), tmp_path / "run")
    explanation = explain(tmp_path / "run", graph=0)
    truth = graphs_with("node")[40].y.view(-1)
    torch.testing.assert_close(torch.from_numpy(explanation.labels).double(), truth, rtol=1e-5, atol=0)
    assert all(40_000 < value < 90_000 for value in explanation.predictions.tolist())


def test_captured_steps_report_the_same(tmp_path):
    path = save(tmp_path / "data.pt", graphs_with("graph", targets=2))
    plain, captured = (
        train(config_for(path, engine=engine, max_epochs=3), tmp_path / engine) for engine in ("plain", "captured")
    )
    for a, b in zip(plain.history, captured.history, strict=True):
        assert (a.train_loss, a.val_metric) == pytest.approx((b.train_loss, b.val_metric), rel=1e-3)


def test_the_fingerprint_is_that_of_the_targets_as_they_came(tmp_path):
    path = save(tmp_path / "data.pt", graphs_with("graph"))
    scaled, plain = (
        load_training_data(DataConfig(name=str(path)), RunConfig(standardize_targets=s)) for s in (None, False)
    )
    assert scaled.fingerprint() == plain.fingerprint()
    moved = [Data(x=g.x, edge_index=g.edge_index, y=g.y + 1) for g in graphs_with("graph")]
    other = load_training_data(DataConfig(name=str(save(tmp_path / "moved.pt", moved))))
    assert other.fingerprint() != scaled.fingerprint()
