"""Configurations: complete, checked, and the same after JSON."""

import json

import pytest

from lrga.data.datasets.spec import spec_of
from lrga.errors import OptionError
from lrga.experiments.options import parse_settings
from lrga.training.config import (
    SECTION_OF,
    DataConfig,
    LinkConfig,
    ModelConfig,
    OptimizerConfig,
    RunConfig,
    TrainingConfig,
)
from lrga.training.problems.architecture import Architecture, resolve


def test_a_configuration_survives_json():
    config = TrainingConfig(
        data=DataConfig(name="CLUSTER", options={"sizes": (8, 4, 4)}),
        model=ModelConfig(model="SAGE", budget="500k", rank=5, readout="sum"),
        optimizer=OptimizerConfig(lr=0.01, clip_gradient=1.0),
        run=RunConfig(seed=95),
    )
    assert TrainingConfig.from_json(json.loads(json.dumps(config.to_json()))) == config


def test_names_are_brought_to_one_spelling():
    assert ModelConfig(model="GatedGCN", budget="500k") == ModelConfig(model="gatedgcn", budget="500K")
    assert DataConfig(name="Zinc") == DataConfig(name="ZINC")
    assert DataConfig(name="my_zinc").name == "my_zinc"


def test_the_options_are_these_each_in_one_section():
    """Run folders and records hold them by name: a change needs a thought for those already written."""
    assert sorted(SECTION_OF) == sorted([
        "attention_heads", "backend", "batch_norm", "batch_size", "budget", "checkpoint_minutes", "clip_gradient",
        "attention_dropout", "block", "deterministic", "device", "dropout", "edge_features", "encoding", "engine",
        "eval_batch_size", "fanouts", "gate", "norm", "normalize", "qk_norm", "heads", "hidden", "layers", "loss", "lr",
        "log_metrics",
        "lr_factor", "head_layers", "input_residual", "linear_layers", "mask_batch", "orthogonal", "predictor_residual",
        "lrga", "max_epochs", "metric", "min_lr", "model", "name", "options", "patience", "precision",
        "preset", "random_features", "rank", "readout", "recalibrate_norm", "resample_features",
        "residual", "root", "seed", "source", "standardize_targets", "tensorboard", "weight_decay",
        "label_smoothing", "momentum", "optimizer", "recompute_layers", "schedule", "schedule_per", "selective_decay",
        "warmup_epochs", "weight_average", "wiring",
        # of link prediction, written where links are predicted
        "edge_weights", "negatives", "predictor", "predictor_layers", "skip", "validation_edges", "walk_batch_size",
        "walk_context", "walk_epochs", "walk_length", "walk_lr", "walk_p", "walk_pull", "walk_q", "walks_per_node",
    ])  # fmt: skip
    sections = (DataConfig, ModelConfig, OptimizerConfig, RunConfig, LinkConfig)
    assert len(SECTION_OF) == sum(len(section.__dataclass_fields__) for section in sections)


def test_options_of_the_attention_are_stored_and_older_configurations_read_without_them():
    config = TrainingConfig(data=DataConfig(name="ZINC"))
    chosen = config.changed(**parse_settings(["qk_norm=true", "normalize=row", "gate=true"]))
    assert TrainingConfig.from_json(chosen.to_json()) == chosen != config
    network = resolve(chosen.model, spec_of("ZINC").inputs, dataset="ZINC")
    assert Architecture.from_json(network.to_json()) == network
    attention = network.build().layers[0].attention
    assert (attention.qk_norm, attention.normalize, attention.gate is not None) == (True, "row", True)
    older = config.to_json()
    older["model"] = {key: v for key, v in older["model"].items() if key not in ("qk_norm", "normalize", "gate")}
    assert TrainingConfig.from_json(older) == config
    with pytest.raises(OptionError, match="a gate with normalize"):
        config.changed(gate=True, normalize="rms")


