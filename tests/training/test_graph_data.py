"""Graphs of a run: what they ask of a network, and whether they are the same ones."""

import pytest
import torch
from torch_geometric.data import Data

from lrga.data.datasets.spec import spec_of
from lrga.data.own.reading import load_custom
from lrga.errors import DataError, OptionError
from lrga.training.config import DataConfig, RunConfig
from lrga.training.problems.graph_data import (
    inputs_of_custom,
    load_training_data,
)

OWN = DataConfig(name="own")


def data(y, x=None, edge_attr=None):
    x = torch.rand(3, 4) if x is None else x
    return Data(x=x, edge_index=torch.tensor([[0, 1], [1, 2]]), edge_attr=edge_attr, y=y)


def splits_of(*args, **kwargs):
    return {split: [data(*args, **kwargs) for _ in range(2)] for split in ("train", "val", "test")}


def test_a_named_set_brings_its_task_and_inputs(tmp_path):
    config = DataConfig(name="cluster", root=str(tmp_path), options={"sizes": (4, 2, 2)})
    found = load_training_data(config)
    assert (found.dataset, found.inputs) == ("CLUSTER", spec_of("CLUSTER").inputs)
    assert found.task.metric == "weighted_accuracy_by_batch"
    assert {name: len(graphs) for name, graphs in found.splits.items()} == {"train": 4, "val": 2, "test": 2}


def test_another_loss_and_metric_can_be_asked_for(make_splits):
    found = load_training_data(OWN, RunConfig(loss="weighted_cross_entropy", metric="weighted_accuracy"), make_splits())
    assert (found.task.loss, found.task.metric) == ("weighted_cross_entropy", "weighted_accuracy")
    with pytest.raises(OptionError):
        load_training_data(OWN, RunConfig(loss="l1"), make_splits())


def test_tasks_follow_from_targets():
    classes = load_training_data(OWN, given=splits_of(torch.tensor([0, 2, 1])))
    assert (classes.task.level, classes.task.kind, classes.task.out_channels) == ("node", "classification", 3)
    values = load_training_data(OWN, given=splits_of(torch.tensor([0.5, 1.0, 2.0])))
    assert (values.task.level, values.task.kind) == ("node", "regression")
    several = load_training_data(OWN, given=splits_of(torch.tensor([[0.5, 1.0]])))
    assert (several.task.level, several.task.out_channels) == ("graph", 2)


def test_inputs_follow_from_features():
    given = splits_of(torch.tensor([0.5]), x=torch.tensor([[0], [4], [2]]), edge_attr=torch.rand(2, 5))
    inputs = load_training_data(OWN, given=given).inputs
    assert (inputs.encoder, inputs.in_channels) == ("embedding", 5)
    assert (inputs.edge_encoder, inputs.edge_channels) == ("linear", 5)
    plain = load_training_data(OWN, given=splits_of(torch.tensor([0.5]))).inputs
    assert (plain.encoder, plain.in_channels, plain.edge_encoder) == ("linear", 4, "ones")


def test_a_user_s_folder_is_read(tmp_path):
    nodes = "".join(f"{g},{n},{n % 2},{n / 2}\n" for g in range(10) for n in range(3))
    (tmp_path / "nodes.csv").write_text("graph,node,y,x0\n" + nodes)
    (tmp_path / "edges.csv").write_text("graph,source,target\n0,0,1\n0,1,0\n")
    found = load_training_data(DataConfig(name=str(tmp_path), options={"split": (0.6, 0.2, 0.2)}))
    assert found.dataset is None
    assert (found.task.level, found.task.out_channels, found.task.classes) == ("node", 2, ("0", "1"))
    assert found.inputs.in_channels == 1
    custom = load_custom(tmp_path)
    assert inputs_of_custom(custom).out_channels == 2
    assert load_training_data(OWN, given=custom).task == found.task


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"train": [], "val": []}, "test"),
        ({"train": [], "val": [data(torch.tensor([1]))], "test": [data(torch.tensor([1]))]}, "graphs in every part"),
        (splits_of(None), "a target"),
        (splits_of(torch.tensor([-2, -1, 1])), "numbered from 0"),
        (splits_of(torch.tensor([1, 1, 1])), "at least two classes"),
    ],
)
def test_graphs_that_cannot_be_trained_on_are_refused(given, message):
    with pytest.raises(DataError, match=message):
        load_training_data(OWN, given=given)


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
def test_several_columns_are_labels_where_they_are_said_to_be(dtype):
    options = DataConfig(name="own", options={"task": "multilabel"})
    splits = splits_of(torch.tensor([[0, 1], [1, 1], [1, 0]], dtype=dtype))
    found = load_training_data(options, given=splits)
    assert (found.task.kind, found.task.out_channels, found.inputs.out_channels) == ("multilabel", 2, 2)
    assert (found.task.metric, found.task.target_std) == ("average_precision", None)
    assert "2 labels (0% missing)" in found.notes[0]
    with pytest.raises(DataError, match="labels 0 and 1"):
        load_training_data(options, given=splits_of(torch.tensor([[0, 1], [1, 2], [1, 0]], dtype=dtype)))
    with pytest.raises(OptionError, match="multilabel"):
        load_training_data(options, RunConfig(standardize_targets=True), splits)


def test_features_must_be_alike_in_all_splits(make_splits):
    splits = make_splits()
    splits["val"] = splits_of(torch.tensor([0, 1, 1]))["val"]
    with pytest.raises(DataError, match="as wide as in graph 0"):
        load_training_data(OWN, given=splits)


def test_the_fingerprint_sees_every_change(make_splits):
    def fingerprint(splits):
        return load_training_data(OWN, given=splits).fingerprint()

    first = fingerprint(make_splits())
    assert fingerprint(make_splits()) == first
    seen = {first, fingerprint(make_splits(seed=1)), fingerprint(make_splits(sizes=(23, 8, 8)))}
    for column in ("x", "y"):
        splits = make_splits()
        splits["test"].columns[column].values[-1] = 1 - splits["test"].columns[column].values[-1]
        seen.add(fingerprint(splits))
    swapped = make_splits()
    swapped["val"], swapped["test"] = swapped["test"], swapped["val"]
    seen.add(fingerprint(swapped))
    assert len(seen) == 6
