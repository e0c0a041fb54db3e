import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from lrga.data.own.csv_folder import read_folder
from lrga.data.own.reading import draw_split, labelled, load_custom, make_labels, make_split
from lrga.data.packed.arrays import pack_arrays
from lrga.errors import DataError, DTypeError, OptionError


def table(graphs: int = 4, *, y=None, level="graph", split=None):
    """Paths of three nodes; ``split`` is a pair of its level and its codes."""
    rows = {"node": 3, "edge": 2, "graph": 1}
    columns = {of: {} for of in rows}
    meta = {"y": "y", "split": "column split"}
    y = np.arange(rows[level] * graphs) if y is None else np.asarray(y)
    if y.dtype.kind == "U":
        classes, y = np.unique(y, return_inverse=True)
        meta["classes"] = classes.tolist()
    columns[level]["y"] = y
    if split is not None:
        columns[split[0]]["split"] = np.asarray(split[1])
    return pack_arrays(
        num_nodes=np.full(graphs, 3),
        num_edges=np.full(graphs, 2),
        edge_index=np.tile([[0, 1], [1, 2]], graphs),
        x=np.ones((3 * graphs, 1), np.float32),
        **columns,
        meta=meta,
    )


def labels(values, task=None, rows=None):
    used = np.ones(len(values), bool) if rows is None else np.asarray(rows)
    return make_labels(table(len(values), y=values), task, used)


def divide(graphs, fractions=(0.8, 0.1, 0.1)):
    column = graphs.columns["y"]
    return make_split(graphs, np.ones(len(column.values), bool), fractions, 0, "here")


def test_the_task_follows_from_the_labels_or_is_said_and_classes_are_numbered_in_their_order():
    assert labels([0, 2, 1]).task == "classification"
    assert labels(["b", "a"]).task == "classification"
    made = labels([0.5, 1.0])
    assert made.task == "regression"
    assert made.y.dtype == np.float32
    assert made.classes is None
    made = labels([10, -1, 3, 10])
    assert made.y.tolist() == [2, 0, 1, 2]
    assert made.classes == ("-1", "3", "10")
    named = labels(["dog", "cat", "dog"])
    assert named.y.tolist() == [1, 0, 1]
    assert named.classes == ("cat", "dog")
    counts = labels([3, 5, 3], "regression")
    assert counts.y.tolist() == [3, 5, 3]
    assert counts.y.dtype == np.float32
    assert labels([1.0, 2.0, 1.0], "classification").classes == ("1", "2")
    several = labels(np.ones((4, 3)), "regression")
    assert several.y.shape == (4, 3)


@pytest.mark.parametrize(
    ("values", "task", "match"),
    [
        ([0.5, 1.0], "classification", "integers"),
        (["a", "b"], "regression", "numbers in y for regression, got names such as a[.]"),
        (["a", "b"], "multilabel", "labels 0 and 1 in y.*got names such as a[.]"),
        ([1, 1, 1], None, "at least two classes"),
        ([0.5, np.nan], None, "NaN or infinity in graph 1"),
        ([np.inf, 0.5], None, "graph 0"),
        ([[0, 1], [1, 0]], None, "one class each"),
        ([1e39, 1.5], None, "3.4e38"),
    ],
)
def test_targets_that_do_not_fit_their_task_are_refused(values, task, match):
    with pytest.raises(DataError, match=match):
        labels(values, task)


def test_complex_targets_and_unknown_tasks_and_levels_are_refused():
    with pytest.raises(OptionError, match="'classification', 'multilabel', 'regression'"):
        labels([0, 1], "ranking")
    with pytest.raises(OptionError, match="'node', 'edge', 'graph'"):
        load_custom(table(), level="subgraph")
    with pytest.raises(DTypeError, match="complex"):
        labels([1j, 2j])


def test_labels_below_zero_and_rows_outside_every_split_count_for_nothing():
    assert labelled(table(4, y=[0, -1, 2, -100]), None).tolist() == [True, False, True, False]
    assert labelled(table(4, y=[0, -1, 2, -100]), "regression").all()
    assert labelled(table(4, y=["a", "b", "a", "b"]), None).all()
    made = labels([0.5, np.nan, 1.5], None, [True, False, True])
    assert made.y.tolist() == [0.5, 0, 1.5]
    classes = labels([1, -1, 0], None, [True, False, True])
    assert classes.classes == ("0", "1")
    assert classes.y.tolist() == [1, 0, 0]


