"""Options typed on a command line take the type of the option they name."""

import pytest

from lrga.errors import OptionError
from lrga.experiments.options import merge_settings, parse_grid, parse_seeds, parse_settings, parse_value
from lrga.training.config import SECTION_OF


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("rank", "10", 10),
        ("lr", "1e-4", 1e-4),
        ("lr", "1", 1.0),
        ("lrga", "false", False),
        ("lrga", "Yes", True),
        ("budget", "500k", "500K"),
        ("budget", "250k", 250_000),
        ("hidden", "none", None),
        ("hidden", "64", 64),
        ("clip_gradient", "None", None),
        ("clip_gradient", "0.5", 0.5),
        ("preset", "2020", "2020"),
        ("readout", "sum", "sum"),
        ("fanouts", "10,-1", [10, -1]),
        ("fanouts", "none", None),
        ("options", '{"sizes": [3, 2, 1]}', {"sizes": [3, 2, 1]}),
    ],
)
def test_values_take_the_type_of_their_option(key, text, value):
    found = parse_value(key, text)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("key", "text", "message"),
    [
        ("rank", "many", "rank to be an integer, got 'many'"),
        ("rank", "1.5", "rank to be an integer"),
        ("lrga", "perhaps", "lrga to be true or false"),
        ("lr", "fast", "lr to be a number"),
        ("hidden", "wide", "hidden to be an integer or none"),
        ("options", "{", "options as JSON"),
        ("fanouts", "10,few", "fanouts to be integers"),
        ("budget", "huge", "a number of parameters"),
    ],
)
def test_values_of_another_type_are_refused_with_the_type(key, text, message):
    with pytest.raises(OptionError, match=message):
        parse_value(key, text)


def test_every_option_of_training_can_be_typed():
    switches = {"lrga", "edge_features", "residual", "batch_norm", "random_features", "tensorboard", "deterministic"}
    switches |= {"resample_features", "skip", "validation_edges", "edge_weights", "standardize_targets"}
    switches |= {"selective_decay", "recompute_layers", "qk_norm", "gate"}
    switches |= {"linear_layers", "predictor_residual", "orthogonal", "mask_batch"}
    for key in SECTION_OF:
        text = "true" if key in switches else "{}" if key == "options" else "1"
        assert list(parse_settings([f"{key}={text}"])) == [key]


def test_an_unknown_option_is_answered_with_all_choices():
    with pytest.raises(OptionError) as caught:
        parse_grid(["learning_rate=1,2"])
    message = str(caught.value)
    assert "'learning_rate'" in message
    assert all(key in message for key in SECTION_OF)


def test_a_grid_splits_at_commas_and_takes_dashes_for_underscores():
    assert parse_grid(["batch-size=16, 32", "lrga=true,false"]) == {"batch_size": [16, 32], "lrga": [True, False]}
    assert parse_grid(['options={"seed": 1},{"seed": 2}']) == {"options": [{"seed": 1}, {"seed": 2}]}


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["rank"], "NAME=VALUE"),
        (["=3"], "NAME=VALUE"),
        (["rank="], "values for rank"),
        (["rank=1,1"], "different values for rank"),
        (["rank=1", "rank=2"], "rank once, got twice"),
    ],
)
def test_a_malformed_grid_is_refused(texts, message):
    with pytest.raises(OptionError, match=message):
        parse_grid(texts)


def test_settings_contradict_neither_named_options_nor_what_is_asked_for_otherwise():
    assert merge_settings({"device": None, "max_epochs": 3}, ["lr=0.1"]) == {"max_epochs": 3, "lr": 0.1}
    with pytest.raises(OptionError, match="max_epochs once"):
        merge_settings({"max_epochs": 3}, ["max_epochs=4"])
    with pytest.raises(OptionError, match="model by its own option"):
        merge_settings({}, ["model=gin"], elsewhere=("name", "model"))


def test_seeds_are_read_with_commas_with_blanks_and_repeated():
    assert parse_seeds(["41,95"]) == parse_seeds(["41"], ["95"]) == parse_seeds(["41", "95"]) == (41, 95)
    assert parse_seeds(None) is None
    for texts, more, message in ((["a"], [], "seeds, integers"), (None, ["95"], "left over"), (["1", "1"], [], "diff")):
        with pytest.raises(OptionError, match=message):
            parse_seeds(texts, more)
