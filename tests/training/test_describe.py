"""The user's own data: how they are read, and what is said of them."""

import pytest
import torch
from torch_geometric.data import Data

from lrga.data.datasets.spec import spec_of
from lrga.errors import DataError, OptionError, UnsupportedError
from lrga.explain.attention import explain
from lrga.training import DataConfig, ModelConfig, OptimizerConfig, RunConfig, TrainingConfig, train
from lrga.training.callbacks.terminal import ProgressDisplay
from lrga.training.predict import Predictor
from lrga.training.presets import make_config
from lrga.training.problems.data import (
    load_training_data,
)

BOTH_WAYS = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])


def graph(y, edges=BOTH_WAYS):
    return Data(x=torch.rand(3, 2), edge_index=edges, y=torch.as_tensor(y).view(1))


def notes_of(given, **options):
    return load_training_data(DataConfig(name="own", options=options), RunConfig(), given).notes


def splits(values, sizes=(40, 12, 12), **options):
    graphs = [graph(values(i), **options) for i in range(sum(sizes))]
    first, second, _ = sizes
    return {"train": graphs[:first], "val": graphs[first : first + second], "test": graphs[first + second :]}


def warnings_of(given, **options):
    return [note for note in notes_of(given, **options) if note.startswith("warning: ")]


def test_sound_data_are_described_without_a_warning():
    notes = notes_of(splits(lambda i: i % 3))
    assert notes == (
        "graph classification, 3 classes: 0 (22), 1 (21), 2 (21); train 40, val 12, test 12 graphs",
        "2 node features, no edge features, undirected edges",
    )


def test_numbers_to_predict_are_described_by_their_range():
    assert notes_of(splits(lambda i: 50_000.0 + 10 * i))[0] == (
        "graph regression, 50,000 to 50,390; train 40, val 12, test 12 graphs; targets standardised for training"
    )


def test_columns_are_called_by_their_names(tmp_path):
    nodes = "".join(f"g{g},{n},0.5,{n}\n" for g in range(40) for n in range(2))
    edges = "".join(f"g{g},0,1,1.5\ng{g},1,0,2.5\n" for g in range(40))
    (tmp_path / "nodes.csv").write_text("graph,node,size,age\n" + nodes)
    (tmp_path / "edges.csv").write_text("graph,source,target,length\n" + edges)
    (tmp_path / "graphs.csv").write_text("graph,y\n" + "".join(f"g{g},{'ab'[g % 2]}\n" for g in range(40)))
    notes = load_training_data(DataConfig(name=str(tmp_path))).notes
    assert notes[0].startswith("graph classification, 2 classes: a (20), b (20); train 32, val 4, test 4 graphs")
    assert notes[1] == "2 node features (size, age), 1 edge feature (length), undirected edges"


def test_integers_taken_as_many_classes_are_warned_of():
    many = splits(lambda i: i % 21)
    assert "the integers in y are read as 21 classes" in warnings_of(many)[0]
    assert not [text for text in warnings_of(splits(lambda i: i % 20)) if "integers" in text]


def test_classes_that_were_asked_for_are_not_warned_of(tmp_path):
    graphs = [graph(i % 25) for i in range(250)]
    torch.save(graphs, tmp_path / "many.pt")
    asked = load_training_data(DataConfig(name=str(tmp_path / "many.pt"), options={"task": "classification"}))
    assert not [note for note in asked.notes if "integers" in note]
    guessed = load_training_data(DataConfig(name=str(tmp_path / "many.pt")))
    assert [note for note in guessed.notes if "25 classes; for a regression" in note]


def test_edges_in_one_direction_are_told_of():
    given = splits(lambda i: i % 2, edges=torch.tensor([[0, 1], [1, 2]]))
    assert "directed edges (messages flow one way only" in notes_of(given)[1]
    assert "undirected edges" in notes_of(splits(lambda i: i % 2, edges=BOTH_WAYS.repeat(1, 2)))[1]


def test_constant_targets_and_classes_that_train_lacks_are_warned_of():
    given = splits(lambda i: 2 if i == 45 else i % 2)
    assert warnings_of(given) == ["warning: classes in val or test but not in train: 2"]
    assert "constant in the training split" in warnings_of(splits(lambda i: 7.5))[0]


