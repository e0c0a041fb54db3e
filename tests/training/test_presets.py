"""Few options in, a full configuration out."""

import json
import os

import pytest

from lrga.errors import DataMissingError, OptionError
from lrga.training.config import DataConfig, TrainingConfig
from lrga.training.presets import make_config, parse_budget, parse_split, runs_of_a_table
from lrga.training.problems.data import load_training_data, plan_run
from lrga.training.problems.protocols import benchmark_schedule, link_protocol


def test_a_named_set_comes_with_the_benchmark_s_schedule_and_what_is_given_wins():
    config = make_config("CLUSTER", model="gcn", budget="500k", lr=0.01, patience=None)
    assert (config.model.budget, config.optimizer.batch_size, config.optimizer.patience) == ("500K", 64, 5)
    assert config.optimizer.lr == 0.01


def test_a_named_set_comes_with_its_network_and_what_is_given_wins():
    assert [make_config(name).model.dropout for name in ("CLUSTER", "Cora", "my_graphs")] == [0.0, 0.5, 0.0]
    assert [make_config(name).model.head_layers for name in ("CLUSTER", "Cora")] == [3, 1]
    config = make_config("Cora", dropout=0.0, block="benchmark", head_layers=3)
    assert (config.model.dropout, config.model.block, config.model.head_layers) == (0.0, "benchmark", 3)
    with pytest.raises(OptionError, match="gin predicts from every layer"):
        make_config("Cora", model="gin", block="benchmark", head_layers=2)


def test_own_data_have_a_smaller_batch():
    assert make_config("my_graphs").optimizer.batch_size == 32


def test_data_options_that_are_none_are_left_out():
    config = make_config("ZINC", data_options={"sizes": (8, 4, 4), "seed": None}, root="here")
    assert config.data.options == {"sizes": [8, 4, 4]}
    assert config.data.root == os.path.abspath("here")


def test_own_files_are_named_in_full_so_that_a_run_continues_from_anywhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").mkdir()
    assert make_config("mine").data.name == str(tmp_path / "mine")
    assert make_config("module:factory").data.name == "module:factory"
    (tmp_path / "zinc").mkdir()
    assert make_config("zinc").data.name == "ZINC"


def test_an_unknown_option_is_refused():
    with pytest.raises(OptionError, match="width"):
        make_config("ZINC", width=3)


def test_another_configuration_is_the_base_where_there_is_one():
    base = make_config("ZINC", lr=0.5, data_options={"sizes": (8, 4, 4)})
    assert make_config(None, base) == base
    changed = make_config("MNIST", base, data_options={"seed": 1}, lr=0.25, budget="250k")
    assert (changed.data.name, changed.data.options) == ("MNIST", {"sizes": [8, 4, 4], "seed": 1})
    assert (changed.optimizer.lr, changed.model.budget) == (0.25, 250_000)
    assert make_config("ZINC") == make_config("ZINC")
    with pytest.raises(OptionError, match="lrga train"):
        make_config(None)


@pytest.mark.parametrize(
    ("text", "budget"),
    [("100k", "100K"), ("500K", "500K"), ("42000", 42_000), ("250k", 250_000), ("1.5M", 1_500_000), ("1,000", 1_000)],
)
def test_budgets_are_read_as_people_write_them(text, budget):
    assert parse_budget(text) == budget


@pytest.mark.parametrize("text", ["", "much", "-5", "10kk"])
def test_other_budgets_are_refused(text):
    with pytest.raises(OptionError):
        parse_budget(text)


def test_fractions_are_read():
    assert parse_split("0.5, 0.25,0.25") == (0.5, 0.25, 0.25)
    with pytest.raises(OptionError):
        parse_split("half")


def test_of_a_table_an_option_must_concern_some_of_the_runs():
    with runs_of_a_table():
        plain, augmented = (make_config("ZINC", lrga=lrga, rank=5) for lrga in (False, True))
    assert augmented.model.rank == 5
    assert not plain.model.lrga

    @runs_of_a_table()
    def heads_of_gcn():
        return [make_config("ZINC", model="gcn", lrga=lrga, heads=4) for lrga in (False, True)]

    with pytest.raises(OptionError, match="--heads: only gat"):
        heads_of_gcn()
    with pytest.raises(OptionError, match="--rank: the network has no low-rank attention"):
        make_config("ZINC", lrga=False, rank=5)


