"""Values of own data reach training as they are, or it is said: digits, large labels, labels that are none, repeats."""

import pytest
import torch
from torch_geometric.data import Data

from lrga.data.own.csv_folder import read_folder
from lrga.data.own.reading import load_custom, load_inputs
from lrga.errors import DataError
from lrga.training import DataConfig
from lrga.training.problems.data import load_training_data

RING = torch.tensor([[0, 1, 2, 1, 2, 0], [1, 2, 0, 0, 1, 2]])


def write_nodes(folder, header, rows, edges="source,target\n0,1\n1,0\n"):
    """One graph whose nodes are 0, 1, …"""
    lines = [f"{n},{row}\n" for n, row in enumerate(rows)]
    (folder / "nodes.csv").write_text(f"node,{header}\n" + "".join(lines))
    (folder / "edges.csv").write_text(edges)
    return folder


def test_features_that_float32_would_merge_are_refused_by_name(tmp_path):
    """16 seconds of 2023: in float32 they are one value."""
    folder = write_nodes(tmp_path, "size,time,y", [f"0.5,{1_700_000_000 + n},{n % 2}" for n in range(16)])
    with pytest.raises(DataError, match=r"'time' of nodes.csv, got float32 .* is coarse"):
        load_custom(folder)
    notes = load_inputs(folder).meta["notes"]  # a model that was trained on a wider column may still predict
    assert "coarse for the node feature 'time'" in notes[0]


@pytest.mark.parametrize("dtype", [torch.float64, torch.int64])
def test_the_same_holds_of_pyg_features(tmp_path, dtype):
    x = torch.stack([torch.arange(16), torch.arange(16) + 1_700_000_000], dim=1).to(dtype)
    torch.save(Data(x=x, edge_index=RING, y=torch.arange(16) % 2), tmp_path / "g.pt")
    with pytest.raises(DataError, match=r"'x\[:, 1\]'.*offset"):
        load_custom(tmp_path / "g.pt", level="node")


def test_features_that_float32_holds_are_not_told_of(tmp_path):
    folder = write_nodes(tmp_path, "x,z,y", [f"{n / 8},{n * 3},{n % 2}" for n in range(50)])
    assert load_custom(folder).notes == ()


@pytest.mark.parametrize("blank", [[], ["9,,"]])
def test_labels_beyond_2_to_the_53_stay_apart(tmp_path, blank):
    rows = [f"{n},{2**60 + n % 2},{('train', 'val', 'test')[n // 2]}" for n in range(6)]
    data = load_custom(write_nodes(tmp_path, "x,y,split", rows + blank))
    assert data.classes == (str(2**60), str(2**60 + 1))


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1, 10**30])
def test_a_label_beyond_int64_does_not_make_numbers_of_classes(tmp_path, value):
    folder = write_nodes(tmp_path, "x,y", [f"{n},{value if n == 7 else n % 3}" for n in range(30)])
    with pytest.raises(DataError, match=rf"labels from .*{value} in .*line 9.*names"):
        load_custom(folder)


def test_large_numbers_to_predict_are_written_with_a_decimal_point(tmp_path):
    rows = [f"{n},{10**20 + n * 10**18}.0" for n in range(30)]
    assert load_custom(write_nodes(tmp_path, "x,y", rows)).task == "regression"


def ring(y, **more):
    return Data(x=torch.rand(3, 2), edge_index=RING, y=torch.as_tensor(y), **more)


@pytest.mark.parametrize("none", [-1, -100])
def test_nodes_without_a_label_are_masked_and_told_of(none):
    graphs = {name: [ring([0, none, 1]), ring([1, 0, none])] for name in ("train", "val", "test")}
    found = load_training_data(DataConfig(name="own"), given=graphs)
    assert found.task.out_channels == 2
    for part in found.splits.values():
        assert part.attribute("mask").tolist() == [True, False, True, True, True, False]
        assert set(part.y.tolist()) == {0, 1}
    assert any("6 of 18 nodes have no label" in note for note in found.notes)
    assert found.notes[0].startswith("node classification, 2 classes: 0 (6), 1 (6); train 4, val 4, test 4")


def test_a_split_is_drawn_among_the_labelled(tmp_path):
    y = torch.full((100,), -1)
    y[:20] = torch.arange(20) % 2
    torch.save(Data(x=torch.rand(100, 2), edge_index=RING, y=y), tmp_path / "g.pt")
    data = load_custom(tmp_path / "g.pt", level="node")
    assert [int(part.attribute("mask").sum()) for part in data.splits.values()] == [16, 2, 2]
    assert data.classes == ("0", "1")