def test_masked_splits_are_counted_by_their_rows(tmp_path):
    one = Data(x=torch.rand(100, 2), edge_index=torch.stack([torch.arange(100), torch.arange(100).roll(1)]))
    one.y = torch.arange(100) % 2
    torch.save(one, tmp_path / "one.pt")
    found = load_training_data(DataConfig(name=str(tmp_path / "one.pt"), options={"level": "node"}))
    assert found.notes[0] == ("node classification, 2 classes: 0 (50), 1 (50); train 80, val 10, test 10 of 100 nodes")


@pytest.mark.parametrize("quiet", [True, False])
def test_a_run_says_it_once_and_keeps_it_in_its_log(tmp_path, capsys, quiet):
    config = TrainingConfig(
        data=DataConfig(name="own"),
        model=ModelConfig(hidden=8, layers=1, rank=2),
        optimizer=OptimizerConfig(max_epochs=1),
        run=RunConfig(device="cpu"),
    )
    given = splits(lambda i: i % 2, sizes=(8, 2, 2))
    train(config, tmp_path / "run", data=given, callbacks=[] if quiet else [ProgressDisplay()])
    assert capsys.readouterr().err.count("data: graph classification") == (0 if quiet else 1)
    log = (tmp_path / "run" / "log.txt").read_text()
    assert log.count("data: graph classification") == 1


def test_whole_numbers_written_with_a_decimal_point_are_warned_of():
    """As a table program writes classes once a label is missing: 0.0, 1.0."""
    assert "y has 3 distinct values, all integers" in warnings_of(splits(lambda i: float(i % 3)))[0]
    assert warnings_of(splits(lambda i: float(i % 3)), task="regression") == []
    assert warnings_of(splits(lambda i: 2.0 * i)) == []


def test_columns_that_are_not_used_are_told_of(tmp_path):
    (tmp_path / "nodes.csv").write_text("graph,node\n" + "".join(f"{g},0\n{g},1\n" for g in range(40)))
    (tmp_path / "edges.csv").write_text("graph,source,target\n" + "".join(f"{g},0,1\n{g},1,0\n" for g in range(40)))
    (tmp_path / "graphs.csv").write_text("graph,y,weight\n" + "".join(f"{g},{g % 2},{g}\n" for g in range(40)))
    notes = load_training_data(DataConfig(name=str(tmp_path))).notes
    assert "warning: graph-level features are not supported; ignored in graphs.csv: weight" in notes
    assert notes[1].startswith("no node features (each is 1), no edge features")


OWN = DataConfig(name="own")


def data(y, x=None, edge_attr=None):
    x = torch.rand(3, 4) if x is None else x
    return Data(x=x, edge_index=torch.tensor([[0, 1], [1, 2]]), edge_attr=edge_attr, y=y)


def splits_of(*args, **kwargs):
    return {split: [data(*args, **kwargs) for _ in range(2)] for split in ("train", "val", "test")}


def test_a_named_set_brings_its_task_and_inputs_and_is_not_described(tmp_path):
    config = DataConfig(name="cluster", root=str(tmp_path), options={"sizes": (4, 2, 2)})
    found = load_training_data(config)
    assert (found.dataset, found.inputs) == ("CLUSTER", spec_of("CLUSTER").inputs)
    assert found.task.metric == "weighted_accuracy_by_batch"
    assert {name: len(graphs) for name, graphs in found.splits.items()} == {"train": 4, "val": 2, "test": 2}
    found = load_training_data(DataConfig(name="CLUSTER", root=str(tmp_path), options={"sizes": [4, 2, 2]}))
    assert found.notes == ()


def test_another_loss_and_metric_can_be_asked_for(make_splits):
    found = load_training_data(OWN, RunConfig(loss="weighted_cross_entropy", metric="weighted_accuracy"), make_splits())
    assert (found.task.loss, found.task.metric) == ("weighted_cross_entropy", "weighted_accuracy")
    with pytest.raises(OptionError):
        load_training_data(OWN, RunConfig(loss="l1"), make_splits())


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"train": [], "val": []}, "test"),
        ({"train": [], "val": [data(torch.tensor([1]))], "test": [data(torch.tensor([1]))]}, "graphs in every part"),
        ([], "got none[.]"),
        (splits_of(None), "a target"),
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


