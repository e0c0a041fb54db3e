"""A graph for link prediction: its edges, its checks, its file."""

import pytest
import torch
from safetensors.torch import save_file

from lrga.data.links.data import LinkData, LinkSplit, as_edge_index, load_link_data, save_link_data
from lrga.errors import ChecksumError, DataError, DataMissingError, NonFiniteError, ShapeError


def make(**changes):
    splits = {
        "train": LinkSplit(torch.tensor([[0, 1], [1, 2]])),
        "val": LinkSplit(torch.tensor([[0, 2]]), torch.tensor([[0, 3]]), weight=torch.tensor([5.0])),
        "test": LinkSplit(torch.tensor([[2, 3]]), torch.tensor([[1, 3]])),
    }
    options = {"num_nodes": 4, "edge": splits["train"].edge, "splits": splits, "edge_weight": torch.tensor([2.0, 3.0])}
    return LinkData(**(options | changes))


def test_the_graph_has_both_directions_weights_in_their_order_and_validation_edges_if_asked():
    assert as_edge_index(torch.tensor([[0, 1], [5, 2]]), undirected=True).tolist() == [[0, 1, 5, 2], [1, 0, 2, 5]]
    assert as_edge_index(torch.tensor([[0, 1], [5, 2]]), undirected=False).tolist() == [[0, 5], [1, 2]]
    graph = make().graph()
    assert graph.layout.edge_index.tolist() == [[1, 0, 2, 1], [0, 1, 1, 2]]
    assert graph.weight.tolist() == [2.0, 2.0, 3.0, 3.0]
    assert not graph.has_loops
    assert make().graph(weighted=False).weight is None
    graph = make().graph(with_validation=True)
    assert graph.layout.num_edges == 6
    found = dict(zip(map(tuple, graph.layout.edge_index.t().tolist()), graph.weight.tolist(), strict=True))
    assert found[0, 2] == found[2, 0] == 5.0


def test_the_fingerprint_changes_with_any_part():
    seen = {make().fingerprint()}
    other = make().splits | {"test": LinkSplit(torch.tensor([[2, 3]]), torch.tensor([[0, 3]]))}
    for changes in ({"num_nodes": 5}, {"edge_weight": None}, {"splits": other}, {"x": torch.ones(4, 1)}):
        seen.add(make(**changes).fingerprint())
    assert len(seen) == 5
    assert make().fingerprint() == make().to("cpu").fingerprint()


def test_what_does_not_fit_is_refused():
    make().check("here")
    with pytest.raises(DataError, match="node 3"):
        make(num_nodes=3).check("here")
    none = LinkSplit(torch.empty(0, 2, dtype=torch.int64), torch.tensor([[0, 3]]))
    with pytest.raises(DataError, match="'val'"):
        make(splits=make().splits | {"val": none}).check("here")
    with pytest.raises(ShapeError, match="two nodes"):
        make(edge=torch.zeros(3, 3, dtype=torch.int64)).check("here")


def test_a_split_to_predict_needs_negative_pairs_or_every_score_would_be_perfect():
    none = torch.empty(0, 2, dtype=torch.int64)
    splits = make().splits | {"val": LinkSplit(torch.tensor([[0, 2]]), none)}
    with pytest.raises(DataError, match="negative pairs of 'val'"):
        make(splits=splits).check("here")
    with pytest.raises(DataError, match="negative pairs of 'test'"):
        make(splits=make().splits | {"test": LinkSplit(torch.tensor([[2, 3]]))}).check("here")


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"edge": torch.tensor([[0, 1]], dtype=torch.int32)}, ShapeError, "int64"),
        ({"x": torch.ones(3, 2)}, ShapeError, "node features in float32 of shape .4, F. in here"),
        ({"x": torch.ones(4)}, ShapeError, "node features"),
        ({"x": torch.ones(4, 2, dtype=torch.float64)}, ShapeError, "float32"),
        ({"x": torch.ones(4, 2, dtype=torch.int64)}, ShapeError, "float32"),
        ({"x": torch.full((4, 2), float("nan"))}, NonFiniteError, "finite node features"),
        ({"edge_weight": torch.ones(3)}, ShapeError, "a weight for each of 2 edges"),
        ({"edge_weight": torch.tensor([1.0, float("inf")])}, NonFiniteError, "finite edge weights"),
    ],
)
def test_features_and_weights_that_do_not_fit_the_graph_are_refused(changes, error, message):
    make(x=torch.ones(4, 2)).check("here")
    with pytest.raises(error, match=message):
        make(**changes).check("here")


def data_of(*, shared):
    edge = torch.tensor([[0, 1], [1, 2], [3, 4]])
    train = LinkSplit(edge if shared else edge[:2].clone(), time=None if shared else torch.tensor([2**40, 5]))
    other = LinkSplit(torch.tensor([[0, 4]]), torch.tensor([[2, 4]]), weight=torch.tensor([2.0]))
    return LinkData(
        num_nodes=5, edge=edge, splits={"train": train, "val": other, "test": other}, undirected=False,
        x=torch.randn(5, 2), edge_weight=torch.rand(3), metric="mrr", node_ids=("a", "b", "c", "d", "é"),
        meta={"said": ["x"]},
    )  # fmt: skip


@pytest.mark.parametrize("shared", [True, False])
def test_what_is_written_is_read(tmp_path, shared):
    data = data_of(shared=shared)
    save_link_data(data, tmp_path / "graph.safetensors")
    read = load_link_data(tmp_path / "graph.safetensors")
    assert read.fingerprint() == data.fingerprint()
    assert (read.metric, read.node_ids, read.meta, read.undirected) == ("mrr", data.node_ids, data.meta, False)
    assert (read.splits["train"].edge is read.edge) == shared


def test_damaged_foreign_and_missing_files_are_refused(tmp_path):
    path = tmp_path / "graph.safetensors"
    with pytest.raises(DataMissingError):
        load_link_data(path)
    save_file({"edge": torch.zeros(2, 2)}, path)
    with pytest.raises(DataError, match="link prediction"):
        load_link_data(path)
    save_link_data(data_of(shared=True), path)
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(ChecksumError, match="complete"):
        load_link_data(path)