def test_options_are_changed_by_name_alone():
    config = TrainingConfig(data=DataConfig(name="ZINC"))
    changed = config.changed(lr=0.1, hidden=7, seed=3, name="MNIST")
    assert (changed.optimizer.lr, changed.model.hidden, changed.run.seed, changed.data.name) == (0.1, 7, 3, "MNIST")
    assert config.optimizer.lr == 1e-3
    with pytest.raises(OptionError, match="learning_rate"):
        config.changed(learning_rate=0.1)


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({}, "data"),
        ({"data": {}}, "name"),
        ({"data": {"name": "ZINC"}, "colour": 1}, "colour"),
        ({"data": {"name": "ZINC"}, "optimizer": {"learning_rate": 1}}, "learning_rate"),
        ({"data": {"name": "ZINC"}, "model": [1]}, "model"),
        ([], "configuration"),
    ],
)
def test_unknown_and_missing_keys_are_named(values, named):
    with pytest.raises(OptionError, match=named):
        TrainingConfig.from_json(values)


@pytest.mark.parametrize(
    ("section", "wrong"),
    [
        (OptimizerConfig, {"lr": 0.0}),
        (OptimizerConfig, {"lr": float("nan")}),
        (OptimizerConfig, {"lr": "fast"}),
        (OptimizerConfig, {"lr_factor": 1.0}),
        (OptimizerConfig, {"min_lr": -1.0}),
        (OptimizerConfig, {"max_epochs": 0}),
        (OptimizerConfig, {"batch_size": 0}),
        (OptimizerConfig, {"eval_batch_size": 0}),
        (OptimizerConfig, {"patience": -1}),
        (OptimizerConfig, {"fanouts": [10, 0]}),
        (OptimizerConfig, {"fanouts": []}),
        (OptimizerConfig, {"clip_gradient": 0.0}),
        (OptimizerConfig, {"weight_decay": -1.0}),
        (OptimizerConfig, {"precision": "int8"}),
        (OptimizerConfig, {"recalibrate_norm": -1}),
        (ModelConfig, {"model": "transformer"}),
        (ModelConfig, {"budget": "huge"}),
        (ModelConfig, {"rank": -1}),
        (ModelConfig, {"hidden": 0}),
        (ModelConfig, {"preset": "2021"}),
        (ModelConfig, {"wiring": "E"}),
        (ModelConfig, {"dropout": 50}),
        (ModelConfig, {"lrga": "yes"}),
        (RunConfig, {"seed": -1}),
        (RunConfig, {"checkpoint_minutes": -1.0}),
        (RunConfig, {"tensorboard": 1}),
        (DataConfig, {"name": ""}),
        (DataConfig, {"name": "ZINC", "options": ["sizes"]}),
        (LinkConfig, {"predictor": "x"}),
        (LinkConfig, {"negatives": "x"}),
        (LinkConfig, {"skip": 1}),
        (LinkConfig, {"predictor_layers": 0}),
        (LinkConfig, {"walk_epochs": -1}),
        (LinkConfig, {"walk_context": 1}),
        (LinkConfig, {"walk_length": 5}),
        *((LinkConfig, {"walk_p": value}) for value in (0, 1e40, 1e-40)),
        *((LinkConfig, {"walk_pull": value}) for value in (-0.1, float("nan"), float("inf"), "much", True)),
    ],
)
def test_values_out_of_range_are_refused(section, wrong):
    with pytest.raises(OptionError):
        section(**wrong)


def test_a_count_that_is_no_integer_is_refused():
    with pytest.raises(OptionError, match="batch_size to be an integer"):
        OptimizerConfig(batch_size=1.5)


def test_a_file_is_read(tmp_path):
    config = TrainingConfig(data=DataConfig(name="ZINC"))
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config.to_json()))
    assert TrainingConfig.load(path) == config
    path.write_text("{")
    with pytest.raises(OptionError, match="JSON"):
        TrainingConfig.load(path)
    with pytest.raises(OptionError, match="(?i)no such file"):
        TrainingConfig.load(tmp_path / "none.json")
