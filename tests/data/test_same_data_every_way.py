"""The same graphs give the same task, classes, inputs, targets, notes and errors whichever way they come in."""

import math
import sys

import pytest
import torch
from torch_geometric.data import Data, InMemoryDataset

from lrga.data import PackedGraphs, load_custom
from lrga.errors import DataError, OptionError
from lrga.training.config import DataConfig
from lrga.training.problems.data import load_training_data

SPLITS = ("train", "val", "test")
RING = torch.tensor([[0, 1, 2, 3, 1, 2, 3, 0], [1, 2, 3, 0, 0, 1, 2, 3]])  # 4 nodes, 8 edges


class Held(InMemoryDataset):
    def __init__(self, graphs):
        super().__init__()
        self.data, self.slices = self.collate(graphs)


def each(parts, change):
    """``change`` applied to the graphs: all of them, or those of each split."""
    return {name: change(part) for name, part in parts.items()} if isinstance(parts, dict) else change(parts)


def write_csv(folder, parts):
    """The graphs as CSV files; a column of integers is a type, masks and splits are the column ``split``."""
    names = dict.fromkeys(range(len(parts)), "") if isinstance(parts, list) else {}
    graphs = parts if isinstance(parts, list) else []
    for name, part in parts.items() if isinstance(parts, dict) else ():
        names |= dict.fromkeys(range(len(graphs), len(graphs) + len(part)), name)
        graphs = graphs + part
    tables = {level: [] for level in ("node", "edge", "graph")}
    for g, graph in enumerate(graphs):
        ends = graph.edge_index.t().tolist()
        ids = {
            "node": [{"graph": g, "node": n} for n in range(graph.num_nodes)],
            "edge": [{"graph": g, "source": a, "target": b} for a, b in ends],
            "graph": [{"graph": g} | ({"split": names[g]} if names[g] else {})],
        }
        rows_of_y = len(graph.y) if graph.y.dim() else 1
        level = {graph.num_nodes: "node", graph.num_edges: "edge", 1: "graph"}[rows_of_y]
        for row, values in zip(ids[level], graph.y.reshape(rows_of_y, -1).tolist(), strict=True):
            texts = ["" if math.isnan(value) else value for value in values]
            row |= {"y": texts[0]} if len(texts) == 1 else {f"y:{i}": text for i, text in enumerate(texts)}
        for kind, values in (("node", graph.x), ("edge", graph.edge_attr)):
            if values is None:
                continue
            types = values.shape[1:].numel() == 1 and not values.is_floating_point()
            for row, numbers in zip(ids[kind], values.reshape(len(values), -1).tolist(), strict=True):
                row |= {"type": numbers[0]} if types else {f"f{i}": number for i, number in enumerate(numbers)}
        if "train_mask" in graph:
            for n, row in enumerate(ids["node"]):
                row["split"] = next((name for name in SPLITS if graph[f"{name}_mask"][n]), "")
        for kind, rows in ids.items():
            tables[kind] += rows
    folder.mkdir()
    for kind, rows in tables.items():
        lines = [",".join(rows[0]), *(",".join(map(str, row.values())) for row in rows)]
        (folder / f"{kind}s.csv").write_text("\n".join(lines) + "\n")
    return folder


WAYS = ("lists", "data sets", "packed", "file", "function", "csv")


@pytest.fixture
def load(tmp_path, monkeypatch):
    """``load(parts, way, **options)``: what a run is told of these graphs when they come in that way."""

    def load(parts, way, **options):
        options = {"options": options}
        if way == "csv":
            return load_training_data(DataConfig(name=str(write_csv(tmp_path / "csv", parts)), **options))
        if way in ("file", "function"):
            torch.save(parts, tmp_path / "graphs.pt")
        if way == "file":
            return load_training_data(DataConfig(name=str(tmp_path / "graphs.pt"), **options))
        if way == "function":
            text = "import torch\ndef make():\n    return torch.load('graphs.pt', weights_only=False)\n"
            (tmp_path / "made_graphs.py").write_text(text)
            monkeypatch.chdir(tmp_path)
            return load_training_data(DataConfig(name="made_graphs:make", **options))
        given = {"lists": parts, "data sets": each(parts, Held), "packed": each(parts, PackedGraphs.from_data_list)}
        return load_training_data(DataConfig(name="own", **options), given=given[way])

    yield load
    sys.modules.pop("made_graphs", None)


