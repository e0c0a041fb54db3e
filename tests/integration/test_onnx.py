"""Networks in ONNX: onnxruntime computes what PyTorch does, for any number of nodes and edges."""

import pytest
import torch
from torch_geometric.nn import GCN

import lrga
from tests.helpers.models import model_of

WIDTH, GRAPHS = 8, 3


def of_batch(model, count):
    """A model as a function of tensors: the number of graphs is fixed, that of nodes and edges is not."""

    def forward(self, x, edge_index, batch):
        return self.model(x, edge_index, batch=batch, **{count: GRAPHS})

    return model_of(forward, model=model)


def of_sizes(*sizes, shuffled=False):
    batch = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
    n = len(batch)
    return torch.randn(n, WIDTH), torch.randint(0, n, (2, 3 * n)), batch[torch.randperm(n)] if shuffled else batch


MODELS = {
    "plain": lambda: of_batch(lrga.GNN(WIDTH, 12, 3, 1, conv="gcn", task="graph"), "num_graphs"),
    "augmented": lambda: of_batch(lrga.GNN(WIDTH, 12, 3, 1, conv="gcn", rank=4, task="graph"), "num_graphs"),
    "augmented model of PyG": lambda: of_batch(lrga.augment(GCN(WIDTH, 12, 1, 3), 4, init="paper"), "batch_size"),
}


@torch.no_grad()
@pytest.mark.filterwarnings("ignore")  # of the exporter
@pytest.mark.parametrize("name", [pytest.param("plain", marks=pytest.mark.slow), *list(MODELS)[1:]])
def test_a_network_in_onnx_computes_the_same_at_other_sizes(name):
    runtime = pytest.importorskip("onnxruntime", reason="needs onnxruntime: pip install 'lrga[onnx]'")
    pytest.importorskip("onnxscript", reason="needs onnxscript: pip install 'lrga[onnx]'")
    torch.manual_seed(0)
    model, names = MODELS[name]().eval(), ["x", "edge_index", "batch"]
    nodes, edges = torch.export.Dim("nodes", min=2), torch.export.Dim("edges", min=2)
    shapes = ({0: nodes}, {1: edges}, {0: nodes})
    program = torch.onnx.export(
        model, of_sizes(3, 5, 7), dynamo=True, dynamic_shapes=shapes, input_names=names, verbose=False
    )
    session = runtime.InferenceSession(program.model_proto.SerializeToString())
    for inputs in (of_sizes(3, 5, 7), of_sizes(40, 1, 80), of_sizes(9, 35, 2, shuffled=True)):
        (found,) = session.run(None, {key: value.numpy() for key, value in zip(names, inputs, strict=True)})
        torch.testing.assert_close(torch.from_numpy(found), model(*inputs), rtol=1e-4, atol=1e-5)