@pytest.mark.parametrize(
    ("dataset", "epochs", "patience", "batch"),
    [
        ("PATTERN", 1000, 5, 128),
        ("CLUSTER", 1000, 5, 128),
        ("ZINC", 1000, 10, 128),
        ("MNIST", 1000, 10, 128),
        ("CIFAR10", 1000, 10, 128),
        ("TSP", 500, 10, 64),
    ],
)
def test_a_data_set_is_trained_on_as_the_protocol_says(dataset, epochs, patience, batch):
    schedule = benchmark_schedule(dataset)
    assert (schedule.max_epochs, schedule.patience, schedule.batch_size) == (epochs, patience, batch)
    assert (schedule.lr, schedule.lr_factor, schedule.min_lr, schedule.weight_decay) == (1e-3, 0.5, 1e-5, 0.0)
    assert schedule.recalibrate_norm == 0


@pytest.mark.parametrize(
    ("model", "batch"), [("gcn", 64), ("graphsage", 64), ("gatedgcn", 32), ("gat", 128), ("gin", 128)]
)
def test_large_models_have_smaller_batches_of_block_models(model, batch):
    assert benchmark_schedule("cluster", model, budget="500K").batch_size == batch
    assert benchmark_schedule("ZINC", model, budget="500K").batch_size == 128


def test_the_older_preset_has_less_patience_but_on_tsp():
    assert benchmark_schedule("ZINC", preset="2020").patience == 5
    assert benchmark_schedule("TSP", preset="2020").patience == 10


@pytest.mark.parametrize(
    ("dataset", "layers", "rank", "skip", "lr", "dropout", "epochs", "negatives"),
    [
        ("ogbl-collab", 3, 100, True, 5e-4, 0.0, 200, "uniform"),
        ("ogbl-ddi", 2, 50, False, 5e-3, 0.5, 200, "no_edge"),
        ("ogbl-ppa", 3, 50, True, 1e-2, 0.0, 20, "uniform"),
    ],
)
def test_the_protocol_of_each_set(dataset, layers, rank, skip, lr, dropout, epochs, negatives):
    config = make_config(dataset.upper())
    model, optimizer, link = config.model, config.optimizer, config.link
    assert (model.layers, model.rank, link.skip, optimizer.lr) == (layers, rank, skip, lr)
    assert (model.dropout, optimizer.max_epochs, link.negatives) == (dropout, epochs, negatives)
    assert (model.hidden, optimizer.batch_size, optimizer.clip_gradient) == (256, 65_536, 1.0)
    assert not link.validation_edges
    assert TrainingConfig.from_json(config.to_json()) == config


def test_what_is_given_wins_over_the_protocol():
    config = make_config("ogbl-collab", rank=25, skip=False, validation_edges=True, lr=1e-2)
    assert (config.model.rank, config.link.skip, config.link.validation_edges, config.optimizer.lr) == (
        25, False, True, 1e-2,
    )  # fmt: skip


def test_embedding_rows_have_their_own_protocol():
    config = make_config("ogbl-ddi", model="Node2Vec")
    assert (config.model.model, config.model.lrga, config.model.hidden) == ("node2vec", False, 128)
    assert (config.link.predictor_layers, config.link.walk_epochs, config.optimizer.clip_gradient) == (3, 100, None)
    assert make_config("ogbl-ppa", model="mf").model.hidden == 256
    with pytest.raises(OptionError, match="the embedding model"):
        link_protocol("ogbl-ddi", "mf", lrga=True)


@pytest.mark.parametrize(
    ("dataset", "context", "walks"), [("ogbl-collab", 20, 50), ("ogbl-ddi", 3, 50), ("ogbl-ppa", 3, 30)]
)
def test_deepwalk_has_the_windows_and_walks_of_the_leaderboard(dataset, context, walks):
    link = make_config(dataset, model="deepwalk").link
    assert (link.walk_context, link.walk_epochs * link.walks_per_node) == (context, walks)
    assert link.walk_pull > 0
    assert make_config(dataset, model="node2vec").link.walk_pull == 0