EMPTY = torch.empty(2, 0, dtype=torch.long)
EDGES = {
    "empty": {"edge_index": EMPTY},
    "none": {"edge_index": None},
    "absent": {},
    "features": {"edge_index": EMPTY, "edge_attr": torch.empty(0, 3)},
}


def write_csv(folder):
    folder.mkdir()
    (folder / "nodes.csv").write_text("graph,node,x\n" + "".join(f"{g},{n},{g / 7}\n" for g in range(30) for n in "ab"))
    (folder / "edges.csv").write_text("graph,source,target\n")
    (folder / "graphs.csv").write_text("graph,y\n" + "".join(f"{g},{g % 2}\n" for g in range(30)))
    return folder


def write_pt(path, **edges):
    torch.save([Data(x=torch.rand(3, 2), y=torch.tensor([i % 2]), **edges) for i in range(30)], path)
    return path


@pytest.mark.parametrize(
    ("source", "options"),
    [
        ("csv", {"model": "gcn"}), ("empty", {"model": "gat", "engine": "captured"}), ("none", {"model": "gatedgcn"}),
        ("absent", {"model": "gin", "lrga": False}), ("features", {"model": "gatedgcn", "engine": "captured"}),
        ("features", {"model": "gcn"}), ("csv", {"model": "gatedgcn"}), ("empty", {"model": "gin", "lrga": False}),
    ],
)  # fmt: skip
def test_graphs_without_edges_are_trained_on_and_predicted(tmp_path, source, options):
    path = write_csv(tmp_path / "csv") if source == "csv" else write_pt(tmp_path / "graphs.pt", **EDGES[source])
    config = make_config(str(path), hidden=8, layers=2, max_epochs=1, device="cpu", **options)
    assert train(config, tmp_path / "run").finished
    assert "there are no edges" in (tmp_path / "run" / "log.txt").read_text()
    predictor = Predictor.of(tmp_path / "run", device="cpu")
    assert len(list(predictor.rows(predictor.read(path)))) == 30
    if options.get("lrga", True):
        assert explain(tmp_path / "run").edges.shape == (0, 2)


def test_edges_to_predict_must_be_there(tmp_path):
    with pytest.raises(DataError, match="y"):
        load_training_data(DataConfig(name=str(write_csv(tmp_path / "csv")), options={"level": "edge"}))


SPARSE, LINK = torch.eye(2).to_sparse(), torch.tensor([[0, 1], [1, 0]])
ODD = [
    ({"x": SPARSE}, "x", "sparse"),
    ({"x": ["small", "large"]}, "x", "small"),
    ({"edge_attr": SPARSE}, "edge_attr", "sparse"),
    ({"edge_attr": ["road", "rail"]}, "edge_attr", "road"),
    ({"y": "ring"}, "y", "ring"),
    ({"y": ["ring", "path"]}, "y", "ring"),
]


@pytest.mark.parametrize(("change", "name", "got"), ODD)
@pytest.mark.parametrize("way", ["file", "list"])
def test_sparse_and_text_attributes_are_refused_in_words(tmp_path, change, name, got, way):
    graphs = [Data(**({"x": torch.rand(2, 2), "edge_index": LINK, "y": torch.tensor([1])} | change)) for _ in range(6)]
    torch.save(graphs, tmp_path / "g.pt")
    source, given = str(tmp_path / "g.pt"), None
    if way == "list":
        source, given = "own", dict.fromkeys(("train", "val", "test"), graphs)
    with pytest.raises(DataError, match=rf"\b{name}\b.*{got}"):
        load_training_data(DataConfig(name=source), given=given)


def test_edges_that_are_no_index_are_refused(tmp_path):
    x, y = torch.rand(2, 2), torch.tensor([1])
    torch.save([Data(x=x, y=y, edge_index=LINK.to_sparse())] * 6, tmp_path / "sparse.pt")
    with pytest.raises(DataError, match="dense edge_index"):
        load_training_data(DataConfig(name=str(tmp_path / "sparse.pt")))
    torch.save([Data(x=x, y=y, adj_t=SPARSE)] * 6, tmp_path / "matrix.pt")
    with pytest.raises(UnsupportedError, match="adjacency matrix"):
        load_training_data(DataConfig(name=str(tmp_path / "matrix.pt")))