def summary(found):
    """All that must be equal: the task, the inputs, the notes, and the values that training sees."""
    names = ("x", "edge_attr", "y", "mask")
    values = {
        split: {name: None if (v := graphs.attribute(name)) is None else (v.dtype, v.tolist()) for name in names}
        | {"edges": graphs.edge_index.tolist()}
        for split, graphs in found.splits.items()
    }
    notes = [note.replace(" (f0, f1)", "").replace(" (f0)", "") for note in found.notes]  # CSV columns have names
    return {"task": found.task, "inputs": found.inputs, "notes": notes, "values": values}


def graph(i, y, x=None, **more):
    x = torch.arange(8.0).view(4, 2) / 8 + i if x is None else x
    return Data(x=x, edge_index=RING, y=torch.as_tensor(y), **more)


def divided(make, count=36):
    graphs = [make(i) for i in range(count)]
    return {"train": graphs[:12], "val": graphs[12:24], "test": graphs[24:]}


def one_graph():
    nodes = torch.arange(60)
    masks = {f"{name}_mask": nodes % 5 == number for number, name in enumerate(SPLITS)}
    ends = torch.stack([torch.cat([nodes, nodes.roll(1)]), torch.cat([nodes.roll(1), nodes])])
    y = torch.where(nodes % 7 == 0, -1, nodes % 3)
    return [Data(x=(nodes / 4).view(-1, 1), edge_index=ends, y=y, **masks)]


CASES = {
    "labels 0 and 7": divided(lambda i: graph(i, [7 * (i % 2)])),
    "labels of nodes": divided(lambda i: graph(i, [0, 3, i % 4, 3])),
    "labels of edges": divided(lambda i: graph(i, [0, 1, 1, 0, 0, 1, 1, i % 2])),
    "negative labels": divided(lambda i: graph(i, [-5 + i % 3])),
    "graphs without a label": divided(lambda i: graph(i, [(-1, 0, 1, -100)[i % 4]])),
    "nodes without a label": divided(lambda i: graph(i, [0, 1, -1, (2, -100)[i % 2]])),
    "values": divided(lambda i: graph(i, [50_000.0 + 10 * i])),
    "values near each other": divided(lambda i: graph(i, torch.tensor([1.7e9 + i], dtype=torch.float64))),
    "values of nodes": divided(lambda i: graph(i, [0.5, 1.5, i / 4, -1.0])),
    "several values": divided(lambda i: graph(i, [[i / 4, -3.0 * i]])),
    "several values of nodes": divided(lambda i: graph(i, [[0.5, i], [1.5, 2], [i / 4, 3], [-1.0, 1]])),
    "types": divided(lambda i: graph(i, [i % 2], x=torch.tensor([[0], [i % 5], [6], [2]]))),
    "integer matrix": divided(lambda i: graph(i, [i % 2], x=torch.arange(8).view(4, 2) + i)),
    "narrow integers": divided(lambda i: graph(i, [i % 2], x=torch.arange(8, dtype=torch.uint8).view(4, 2))),
    "float64": divided(lambda i: graph(i, [i % 2], x=torch.full((4, 2), 0.1 * i, dtype=torch.float64))),
    "edge features": divided(lambda i: graph(i, [i % 2], edge_attr=torch.arange(8.0).view(8, 1) + i)),
    "edge types": divided(lambda i: graph(i, [i % 2], edge_attr=torch.arange(8) % (2 + i % 3))),
    "no features": divided(lambda i: Data(num_nodes=4, edge_index=RING, y=torch.tensor([i % 2]))),
    "no split": [graph(i, [i % 2]) for i in range(40)],
    "one graph with masks": one_graph(),
}


@pytest.mark.parametrize("way", WAYS[1:])
@pytest.mark.parametrize("case", CASES)
def test_every_way_gives_the_same(load, case, way):
    assert summary(load(CASES[case], way)) == summary(load(CASES[case], "lists"))


@pytest.mark.parametrize("way", WAYS[1:])
def test_labels_with_missing_ones_are_the_same_every_way(load, way):
    parts = divided(lambda i: graph(i, [[float(i % 2), math.nan, 1.0 if i % 3 else math.nan]]))
    found, same = load(parts, way, task="multilabel"), load(parts, "lists", task="multilabel")
    assert (found.task, found.notes[0]) == (same.task, same.notes[0])
    assert all(torch.equal(found.splits[name].y.nan_to_num(9), same.splits[name].y.nan_to_num(9)) for name in SPLITS)


