import pytest

from lrga.errors import OptionError
from lrga.training.config import TrainingConfig
from lrga.training.options import make_config
from lrga.training.problems.link_config import LinkConfig, link_protocol


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
    with pytest.raises(OptionError, match="a table"):
        link_protocol("ogbl-ddi", "mf", lrga=True)


@pytest.mark.parametrize(
    ("dataset", "context", "walks"), [("ogbl-collab", 20, 50), ("ogbl-ddi", 3, 50), ("ogbl-ppa", 3, 30)]
)
def test_deepwalk_has_the_windows_and_walks_of_the_leaderboard(dataset, context, walks):
    link = make_config(dataset, model="deepwalk").link
    assert (link.walk_context, link.walk_epochs * link.walks_per_node) == (context, walks)
    assert link.walk_pull > 0
    assert make_config(dataset, model="node2vec").link.walk_pull == 0


@pytest.mark.parametrize("pull", [-0.1, float("nan"), float("inf"), "much", True])
def test_a_pull_that_is_no_strength_is_refused(pull):
    with pytest.raises(OptionError, match="walk_pull"):
        LinkConfig(walk_pull=pull)


def test_options_that_would_do_nothing_are_refused():
    for key, value in (
        ("patience", 5),
        ("budget", "500K"),
        ("reading", "A"),
        ("random_features", True),
        ("momentum", 0.5),
        ("recalibrate_norm", 3),
    ):
        with pytest.raises(OptionError, match=key):
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
    with pytest.raises(OptionError, match=list(idle)[-1]):
        make_config("ogbl-ddi", model=model, **idle)


def test_options_that_only_say_what_is_the_case_are_not_refused():
    assert make_config("ogbl-ddi", model="mf", lrga=False, edge_weights=False, skip=False).model.model == "mf"
    assert make_config("ogbl-ddi", model="node2vec", walk_p=2.0, hidden=64, predictor="concat").link.walk_p == 2.0


@pytest.mark.parametrize(
    "wrong",
    [{"predictor": "x"}, {"negatives": "x"}, {"skip": 1}, {"walk_p": 0}, {"walk_context": 1}, {"walk_length": 5},
     {"predictor_layers": 0}, {"walk_epochs": -1}],
)  # fmt: skip
def test_impossible_options_are_refused(wrong):
    with pytest.raises(OptionError):
        LinkConfig(**wrong)


def test_a_graph_run_is_written_without_a_section_of_links():
    assert "link" not in make_config("ZINC").to_json()


@pytest.mark.parametrize(("name", "value"), [("walk_p", 1e40), ("walk_q", 1e-40)])
def test_chances_of_a_walk_beyond_its_numbers_are_refused_before_a_run_begins(name, value):
    with pytest.raises(OptionError, match=f"{name} from 1e-30"):
        LinkConfig(**{name: value})
