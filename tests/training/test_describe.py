"""How own data were understood is said at the start of a run, with warnings of what is likely a mistake."""

import pytest
import torch
from torch_geometric.data import Data

from lrga.training import DataConfig, ModelConfig, OptimizerConfig, RunConfig, TrainingConfig, train
from lrga.training.callbacks.terminal import PlainProgress
from lrga.training.problems.graph_data import load_training_data

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


def test_edges_in_one_direction_are_warned_of():
    given = splits(lambda i: i % 2, edges=torch.tensor([[0, 1], [1, 2]]))
    assert "edges are directed, so messages flow one way only" in warnings_of(given)[0]
    partly = splits(lambda i: i % 2, edges=torch.tensor([[0, 1, 2], [1, 0, 1]]))
    assert "directed edges (67% with their reverse)" in notes_of(partly)[1]


def test_edges_that_come_several_times_are_told_of():
    given = splits(lambda i: i % 2, edges=BOTH_WAYS.repeat(1, 2))
    assert warnings_of(given) == ["warning: 256 duplicate edges; each sends its own message"]


def test_a_class_that_train_lacks_is_warned_of():
    given = splits(lambda i: 2 if i == 45 else i % 2)
    assert warnings_of(given) == ["warning: classes in val or test but not in train: 2"]


def test_a_constant_target_is_warned_of():
    assert "constant in the training split" in warnings_of(splits(lambda i: 7.5))[0]


def test_a_split_too_small_to_choose_by_is_warned_of():
    given = splits(lambda i: i % 2, sizes=(40, 3, 12))
    assert warnings_of(given) == ["warning: val (3): too few graphs for reliable model selection"]


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
    train(config, tmp_path / "run", data=given, listeners=[] if quiet else [PlainProgress()])
    assert capsys.readouterr().err.count("data: graph classification") == (0 if quiet else 1)
    log = (tmp_path / "run" / "log.txt").read_text()
    assert log.count("data: graph classification") == log.count("warning: val (2) and test (2)") == 1


def test_named_sets_are_not_described(tmp_path):
    found = load_training_data(DataConfig(name="CLUSTER", root=str(tmp_path), options={"sizes": [4, 2, 2]}))
    assert found.notes == ()


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
