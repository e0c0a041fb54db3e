"""GraphGym builds and trains networks with the registered layer and encoders."""

import importlib
import sys

import pytest
import torch
from torch_geometric.data import Batch, Data

from lrga.errors import MissingDependencyError, OptionError

NEEDS = "needs yacs and lightning: pip install 'lrga[graphgym]'"
CONFIG = """
dataset:
  task: {task}
  task_type: regression
  node_encoder: true
  node_encoder_name: {encoder}
  node_encoder_bn: true
  edge_encoder: true
  edge_encoder_name: lrga_embedding
  edge_encoder_bn: false
  edge_dim: 12
gnn:
  layer_type: lrga
  layers_pre_mp: 1
  layers_mp: 2
  dim_inner: 12
  head: {task}
lrga:
  layer_type: {layer}
  rank: 4
  heads: 2
  node_channels: {channels}
  edge_channels: [3]
  encoding: {encoding}
model:
  loss_fun: mse
"""


@pytest.fixture
def configured(tmp_path):
    """``configured(**options)``: GraphGym's configuration read from a file, the defaults back afterwards."""
    pytest.importorskip("yacs", reason=NEEDS)
    pytest.importorskip("lightning", reason=NEEDS)
    from torch_geometric.graphgym.config import cfg, set_cfg

    import lrga.graphgym  # noqa: F401

    def read(**options):
        set_cfg(cfg)
        base = {"task": "graph", "encoder": "lrga_linear", "layer": "gcnconv", "channels": [], "encoding": '""'}
        path = tmp_path / "config.yaml"
        path.write_text(CONFIG.format(**(base | options)))
        cfg.merge_from_file(str(path))
        return cfg

    yield read
    set_cfg(cfg)


def graphs(integers=False):
    made = []
    for nodes in (4, 6, 1, 9):
        x = torch.randint(0, 3, (nodes, 2)) if integers else torch.randn(nodes, 5)
        ring = torch.stack([torch.arange(nodes), torch.arange(nodes).roll(1)])
        edge_index = torch.cat([ring, ring.flip(0)], dim=1)
        made.append(Data(x=x, edge_index=edge_index, edge_attr=torch.randint(0, 3, (2 * nodes, 1)), y=torch.rand(1)))
    return made


@pytest.mark.parametrize(
    ("options", "integers"),
    [
        ({}, False),
        ({"layer": "generaledgeconv", "encoding": "rwse:3"}, False),
        ({"layer": "ginconv", "encoder": "lrga_embeddings", "channels": [3, 3], "encoding": "lappe:2"}, True),
    ],
    ids=["linear", "edges and encodings", "categories"],
)
@pytest.mark.filterwarnings("ignore:.*LeafSpec.*:FutureWarning")
def test_a_network_of_a_configuration_learns(configured, options, integers):
    cfg = configured(**options)
    cfg.share.dim_in = 5
    from torch_geometric.graphgym.loss import compute_loss
    from torch_geometric.graphgym.model_builder import create_model

    torch.manual_seed(0)
    model, losses = create_model(to_device=False, dim_out=1), []
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    data = graphs(integers)
    for _ in range(12):
        prediction, true = model(Batch.from_data_list(data))
        loss, _ = compute_loss(prediction, true)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 2
    assert all(layer.layer.attention.project.weight.grad.abs().max() > 0 for layer in model.mp.children())


def test_graphs_of_a_batch_do_not_see_each_other(configured):
    configured(task="node").share.dim_in = 5
    from torch_geometric.graphgym.model_builder import create_model

    data = graphs()
    for graph in data:
        graph.y = torch.rand(graph.num_nodes)
    model = create_model(to_device=False, dim_out=1).eval()
    together, _ = model(Batch.from_data_list(data))
    alone = torch.cat([model(Batch.from_data_list([graph]))[0] for graph in data])
    torch.testing.assert_close(together, alone, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"layer": "lrga"}, "layer_type among .*gcnconv.*'lrga'"),
        ({"layer": "nosuchconv"}, "nosuchconv"),
        ({"encoder": "lrga_embedding"}, "node_channels, for the encoder lrga_embedding"),
        ({"channels": [3, 4]}, "node_channels, for the encoder lrga_linear"),
    ],
)
def test_a_wrong_configuration_is_refused(configured, options, says):
    configured(**options)
    from torch_geometric.graphgym.model_builder import create_model

    with pytest.raises(OptionError, match=says):
        create_model(to_device=False, dim_in=5, dim_out=1)


def test_what_is_missing_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "yacs", None)
    monkeypatch.delitem(sys.modules, "lrga.graphgym", raising=False)
    with pytest.raises(MissingDependencyError, match=r"yacs.*pip install 'lrga\[graphgym\]'"):
        importlib.import_module("lrga.graphgym")
