import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))
from link_graphs import communities, config_of

from lrga.errors import CheckpointError, DataError, OptionError
from lrga.training import Listener, continue_run, load_run, train
from lrga.training.problems.kinds import load_link_source
from lrga.training.runs.plan import plan_run


def test_a_run_leaves_a_whole_folder_and_reports_the_best_epoch(tmp_path):
    heard = []

    class Ear(Listener):
        def started(self, facts):
            heard.append(facts)

    result = train(config_of(), tmp_path / "run", data=communities(), listeners=[Ear()])
    assert result.finished
    assert result.test == result.best.test_metric
    assert heard[0].unit == "edges"
    assert heard[0].graphs["train"] == communities().edge.size(0)
    for name in ("config.json", "model.json", "environment.json", "metrics.jsonl", "log.txt", "result.json"):
        assert (tmp_path / "run" / name).is_file()
    written = json.loads((tmp_path / "run" / "result.json").read_text())
    assert written["test"] == result.test
    again = train(config_of(), tmp_path / "run", data=communities())
    assert (again.test, again.epochs) == (result.test, 4)
    model, config = load_run(tmp_path / "run", which="best")
    assert config == config_of()
    assert not model.training


def test_a_paused_run_continues_and_ends_bit_equal(tmp_path):
    config = config_of(max_epochs=8, batch_size=30, checkpoint_minutes=0.0)
    whole = train(config, tmp_path / "whole", data=communities())
    paused = train(config, tmp_path / "paused", data=communities(), time_limit=0.0005)
    limit = 0.01
    while not paused.finished:
        paused = train(config, tmp_path / "paused", data=communities(), time_limit=limit)
        limit *= 1.5  # on a machine so busy that a slot is over before its first batch
    for name in ("model.safetensors", "best.safetensors"):
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "paused" / name).read_bytes()
    assert [r.val_metric for r in whole.history] == [r.val_metric for r in paused.history]


def test_a_finished_run_can_be_prolonged(tmp_path):
    train(config_of(), tmp_path / "run", data=communities())
    longer = continue_run(tmp_path / "run", data=communities(), max_epochs=6)
    assert longer.epochs == 6
    straight = train(config_of(max_epochs=6), tmp_path / "straight", data=communities())
    assert straight.last.val_metric == longer.last.val_metric


def test_another_graph_or_configuration_is_refused(tmp_path):
    train(config_of(), tmp_path / "run", data=communities(), time_limit=1e-6)
    with pytest.raises(CheckpointError, match="others under the same name"):
        train(config_of(), tmp_path / "run", data=communities(seed=1))
    with pytest.raises(CheckpointError, match="skip"):
        train(config_of(skip=False), tmp_path / "run", data=communities())
    with pytest.raises(DataError, match="LinkData"):
        train(config_of(), tmp_path / "other", data={"train": [], "val": [], "test": []})
    assert not (tmp_path / "other").exists()


def test_an_edge_list_is_trained_from_its_file(tmp_path):
    edges = communities().edge.tolist()
    (tmp_path / "graph.csv").write_text("".join(f"n{a},n{b}\n" for a, b in edges))
    config = config_of().changed(name=str(tmp_path / "graph.csv"))
    result = train(config, tmp_path / "run")
    assert result.metric == "auc"
    plan = plan_run(config)
    assert plan["parameters"] == result.parameters
    assert sum(plan["data"]["graphs"].values()) == len(edges)
    with pytest.raises(OptionError, match="options of an edge list"):
        load_link_source(replace(config.data, options={"task": "link", "level": "node"}))


def test_the_metric_of_a_run_can_be_chosen(tmp_path):
    result = train(config_of(metric="mrr", max_epochs=1), tmp_path / "run", data=communities())
    assert result.metric == "mrr"
    assert 0 < result.test < 1
    with pytest.raises(OptionError, match="metric"):
        train(config_of(metric="accuracy"), tmp_path / "wrong", data=communities())


def test_a_plan_of_a_named_set_needs_no_files(tmp_path):
    from lrga.training.options import make_config

    plan = plan_run(make_config("ogbl-ddi", root=str(tmp_path), device="cpu"))
    assert plan["parameters"] == 1_576_081
    assert plan["batches_per_epoch"] == 17
    assert plan["link"]["validation_edges"] is False
    assert not plan["data"]["built"]


def test_random_states_of_the_caller_are_left_alone(tmp_path):
    before = torch.get_rng_state()
    train(config_of(max_epochs=1), tmp_path / "run", data=communities())
    assert torch.equal(before, torch.get_rng_state())
