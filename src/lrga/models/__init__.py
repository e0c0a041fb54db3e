"""Complete networks: the paper's networks by name, and their parts."""

from lrga.models.budget import count_parameters, solve_width
from lrga.models.embeddings import DeepWalk, MatrixFactorization, Node2Vec, build_embedding
from lrga.models.gnn import GNN
from lrga.models.link import LinkGNN, LinkModel, LinkPredictor, build_link_model
from lrga.models.zoo import build_model

__all__ = [
    "GNN",
    "DeepWalk",
    "LinkGNN",
    "LinkModel",
    "LinkPredictor",
    "MatrixFactorization",
    "Node2Vec",
    "build_embedding",
    "build_link_model",
    "build_model",
    "count_parameters",
    "solve_width",
]