def test_options_that_would_do_nothing_are_refused():
    for key, value in (
        ("patience", 5),
        ("budget", "500K"),
        ("wiring", "norm-first"),
        ("random_features", True),
        ("momentum", 0.5),
        ("recalibrate_norm", 3),
    ):
        with pytest.raises(OptionError, match=key.replace("_", "-")):
            make_config("ogbl-ddi", **{key: value})
    with pytest.raises(OptionError, match="link"):
        make_config("ZINC", skip=True)


@pytest.mark.parametrize(
    ("model", "idle"),
    [("node2vec", {"rank": 8}), ("deepwalk", {"attention_heads": 2}), ("mf", {"skip": True}), ("mf", {"layers": 3}),
     ("node2vec", {"validation_edges": True}), ("deepwalk", {"walk_p": 2.0}), ("mf", {"walk_epochs": 3}),
     ("gcn", {"walk_length": 9}), ("graphsage", {"edge_weights": True}), ("mf", {"backend": "dense"}),
     ("gcn", {"predictor": "dot", "predictor_layers": 2}), ("node2vec", {"predictor": "dot"})],
)  # fmt: skip
def test_options_that_this_model_would_not_read_are_refused(model, idle):
    with pytest.raises(OptionError, match=list(idle)[-1].replace("_", "-")):
        make_config("ogbl-ddi", model=model, **idle)


def test_options_that_only_say_what_is_the_case_are_not_refused():
    assert make_config("ogbl-ddi", model="mf", lrga=False, edge_weights=False, skip=False).model.model == "mf"
    assert make_config("ogbl-ddi", model="node2vec", walk_p=2.0, hidden=64, predictor="concat").link.walk_p == 2.0


def test_a_graph_run_is_written_without_a_section_of_links():
    assert "link" not in make_config("ZINC").to_json()


@pytest.mark.parametrize(
    ("name", "options", "parameters", "graphs", "batches"),
    [
        ("PATTERN", {"budget": "500k"}, 396_437, {"train": 10_000, "val": 2_000, "test": 2_000}, 157),
        ("ogbl-ddi", {}, 1_576_081, {"train": 1_067_911, "val": 133_489, "test": 133_489}, 17),
    ],
)
def test_a_named_set_is_planned_without_being_built(tmp_path, name, options, parameters, graphs, batches):
    plan = plan_run(make_config(name, root=str(tmp_path), device="cpu", **options))
    assert json.loads(json.dumps(plan)) == plan
    assert plan["parameters"] == parameters
    assert plan["data"] == {"name": name, "graphs": graphs, "built": False}
    assert plan["batches_per_epoch"] == batches
    assert ("link" in plan) == (name == "ogbl-ddi")
    assert list(tmp_path.iterdir()) == []


def test_sizes_are_seen(tmp_path):
    plan = plan_run(make_config("CLUSTER", root=str(tmp_path), data_options={"sizes": (100, 10, 10)}))
    assert plan["data"]["graphs"] == {"train": 100, "val": 10, "test": 10}
    assert plan["batches_per_epoch"] == 1


def test_own_data_are_read(tmp_path):
    nodes = "".join(f"{g},{n},{n / 2}\n" for g in range(10) for n in range(3))
    (tmp_path / "nodes.csv").write_text("graph,node,x0\n" + nodes)
    (tmp_path / "edges.csv").write_text("graph,source,target\n0,0,1\n0,1,0\n")
    (tmp_path / "graphs.csv").write_text("graph,y\n" + "".join(f"{g},{g / 10 + 0.05}\n" for g in range(10)))
    plan = plan_run(make_config(str(tmp_path), hidden=8, layers=2))
    assert plan["data"]["graphs"] == {"train": 8, "val": 1, "test": 1}
    assert (plan["task"]["level"], plan["task"]["kind"]) == ("graph", "regression")
    assert plan["model"]["hidden_channels"] == 8


def test_data_that_are_not_there_are_missed():
    with pytest.raises(DataMissingError, match=r"PATTERN.*module:factory"):
        plan_run(make_config("no_such_folder"))


@pytest.mark.parametrize(
    ("name", "remedy"),
    [("Corra", "write Cora, or correct"), ("mine", "mine:FUNCTION"), ("xyzzy", "To fix: correct the name or the path")],
)
def test_an_unknown_name_is_answered_with_what_was_probably_meant(name, remedy, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text("")
    with pytest.raises(DataMissingError, match=remedy):
        load_training_data(DataConfig(name=name))
