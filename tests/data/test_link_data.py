import pytest
import torch

from lrga.data.links.data import LinkData, LinkSplit, as_edge_index
from lrga.errors import DataError, DTypeError, NonFiniteError, ShapeError


def make(**changes):
    splits = {
        "train": LinkSplit(torch.tensor([[0, 1], [1, 2]])),
        "val": LinkSplit(torch.tensor([[0, 2]]), torch.tensor([[0, 3]]), weight=torch.tensor([5.0])),
        "test": LinkSplit(torch.tensor([[2, 3]]), torch.tensor([[1, 3]])),
    }
    options = {"num_nodes": 4, "edge": splits["train"].edge, "splits": splits, "edge_weight": torch.tensor([2.0, 3.0])}
    return LinkData(**(options | changes))


def test_an_undirected_edge_is_followed_by_its_inverse():
    assert as_edge_index(torch.tensor([[0, 1], [5, 2]]), undirected=True).tolist() == [[0, 1, 5, 2], [1, 0, 2, 5]]
    assert as_edge_index(torch.tensor([[0, 1], [5, 2]]), undirected=False).tolist() == [[0, 5], [1, 2]]


def test_the_graph_has_weights_in_the_order_of_its_edges():
    graph = make().graph()
    assert graph.layout.edge_index.tolist() == [[1, 0, 2, 1], [0, 1, 1, 2]]
    assert graph.weight.tolist() == [2.0, 2.0, 3.0, 3.0]
    assert not graph.has_loops
    assert make().graph(weighted=False).weight is None


def test_validation_edges_join_the_graph_where_they_are_asked_for():
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


def test_a_split_without_negatives_is_refused_for_every_score_would_be_perfect():
    none = torch.empty(0, 2, dtype=torch.int64)
    splits = make().splits | {"val": LinkSplit(torch.tensor([[0, 2]]), none)}
    with pytest.raises(DataError, match="negative pairs of 'val'"):
        make(splits=splits).check("here")


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"edge": torch.tensor([[0, 1]], dtype=torch.int32)}, DTypeError, "int64"),
        ({"x": torch.ones(3, 2)}, ShapeError, "node features of shape .4, F. in here"),
        ({"x": torch.ones(4)}, ShapeError, "node features"),
        ({"x": torch.ones(4, 2, dtype=torch.float64)}, DTypeError, "float32"),
        ({"x": torch.ones(4, 2, dtype=torch.int64)}, DTypeError, "float32"),
        ({"x": torch.full((4, 2), float("nan"))}, NonFiniteError, "finite node features"),
        ({"edge_weight": torch.ones(3)}, ShapeError, "a weight for each of 2 edges"),
        ({"edge_weight": torch.tensor([1.0, float("inf")])}, NonFiniteError, "finite edge weights"),
    ],
)
def test_features_and_weights_that_do_not_fit_the_graph_are_refused(changes, error, message):
    make(x=torch.ones(4, 2)).check("here")
    with pytest.raises(error, match=message):
        make(**changes).check("here")


def test_a_split_to_predict_needs_negative_pairs():
    with pytest.raises(DataError, match="negative pairs of 'test'"):
        make(splits=make().splits | {"test": LinkSplit(torch.tensor([[2, 3]]))}).check("here")
