import io
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))
from link_graphs import communities, config_of

from lrga.errors import CheckpointError, DataError, DTypeError, OptionError, ShapeError
from lrga.training import train
from lrga.training.predict import write_table, write_table_file
from lrga.training.problems.link_predict import HEADER, LinkScorer


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "run"
    data = replace(communities(), node_ids=tuple(f"n{i}" for i in range(60)))
    train(config_of(max_epochs=20, dropout=0.0), folder, data=data)
    return folder, data


@pytest.fixture
def scorer(run):
    return LinkScorer.of(run[0], data=run[1], device="cpu")


def test_scores_are_the_models_probabilities_whatever_the_batch(scorer):
    pairs = torch.randint(60, (50, 2))
    with torch.no_grad():
        expected = scorer.model.score(scorer.h, pairs.t()).sigmoid()
    torch.testing.assert_close(scorer.score(pairs, batch_size=7), expected)
    assert bool(((expected > 0) & (expected < 1)).all())


@pytest.mark.parametrize("block", [1, 7, 1000])
def test_the_top_links_are_the_best_of_all_that_are_not_known(scorer, block):
    node = 4
    edges = torch.cat([split.edge for split in scorer.data.splits.values()]).tolist()
    known = {b for a, b in edges if a == node} | {a for a, b in edges if b == node} | {node}
    others = [j for j in range(60) if j not in known]
    scores = scorer.score(torch.tensor([[node, j] for j in others]))
    expected = [others[i] for i in torch.argsort(scores, descending=True, stable=True)[:5].tolist()]
    found = scorer.top(node, 5, block=block)
    assert [j for j, _ in found] == expected
    assert len(scorer.top(node, 500, block=block)) == len(others)


def test_pairs_of_a_file_are_scored_by_their_names(scorer, tmp_path):
    (tmp_path / "pairs.csv").write_text("source,target\nn3,n6\nn3,n7\n")
    pairs = scorer.read(tmp_path / "pairs.csv")
    assert pairs.tolist() == [[3, 6], [3, 7]]
    text = io.StringIO()
    assert write_table(HEADER, scorer.rows(pairs), text) == 2
    lines = text.getvalue().splitlines()
    assert lines[0] == "source,target,score"
    assert lines[1].startswith("n3,n6,0.")
    assert write_table_file(HEADER, scorer.rows(pairs), tmp_path / "new" / "out.csv") == 2
    assert (tmp_path / "new" / "out.csv").read_text() == text.getvalue()
    (tmp_path / "pairs.csv").write_text("n3,n6\nn3,nobody\n")
    with pytest.raises(DataError, match="line 2"):
        scorer.read(tmp_path / "pairs.csv")
    with pytest.raises(DataError, match="nobody"):
        scorer.number("nobody")


def test_another_graph_is_refused(run):
    with pytest.raises(CheckpointError, match="another under the same name"):
        LinkScorer.of(run[0], data=communities(seed=5), device="cpu")


@pytest.mark.parametrize("name", ["1_7", "60", "-1", "1.0", ""])
def test_only_whole_numbers_of_the_graph_name_a_node_without_names(scorer, name):
    numbered = replace(scorer, data=replace(scorer.data, node_ids=None))
    assert numbered.number("17") == numbered.number(17) == 17
    with pytest.raises(DataError, match="a node from 0 to 59"):
        numbered.number(name)


def test_links_are_ranked_where_all_probabilities_round_to_one(scorer):
    class Steep(torch.nn.Module):
        def score(self, h, pairs):
            return 100.0 + pairs[1]

    found = replace(scorer, model=Steep()).top(4, 3, block=7)
    nodes = [node for node, _ in found]
    assert [score for _, score in found] == [1.0, 1.0, 1.0]
    assert nodes == sorted(nodes, reverse=True)
    assert nodes[0] == max(set(range(60)) - set(torch.nonzero(scorer._known(4)).flatten().tolist()))


@pytest.mark.parametrize(
    ("ask", "error", "message"),
    [
        (lambda s: s.score(torch.tensor([[0, 1, 2], [1, 2, 3]])), ShapeError, r"\[P, 2\]"),
        (lambda s: s.score(torch.tensor([[0.0, 1.0]])), DTypeError, "whole numbers"),
        (lambda s: s.score(torch.tensor([[0, 60]])), DataError, "0 to 59, got 60"),
        (lambda s: s.score(torch.tensor([[0, -1]])), DataError, "got -1"),
        (lambda s: s.score(torch.tensor([[0, 1]]), batch_size=0), OptionError, "batch_size"),
        (lambda s: s.top(60), DataError, "got 60"),
        (lambda s: s.top(-1), DataError, "got -1"),
        (lambda s: s.top("n1"), DataError, "number\\(\\)"),
    ],
)
def test_pairs_and_nodes_that_there_are_not_are_refused(scorer, ask, error, message):
    with pytest.raises(error, match=message):
        ask(scorer)
    assert scorer.score(torch.empty(0, 2, dtype=torch.int64)).shape == (0,)


def test_a_file_whose_first_pair_reads_like_a_header_is_scored_whole(scorer, tmp_path, monkeypatch):
    ids = ("node1", "node2", *scorer.data.node_ids[2:])
    named = replace(scorer, data=replace(scorer.data, node_ids=ids))
    (tmp_path / "pairs.csv").write_text("node1,node2\n" + "n3,n4\n" * 5)
    monkeypatch.setattr("lrga.data.own.edge_list.BLOCK_LINES", 2)
    assert named.read(tmp_path / "pairs.csv").tolist() == [[0, 1], *[[3, 4]] * 5]
