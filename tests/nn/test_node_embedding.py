import torch
from torch import nn

from lrga.models.link import LinkGNN, LinkModel, LinkPredictor
from lrga.nn.node_embedding import NodeEmbedding


def test_it_is_torchs_embedding_under_a_name_of_its_own():
    torch.manual_seed(0)
    ours = NodeEmbedding(5, 3)
    theirs = nn.Embedding(5, 3)
    theirs.load_state_dict(ours.state_dict())
    assert torch.equal(ours(torch.tensor([4, 0])), theirs.weight[[4, 0]])


def test_a_network_without_node_features_has_one():
    model = LinkModel(LinkGNN(8, 8, 1), LinkPredictor(8, 8, 1), num_nodes=6)
    assert isinstance(model.embedding, NodeEmbedding)