def test_labels_that_are_all_missing_are_named_but_numbers_may_be_minus_one(tmp_path):
    torch.save([ring([-1]) for _ in range(30)], tmp_path / "g.pt")
    with pytest.raises(DataError, match=r"labels in y of .*only -1 and -100"):
        load_custom(tmp_path / "g.pt")
    torch.save([ring([float(y)]) for y in range(-1, 29)], tmp_path / "g.pt")
    data = load_custom(tmp_path / "g.pt")
    assert sum(len(part) for part in data.splits.values()) == 30
    assert data.notes == ()


def test_every_row_of_edges_is_an_edge_and_repeats_are_told_of(tmp_path):
    edges = "source,target\n0,1\n1,0\n0,1\n1,2\n0,1\n"
    table = read_folder(write_nodes(tmp_path, "x,y", ["0,0", "1,1", "2,0"], edges))
    assert sorted(table[0].edge_index.t().tolist()) == [[0, 1], [0, 1], [0, 1], [1, 0], [1, 2]]
    assert tuple(table.meta["notes"]) == ("2 rows of edges.csv repeat an earlier row; each is an edge",)
    edges = "source,target,w\n0,1,1.5\n0,1,2.5\n1,0,1\n0,1,1.5\n"
    table = read_folder(write_nodes(tmp_path, "x,y", ["0,0", "1,1", "2,0"], edges))
    assert sorted(table[0].edge_attr.flatten().tolist()) == [1.0, 1.5, 1.5, 2.5]
    assert tuple(table.meta["notes"]) == ("1 rows of edges.csv repeat an earlier row; each is an edge",)


def test_targets_follow_repeated_edges_of_several_graphs(tmp_path):
    (tmp_path / "nodes.csv").write_text("graph,node\n" + "".join(f"{g},{n}\n" for g in "ba" for n in "xy"))
    (tmp_path / "edges.csv").write_text(
        "graph,source,target,y,split\na,x,y,3,train\nb,x,y,1,val\na,x,y,3,train\nb,y,x,2,test\nb,x,y,,\nb,x,y,,\n"
    )
    table = read_folder(tmp_path)
    assert table.edges_per_graph.tolist() == [4, 2]  # b is the first graph
    assert table.edge_index.tolist() == [[1, 0, 0, 0, 2, 2], [0, 1, 1, 1, 3, 3]]  # sorted by target
    assert table.y[[0, 1, 4, 5]].tolist() == [2, 1, 3, 3]
    assert table.attribute("split").tolist() == [2, 1, -1, -1, 0, 0]


@pytest.mark.parametrize("level", ["node", "graph"])
def test_repeated_edges_are_the_same_from_a_folder_and_a_list(tmp_path, level):
    y = torch.tensor([0, 1, 0]) if level == "node" else torch.tensor([0])
    edge_index = torch.tensor([[0, 0, 1, 2], [1, 1, 2, 0]])
    graphs = [Data(x=torch.tensor([[0.0], [1.0], [2.0]]), edge_index=edge_index, y=(y + i) % 2) for i in range(12)]
    label = [f",{int(v)}" for g in graphs for v in g.y] if level == "node" else [""] * 36
    head = "graph,node,x0" + (",y" if level == "node" else "")
    rows = [f"{i},{n},{n}{label[3 * i + n]}" for i in range(12) for n in range(3)]
    (tmp_path / "nodes.csv").write_text("\n".join([head, *rows]) + "\n")
    ends = [f"{i},{s},{t}" for i in range(12) for s, t in edge_index.t().tolist()]
    (tmp_path / "edges.csv").write_text("\n".join(["graph,source,target", *ends]) + "\n")
    if level == "graph":
        (tmp_path / "graphs.csv").write_text("graph,y\n" + "".join(f"{i},{int(g.y)}\n" for i, g in enumerate(graphs)))
    folder, listed = load_custom(tmp_path), load_custom(graphs)
    for split, packed in listed.splits.items():
        assert torch.equal(folder.splits[split].edge_index, packed.edge_index)
        assert torch.equal(folder.splits[split].y, packed.y)


def test_a_mask_of_something_else_is_refused():
    given = {name: [ring([1.5], mask=torch.tensor([True, False, True]))] * 2 for name in ("train", "val", "test")}
    with pytest.raises(DataError, match=r"one for each graph.*torch.bool of shape \[3\]"):
        load_training_data(DataConfig(name="own"), given=given)


@pytest.mark.parametrize("y", [[0, 1, 1], [0.5, 1.5, 1.0]])
def test_a_mask_that_chooses_nothing_is_refused(y):
    some, none = torch.tensor([True, True, False]), torch.zeros(3, dtype=torch.bool)
    given = {name: [ring(y, mask=none if name == "val" else some)] * 2 for name in ("train", "val", "test")}
    with pytest.raises(DataError, match="at least one target .* in 'val'"):
        load_training_data(DataConfig(name="own"), given=given)
