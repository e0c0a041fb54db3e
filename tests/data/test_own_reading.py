from pathlib import Path

import pytest
import torch
from torch_geometric.data import Data

from lrga.data.own.reading import load_custom, load_inputs
from lrga.errors import DataError, DataMissingError, OptionError

CYCLE = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]])


def folder(path: Path, graphs: int = 10, *, target: str = "graph", value=lambda i: i % 2, split: str = "") -> Path:
    """Cycles of four nodes with a target for each graph, node or edge."""
    end, header = ("," + split, ",split") if split else ("", "")
    rows = {"nodes": [], "edges": [], "graphs": []}
    for g in range(graphs):
        for n in range(4):
            y = f",{value(4 * g + n)}"
            rows["nodes"].append(f"g{g},n{n},{g},{n / 4}{y if target == 'node' else ''}")
            rows["edges"].append(f"g{g},n{n},n{(n + 1) % 4},{n}{y if target == 'edge' else ''}")
        rows["graphs"].append(f"g{g}{f',{value(g)}' if target == 'graph' else ''}{end}")
    headers = {"nodes": "graph,node,x0,x1", "edges": "graph,source,target,w", "graphs": "graph"}
    for name, lines in rows.items():
        y = ",y" if name.startswith(target) else ""
        last = header if name == "graphs" else ""
        (path / f"{name}.csv").write_text("\n".join([headers[name] + y + last, *lines]) + "\n")
    return path


@pytest.mark.parametrize("target", ["node", "edge", "graph"])
@pytest.mark.parametrize(("value", "task"), [(lambda i: i % 3, "classification"), (lambda i: i / 7, "regression")])
def test_targets_of_every_level_are_loaded_for_both_tasks(target, value, task, tmp_path):
    data = load_custom(folder(tmp_path, target=target, value=value))
    assert (data.level, data.task) == (target, task)
    assert data.num_outputs == (3 if task == "classification" else 1)
    assert (data.node_features, data.edge_features) == (2, 1)
    assert data.node_types is data.edge_types is None
    assert "mask" not in data.splits["train"].columns
    assert {name: len(graphs) for name, graphs in data.splits.items()} == {"train": 8, "val": 1, "test": 1}
    for graphs in data.splits.values():
        for one in graphs:
            g = int(one.graph_id[1:])
            numbers = {"graph": [g], "node": range(4 * g, 4 * g + 4), "edge": range(4 * g, 4 * g + 4)}[target]
            assert one.y.tolist() == pytest.approx([value(i) for i in numbers])
            assert one.edge_index.tolist() == CYCLE.tolist()
            assert one.x[:, 0].tolist() == [g] * 4


def test_the_same_seed_draws_the_same_split_and_every_graph_once(tmp_path):
    folder(tmp_path, graphs=30)

    def ids(seed):
        data = load_custom(tmp_path, seed=seed, split=(0.5, 0.3, 0.2))
        return {name: [one.graph_id for one in graphs] for name, graphs in data.splits.items()}

    first = ids(3)
    assert first == ids(3)
    assert first != ids(4)
    assert {name: len(found) for name, found in first.items()} == {"train": 15, "val": 9, "test": 6}
    assert sorted(name for found in first.values() for name in found) == sorted(f"g{i}" for i in range(30))


def test_a_column_of_splits_is_kept(tmp_path):
    folder(tmp_path)
    names = ["train"] * 5 + ["val"] * 2 + ["test"] * 3
    rows = "".join(f"g{g},{g % 2},{name}\n" for g, name in enumerate(names))
    (tmp_path / "graphs.csv").write_text("graph,y,split\n" + rows)
    data = load_custom(tmp_path)
    assert [one.graph_id for one in data.splits["val"]] == ["g5", "g6"]
    (tmp_path / "graphs.csv").write_text("graph,y,split\n" + rows.replace("val", "train"))
    with pytest.raises(DataError, match="val"):
        load_custom(tmp_path)


def test_the_task_and_the_level_can_be_said(tmp_path):
    data = load_custom(folder(tmp_path), task="regression")
    assert data.task == "regression"
    assert data.splits["train"].batch([0]).y.dtype == torch.float32
    with pytest.raises(OptionError, match="ranking"):
        load_custom(tmp_path, task="ranking")
    with pytest.raises(DataError, match="a target for each node"):
        load_custom(tmp_path, level="node")


def test_one_graph_is_divided_by_masks_that_share_its_tensors(tmp_path):
    rows = "".join(f"{n},{n},{'ab'[n % 2]},{['train', 'val', 'test', 'train'][n % 4]}\n" for n in range(12))
    (tmp_path / "nodes.csv").write_text("node,x,y,split\n" + rows)
    (tmp_path / "edges.csv").write_text("source,target\n" + "".join(f"{n},{(n + 1) % 12}\n" for n in range(12)))
    data = load_custom(tmp_path)
    assert "mask" in data.splits["train"].columns
    assert data.level == "node"
    assert data.classes == ("a", "b")
    masks = {name: graphs.batch([0]).attribute("mask") for name, graphs in data.splits.items()}
    assert masks["train"].tolist() == [n % 4 in (0, 3) for n in range(12)]
    assert masks["val"].tolist() == [n % 4 == 1 for n in range(12)]
    assert torch.stack(list(masks.values())).sum(0).tolist() == [1] * 12
    x = {graphs.columns["x"].values.data_ptr() for graphs in data.splits.values()}
    assert len(x) == 1


