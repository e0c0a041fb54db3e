"""What a run would be."""

import json

import pytest

from lrga.errors import DataMissingError
from lrga.training.options import make_config
from lrga.training.runs.plan import plan_run


def test_a_named_set_is_planned_without_being_built(tmp_path):
    plan = plan_run(make_config("PATTERN", budget="500k", root=str(tmp_path), device="cpu"))
    assert json.loads(json.dumps(plan)) == plan
    assert plan["parameters"] == 396_437
    assert plan["data"] == {
        "name": "PATTERN",
        "graphs": {"train": 10_000, "val": 2_000, "test": 2_000},
        "built": False,
    }
    assert plan["batches_per_epoch"] == 157
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