def test_one_target_is_chosen_and_two_must_be_told_apart(tmp_path):
    def read(nodes="", graphs="", level=None):
        for name, y in (("nodes", nodes), ("graphs", graphs)):
            rows = "".join(f"{g},0{',1' * bool(y)}\n" for g in range(4))
            (tmp_path / f"{name}.csv").write_text(f"graph,{name[:4]}{y}\n{rows}")
        (tmp_path / "edges.csv").write_text("graph,source,target\n")
        return read_folder(tmp_path, level=level).columns["y"].level

    assert read(nodes=",y") == "node"
    assert read(nodes=",y", graphs=",y", level="graph") == "graph"
    with pytest.raises(OptionError, match="column y of nodes.csv and column y of graphs.csv"):
        read(nodes=",y", graphs=",y")
    with pytest.raises(DataError, match="a target for each edge"):
        read(nodes=",y", level="edge")
    with pytest.raises(DataError, match="add y"):
        read()


def test_a_drawn_split_has_its_fractions_and_comes_again_with_its_seed():
    code = draw_split(1000, (0.7, 0.2, 0.1), seed=3)
    assert np.bincount(code).tolist() == [700, 200, 100]
    np.testing.assert_array_equal(code, draw_split(1000, (0.7, 0.2, 0.1), seed=3))
    assert (code != draw_split(1000, (0.7, 0.2, 0.1), seed=4)).any()


@pytest.mark.parametrize("count", [3, 4, 5, 9])
@pytest.mark.parametrize("fractions", [(0.8, 0.1, 0.1), (0.01, 0.5, 0.49)])
def test_no_split_is_empty_however_few_there_are(count, fractions):
    assert (np.bincount(draw_split(count, fractions, seed=0), minlength=3) > 0).all()


@pytest.mark.parametrize("fractions", [(0.8, 0.2), (0.8, 0.1, 0.2), (1.0, 0.0, 0.0), (1.2, -0.1, -0.1), "abc", 0.8])
def test_fractions_that_do_not_add_up_are_refused(fractions):
    with pytest.raises(OptionError, match="add up to 1"):
        draw_split(10, fractions, seed=0)


def test_graphs_are_divided_where_there_are_several_and_nodes_where_there_is_one():
    assert divide(table(3, level="node"))[0] == "graph"
    assert divide(table(1, level="node"), (0.4, 0.3, 0.3))[0] == "node"
    with pytest.raises(DataError, match="enough graphs for train, val and test"):
        divide(table(2))


def test_a_given_split_is_kept_and_must_be_whole():
    level, code = divide(table(level="node", split=("graph", [0, 1, 2, 0])))
    assert (level, code.tolist()) == ("graph", [0, 1, 2, 0])
    with pytest.raises(DataError, match="graphs of val in column split"):
        divide(table(level="node", split=("graph", [0, 0, 2, 0])))
    with pytest.raises(DataError, match="a split of edges"):
        divide(table(level="node", split=("edge", np.zeros(8, int))))


def test_columns_that_are_not_called_y_are_named_in_the_error(tmp_path):
    (tmp_path / "nodes.csv").write_text("graph,node,mass\n" + "".join(f"{g},0,{g}\n" for g in range(9)))
    (tmp_path / "edges.csv").write_text("graph,source,target\n0,0,0\n")
    (tmp_path / "graphs.csv").write_text("graph,gap,mu\n" + "".join(f"{g},{g}.5,2\n" for g in range(9)))
    with pytest.raises(DataError, match=r"the columns gap, mu \(targets are called y or y:NAME\)"):
        load_custom(tmp_path)


def test_several_targets_of_a_graph_in_one_row_are_answered_with_the_shape():
    edge_index = torch.tensor([[0, 1], [1, 0]])
    graphs = [Data(x=torch.randn(4, 3), edge_index=edge_index, y=torch.randn(3)) for _ in range(9)]
    with pytest.raises(OptionError, match=r"3 targets of each graph, reshape y to \[1, 3\]"):
        load_custom(graphs)