@pytest.mark.parametrize(("labels", "task"), [("ab", "classification"), (("0.5", "1.5"), "regression")])
def test_nodes_without_label_stay_in_the_graph_and_in_no_mask(labels, task, tmp_path):
    known = {0: "train", 1: "train", 5: "val", 6: "test", 7: "test"}
    rows = "".join(f"{n},{n},{labels[n % 2] if n in known else ''},{known.get(n, '')}\n" for n in range(12))
    (tmp_path / "nodes.csv").write_text("node,x,y,split\n" + rows)
    (tmp_path / "edges.csv").write_text("source,target\n" + "".join(f"{n},{(n + 1) % 12}\n" for n in range(12)))
    data = load_custom(tmp_path)
    assert ("mask" in data.splits["train"].columns, data.task) == (True, task)
    assert data.classes == (("a", "b") if task == "classification" else None)
    for name, graphs in data.splits.items():
        batch = graphs.batch([0])
        assert batch.num_nodes == 12
        assert batch.attribute("mask").tolist() == [known.get(n) == name for n in range(12)]
        assert batch.y.isfinite().all()


@pytest.mark.parametrize("level", ["graph", "node"])
def test_a_graph_with_a_blank_split_is_left_out_with_its_targets(level, tmp_path):
    names = {"g0": "train", "g1": "train", "g2": "val", "g3": "test", "g4": ""}
    node_y = {name: f",{g % 2}" if name != "g4" else "," for g, name in enumerate(names)}
    rows = "".join(f"{name},{n}{node_y[name] if level == 'node' else ''}\n" for name in names for n in range(2))
    (tmp_path / "nodes.csv").write_text(f"graph,node{',y' if level == 'node' else ''}\n" + rows)
    (tmp_path / "edges.csv").write_text("graph,source,target\n")
    rows = "".join(f"{name},{split}{node_y[name] if level == 'graph' else ''}\n" for name, split in names.items())
    (tmp_path / "graphs.csv").write_text(f"graph,split{',y' if level == 'graph' else ''}\n" + rows)
    data = load_custom(tmp_path)
    assert (data.level, data.classes) == (level, ("0", "1"))
    found = {name: [one.graph_id for one in graphs] for name, graphs in data.splits.items()}
    assert found == {"train": ["g0", "g1"], "val": ["g2"], "test": ["g3"]}


def test_a_mask_of_edges_follows_its_edges_where_packing_sorts_them(tmp_path):
    ends = [(3, 0), (0, 2), (2, 1), (1, 0), (3, 1), (0, 3)]
    (tmp_path / "nodes.csv").write_text("node\n" + "".join(f"{n}\n" for n in range(4)))
    rows = "".join(f"{s},{t},{s + t / 10},{['train', 'val', 'test'][i % 3]}\n" for i, (s, t) in enumerate(ends))
    (tmp_path / "edges.csv").write_text("source,target,y,split\n" + rows)
    data = load_custom(tmp_path)
    batch = data.splits["val"].batch([0])
    mask = batch.attribute("mask")
    assert mask.dtype == torch.bool
    found = {(s, t) for (s, t), used in zip(batch.edge_index.t().tolist(), mask.tolist(), strict=True) if used}
    assert found == {ends[1], ends[4]}
    values = batch.edge_index[0] + batch.edge_index[1] / 10
    assert torch.allclose(batch.y, values)


def test_a_file_and_a_factory_give_what_the_list_of_graphs_would(tmp_path, monkeypatch):
    graphs = [
        Data(x=torch.full((4, 1), i), edge_index=CYCLE, edge_attr=torch.tensor([0, 1, 2, 1]), y=torch.tensor([i / 2]))
        for i in range(10)
    ]
    torch.save(graphs, tmp_path / "graphs.pt")
    (tmp_path / "some_module.py").write_text(
        "import torch\n\ndef make():\n    return torch.load('graphs.pt', weights_only=False)\n"
    )
    monkeypatch.chdir(tmp_path)
    stored, made = load_custom("graphs.pt"), load_custom("some_module:make")
    for data in (stored, made):
        assert (data.task, data.level, data.num_targets) == ("regression", "graph", 1)
        assert (data.node_features, data.node_types, data.edge_types) == (0, 10, 3)
    for name in ("train", "val", "test"):
        assert torch.equal(stored.splits[name].x, made.splits[name].x)
        assert torch.equal(stored.splits[name].y, made.splits[name].y)


@pytest.mark.parametrize("spec", ["no/such/folder", "no_such.pt", "a b:c", "C:\\folder"])
def test_a_name_that_is_nothing_is_answered_with_what_it_could_be(spec):
    with pytest.raises(DataMissingError):
        load_custom(spec)


def test_a_single_csv_file_is_answered_with_its_folder(tmp_path):
    folder(tmp_path)
    with pytest.raises(DataError, match="pass the folder"):
        load_custom(tmp_path / "nodes.csv")


def test_inputs_need_no_target_and_keep_their_ids(tmp_path):
    folder(tmp_path, graphs=2)
    (tmp_path / "graphs.csv").unlink()
    graphs = load_inputs(tmp_path)
    assert graphs.y is None
    assert [one.graph_id for one in graphs] == ["g0", "g1"]
    assert graphs.objects["node_id"][1] == ["n0", "n1", "n2", "n3"]
    torch.save([Data(x=torch.ones(2, 3))], tmp_path / "one.pt")
    assert load_inputs(tmp_path / "one.pt").num_nodes == 2
