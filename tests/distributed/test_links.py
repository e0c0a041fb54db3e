import pytest
import torch

from lrga.distributed import count_traffic, fetch_nodes, link_step, partition_graph, partition_model, score_links
from lrga.distributed.partition.links import ShardedEmbedding
from lrga.errors import ShapeError
from lrga.models.link import LinkGNN, LinkModel, LinkPredictor

EDGES = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]])


def test_several_ranks_give_the_loss_and_gradients_of_one_process(ranks):
    for rank, report in enumerate(ranks):
        for conv in ("gcn", "gat", "gatedgcn", "graphsage", "gin"):
            for kind in (None, 3):
                found = report["links"][f"{conv} {kind}"]
                assert max(found["loss"], found["gradient"]) < 1e-12, (conv, kind, rank)
        for case, found in report["links"].items():
            assert max(found["loss"], found["gradient"]) < 1e-8, (rank, case)
            assert max(found["output"], found["scores"]) < 1e-6, (rank, case)  # after steps of Adam, in evaluation


def test_bytes_for_pairs_do_not_grow_with_the_graph_and_vectors_are_not_reduced(ranks):
    for report in ranks:
        small, large = report["link traffic"]["24"]["payload"], report["link traffic"]["240"]["payload"]
        assert large["halo"] > 5 * small["halo"]
        # counts for each of 3 ranks, then at most 20 asked nodes with a row of 8 doubles there and back; so do others
        assert small["pairs"] <= large["pairs"] <= 3 * 8 + 3 * 20 * (8 + 2 * 8 * 8)
        assert small["gradients"] == large["gradients"]
        assert small["attention"] == large["attention"] == 2 * 2 * (3 * 3 + 2 * 3) * 8


def test_rows_of_own_nodes_take_weights_of_the_whole_model():
    part = partition_graph(EDGES, 4)
    whole = LinkModel(LinkGNN(6, 6, 2, rank=2), LinkPredictor(6, 6, 2), num_nodes=4)
    ours = partition_model(whole, part)
    assert isinstance(ours.embedding, ShardedEmbedding)
    ours.load_state_dict(whole.state_dict())
    whole.load_state_dict(ours.state_dict())
    assert torch.allclose(ours.eval().encode(None, part.edges), whole.eval().encode(None, EDGES), atol=1e-6)


def test_pairs_of_any_nodes_are_scored_as_in_one_process():
    torch.manual_seed(0)
    part = partition_graph(EDGES, 4)
    whole = LinkModel(LinkGNN(6, 6, 2), LinkPredictor(6, 6, 2, kind="concat"), num_nodes=4).eval()
    ours = partition_model(whole, part)
    pairs = torch.tensor([[0, 3, 3], [2, 3, 0]])
    h = ours.encode(None, part.edges)
    assert torch.allclose(score_links(ours, part, h, pairs), whole(None, EDGES, pairs), atol=1e-6)
    assert score_links(ours, part, h, pairs[:, :0]).shape == (0,)
    with count_traffic() as traffic:
        adam = torch.optim.Adam(ours.parameters())
        first = link_step(ours, part, None, pairs, pairs.flip(0), adam, clip_gradient=1.0)
    assert traffic.total == 0
    for _ in range(60):
        last = link_step(ours, part, None, pairs[:, :1], pairs[:, 1:], adam)
    assert last < first


def test_nodes_that_are_not_in_the_graph_and_models_of_another_are_refused():
    part = partition_graph(EDGES, 4)
    with pytest.raises(ShapeError, match="nodes from 0 to 3"):
        fetch_nodes(torch.zeros(4, 2), torch.tensor([4]), part)
    with pytest.raises(ShapeError, match="4 rows"):
        fetch_nodes(torch.zeros(3, 2), torch.tensor([1]), part)
    with pytest.raises(ShapeError, match="embedding of 4 nodes"):
        partition_model(LinkModel(LinkGNN(6, 6, 1), LinkPredictor(6, 6, 1), num_nodes=5), part)


def test_vectors_that_are_not_trained_stay_so():
    whole = LinkModel(LinkGNN(6, 6, 1), LinkPredictor(6, 6, 1), num_nodes=4)
    whole.embedding.requires_grad_(False)
    part = partition_graph(EDGES, 4)
    ours = partition_model(whole, part)
    adam = torch.optim.Adam(ours.parameters())
    link_step(ours, part, None, EDGES[:, :1], EDGES[:, 1:2], adam, clip_gradient=1.0)
    assert torch.equal(ours.embedding.weight, whole.embedding.weight)
