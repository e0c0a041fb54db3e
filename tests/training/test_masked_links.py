"""Link prediction in which a batch's own edges carry no messages, over lists of edges and over a matrix."""

from dataclasses import replace

import pytest
import torch
from link_graphs import communities, config_of, link_trainer

from lrga.errors import OptionError, UnsupportedError
from lrga.ops.neighbors.edges import EdgeLayout
from lrga.tasks.task import LinkTask
from lrga.training.presets import make_config
from lrga.training.problems.architecture import resolve_link
from lrga.training.problems.links import LinkProblem, Messages

LINEAR = {"linear_layers": True, "input_residual": 0.1, "predictor_residual": True, "predictor_layers": 3}


def graph(*, undirected=True, weighted=False):
    data = communities()
    edge = torch.cat([data.edge, data.edge[:4]])  # some twice
    weight = torch.rand(edge.size(0)) + 0.5 if weighted else None
    splits = {**data.splits, "train": replace(data.splits["train"], edge=edge, weight=weight)}
    return replace(data, edge=edge, edge_weight=weight, splits=splits, undirected=undirected)


def encoded(data, messages, **options):
    torch.manual_seed(0)
    model = resolve_link(config_of(**options), data).build().double().eval()
    if isinstance(messages.edges, torch.Tensor):
        messages = replace(messages, edges=messages.edges.double())
    return messages.encode(model)


@pytest.mark.parametrize("lrga", [False, True])
@pytest.mark.parametrize("options", [{}, LINEAR])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_matrix_gives_the_features_and_gradients_of_the_list_of_edges(lrga, options, weighted):
    data = graph(weighted=weighted)
    found = []
    for dense in (False, True):
        messages = Messages.of(data, conv="gcn", weighted=True, dense=dense)
        assert isinstance(messages.edges, EdgeLayout) != dense
        torch.manual_seed(0)
        model = resolve_link(config_of(lrga=lrga, **options), data).build().eval()
        h = messages.encode(model)
        found.append([h, *torch.autograd.grad(h.square().sum(), list(model.gnn.parameters()))])
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("undirected", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_masked_messages_are_those_of_the_graph_without_these_edges(dense, undirected, weighted):
    data = graph(undirected=undirected, weighted=weighted)
    hidden = data.edge[2:9]
    absent = torch.tensor([[data.num_nodes - 1, data.num_nodes - 1]])  # no edge: hides nothing
    pairs = torch.cat([hidden, *([hidden.flip(1)] if undirected else []), absent]).t()
    masked = Messages.of(data, conv="gcn", weighted=True, dense=dense).without(pairs)
    gone = {tuple(pair) for pair in hidden.tolist()}
    kept = torch.tensor([tuple(pair) not in gone for pair in data.edge.tolist()])
    rest = replace(data, edge=data.edge[kept], edge_weight=data.edge_weight[kept] if weighted else None)
    expected = Messages.of(rest, conv="gcn", weighted=True, dense=False)
    torch.testing.assert_close(encoded(data, masked), encoded(data, expected), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("dense", [False, True])
def test_a_graph_of_loops_alone_has_nothing_to_mask(dense):
    data = replace(communities(), edge=torch.tensor([[1, 1], [2, 2]]))
    messages = Messages.of(data, conv="gcn", weighted=True, dense=dense)
    masked = messages.without(torch.tensor([[1], [1]]))
    torch.testing.assert_close(encoded(data, masked), encoded(data, messages))


def test_a_masked_step_does_not_read_its_own_edges():
    torch.manual_seed(3)
    trainer = link_trainer(mask_batch=True, dropout=0.0)
    problem = trainer.problem
    problem.model.eval()
    edges, negative = next(problem.epoch_batches(0, 0))
    loss = problem.step_loss((edges, negative), 0, 0).value
    both = torch.cat([edges, edges.flip(0)], dim=1)
    source, target = problem.messages.edges.edge_index
    n = problem.data.num_nodes
    kept = ~torch.isin(source * n + target, both[0] * n + both[1])
    assert 0 < int(kept.sum()) < kept.numel()
    h = problem.model.encode(None, torch.stack([source[kept], target[kept]]))
    scores = [problem.model.score(h, pairs) for pairs in (edges, negative)]
    torch.testing.assert_close(loss, problem.task.loss_of(*scores))


def test_an_epoch_by_the_recipe_s_network_lowers_the_loss_and_is_captured_alike():
    options = {"mask_batch": True, "orthogonal": True, "max_epochs": 8, "dropout": 0.0, "lr": 0.01, **LINEAR}
    plain, captured = (link_trainer(engine=engine, **options) for engine in ("plain", "captured"))
    for trainer in (plain, captured):
        trainer.fit()
    assert captured.choice == "captured"
    assert plain.last.train_loss == pytest.approx(captured.last.train_loss, rel=1e-5)
    assert plain.last.train_loss < 1.2  # 2 log 2 at the beginning


def test_vectors_begin_orthogonal():
    table = link_trainer(orthogonal=True).model.embedding.weight
    torch.testing.assert_close(table.t() @ table, torch.eye(table.size(1)), rtol=1e-4, atol=1e-4)


def test_what_cannot_be_masked_is_refused():
    for model in ("graphsage", "mf"):  # before anything is read
        with pytest.raises(OptionError, match=f"mask_batch: link prediction with {model}"):
            config_of(model=model, mask_batch=True)
    assert not make_config("ogbl-ddi", model="graphsage", recipe="modern").link.mask_batch
    read = config_of(model="graphsage")
    read = replace(read, link=replace(read.link, mask_batch=True))  # as from a file
    data = communities()
    with pytest.raises(UnsupportedError, match="graphsage"):
        LinkProblem(
            resolve_link(read, data).build(), LinkTask(metric="auc"), data, read.optimizer, read.link, conv="graphsage"
        )
    data = graph(weighted=True)
    looped = replace(
        data,
        edge=torch.cat([data.edge, torch.tensor([[1, 1]])]),
        edge_weight=torch.cat([data.edge_weight, torch.ones(1)]),
    )
    with pytest.raises(UnsupportedError, match="loops"):
        link_trainer(looped, mask_batch=True)


def test_options_of_links_that_contradict_each_other_are_refused():
    with pytest.raises(OptionError, match="residual"):
        link_trainer(input_residual=0.1)
    with pytest.raises(OptionError, match=r"linear_layers.*input_residual"):
        link_trainer(input_residual=0.1)
    with pytest.raises(OptionError, match="--set predictor_residual: "):
        config_of(predictor_layers=1, predictor_residual=True)
    with pytest.raises(OptionError, match="orthogonal"):
        link_trainer(communities(features=5), orthogonal=True)
    with pytest.raises(OptionError, match="skip"):
        make_config("graph.csv", data_options={"task": "link"}, linear_layers=True, skip=True)