def test_what_it_gives(load):
    """So that all ways are not wrong alike."""
    found = {case: load(parts, "lists") for case, parts in CASES.items()}
    assert found["labels 0 and 7"].task.classes == ("0", "7")
    assert found["labels 0 and 7"].splits["train"].y.tolist() == [0, 1] * 6
    assert found["negative labels"].task.classes == ("-5", "-4", "-3")
    assert found["graphs without a label"].task.classes == ("0", "1")
    assert len(found["graphs without a label"].splits["val"]) == 6
    assert "18 of 36 graphs have no label" in found["graphs without a label"].notes[-1]
    assert found["nodes without a label"].splits["train"].attribute("mask").tolist()[:4] == [True, True, False, True]
    assert found["values"].task.target_mean == (50_055.0,)
    assert (found["values"].inputs.edge_encoder, found["edge features"].inputs.edge_encoder) == ("ones", "linear")
    assert (found["edge features"].inputs.edge_channels, found["several values"].task.out_channels) == (1, 2)
    nodes = found["values of nodes"]
    assert (nodes.task.level, nodes.task.kind, nodes.inputs.task) == ("node", "regression", "node")
    assert found["values near each other"].given_targets["train"].dtype == torch.float64
    assert (found["types"].inputs.encoder, found["types"].inputs.in_channels) == ("embedding", 7)
    for case in ("integer matrix", "narrow integers"):
        assert (found[case].inputs.encoder, found[case].inputs.in_channels) == ("linear", 2)
        assert "2 integer node features are used as numbers, not as categories" in found[case].notes
    assert (found["edge types"].inputs.edge_encoder, found["edge types"].inputs.edge_channels) == ("embedding", 4)
    assert "no node features (each is 1)" in found["no features"].notes[1]
    assert {name: len(part) for name, part in found["no split"].splits.items()} == {"train": 32, "val": 4, "test": 4}
    assert found["one graph with masks"].notes[0].endswith("train 10, val 10, test 10 of 60 nodes")


ERRORS = {
    "one class": (divided(lambda i: graph(i, [3])), {}, DataError, "at least two classes"),
    "-1 and 1": (divided(lambda i: graph(i, [(-1, 1)[i % 2]])), {}, DataError, "besides -1 or -100"),
    "-2 beside -1": (divided(lambda i: graph(i, [i % 3 - 2])), {}, DataError, "numbered from 0"),
    "no label in val": (divided(lambda i: graph(i, [i % 2 if i // 12 != 1 else -1])), {}, DataError, "of val"),
    "another level": (divided(lambda i: graph(i, [i % 2])), {"level": "edge"}, DataError, "each edge"),
    "no classes": (divided(lambda i: graph(i, [i / 4])), {"task": "classification"}, DataError, "integers"),
    "two splits": (divided(lambda i: graph(i, [i % 2])), {"seed": 1}, OptionError, "one split"),
    "unknown option": (divided(lambda i: graph(i, [i % 2])), {"sizes": [1]}, OptionError, "options of your own"),
    "several classes": (divided(lambda i: graph(i, [[0, i % 2]])), {}, DataError, "--task multilabel"),
    "a missing value": (divided(lambda i: graph(i, [[0.5, math.nan]])), {}, DataError, "in graph 0.*multilabel"),
    "merged times": (
        divided(lambda i: graph(i, [i % 2], x=torch.tensor([[0, 1_700_000_000 + i]] * 4))), {}, DataError, "float32",
    ),
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("case", ERRORS)
def test_every_way_gives_the_same_error(load, case, way):
    parts, options, error, match = ERRORS[case]
    with pytest.raises(error, match=match):
        load(parts, way, **options)


@pytest.mark.parametrize("way", WAYS[:-1])
def test_a_mask_chooses_the_targets_whichever_way_it_comes(load, way):
    """In CSV files a blank ``split`` does it."""
    found = load(divided(lambda i: graph(i, [0, 1, 9, i % 2], mask=torch.tensor([True, True, False, True]))), way)
    assert found.task.classes == ("0", "1")
    assert found.splits["val"].attribute("mask").tolist()[:4] == [True, True, False, True]
    with pytest.raises(DataError, match=r"bool mask.*rename"):
        load(divided(lambda i: graph(i, [0, 1, 1, i % 2], mask=torch.arange(4))), way)


def test_options_hold_for_graphs_given_in_python(load):
    parts = [graph(i, [i % 3]) for i in range(40)]
    assert load(parts, "lists", task="regression").task.kind == "regression"
    assert load_training_data(DataConfig(name="own"), given=load_custom(parts)).task == load(parts, "lists").task
    assert len(load(parts, "lists", split=(0.5, 0.25, 0.25)).splits["train"]) == 20
