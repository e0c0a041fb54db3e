import asyncio
import copy
import pickle
import threading
import types
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch_geometric.data import Batch, Data
from torch_geometric.nn import GAT, GCN, GCNConv, GPSConv, GroupAddRev, SAGEConv

import lrga
from lrga.errors import BatchContextError, BatchError, DTypeError, OptionError, UnsupportedError
from lrga.nn import context
from tests.helpers.models import model_of
from tests.helpers.processes import run_text

D = 6
X, EDGES = torch.randn(5, D), torch.tensor([[0, 1, 2, 3], [1, 0, 3, 4]])
BATCH, OTHER = torch.tensor([0, 0, 1, 1, 1]), torch.tensor([0, 0, 0, 1, 1])


def augmented(**options):
    return lrga.augment(GCN(D, 8, 2, 3), rank=4, init="paper", **options).eval()


def test_contexts_nest_and_end():
    assert context.current() is None
    with lrga.batch_context(torch.tensor([0, 1])):
        with lrga.batch_context(None):
            assert context.current().batch is None
        assert context.current().batch.tolist() == [0, 1]
    assert context.current() is None
    with pytest.raises(RuntimeError, match="inside"), lrga.batch_context(None):
        raise RuntimeError("inside")
    assert context.current() is None


def test_a_context_belongs_to_its_thread():
    seen = []
    with lrga.batch_context(None):
        thread = threading.Thread(target=lambda: seen.append(context.current()))
        thread.start()
        thread.join()
    assert seen == [None]


def test_a_pyg_batch_may_be_given_whole():
    data = Data(x=torch.ones(2, 1), edge_index=torch.empty(2, 0, dtype=torch.int64))
    with lrga.batch_context(Batch.from_data_list([data, data])):
        assert context.current().batch.tolist() == [0, 0, 1, 1]
        assert context.current().num_graphs == 2
    with lrga.batch_context(data):
        assert context.current().batch is None


def test_anything_but_a_batch_of_these_nodes_is_refused():
    with lrga.batch_context(torch.tensor([0, 1])), pytest.raises(BatchError, match="2 nodes.*3 nodes.*pooling"):
        context.current().segments(torch.ones(3, 1))
    with pytest.raises(DTypeError, match="list"):
        lrga.batch_context([0, 0, 1])
    with lrga.batch_context(torch.tensor(0)), pytest.raises(BatchError, match=r"batch of shape \[3\].*shape \[\]"):
        context.current().segments(torch.ones(3, 1))


def test_the_layout_is_made_once_for_all_layers():
    assignment = context.Assignment(torch.tensor([0, 1, 1]))
    x = torch.ones(3, 1)
    assert assignment.segments(x) is assignment.segments(x)


class Broken(nn.Module):
    """A network that fails in its middle."""

    def __init__(self, error):
        super().__init__()
        self.conv, self.error = GCNConv(D, D), error

    def forward(self, x, edge_index, batch=None):
        self.conv(x, edge_index)
        raise self.error


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(1), GeneratorExit(), RuntimeError("own")])
def test_whatever_ends_a_call_the_next_model_is_not_given_its_batch(error):
    with pytest.raises(type(error)):
        lrga.augment(Broken(error), rank=3)(X, EDGES, batch=BATCH)
    assert context.current() is None
    with pytest.raises(BatchContextError):
        augmented()(X, EDGES)


TRACES = {
    "compile": lambda model: torch.compile(model, fullgraph=True, backend="eager")(X, EDGES, batch=BATCH),
    "export": lambda model: torch.export.export(model, (X, EDGES), {"batch": BATCH}),
    "export strictly": lambda model: torch.export.export(model, (X, EDGES), {"batch": BATCH}, strict=True),
}


@pytest.mark.parametrize("trace", TRACES.values(), ids=TRACES)
def test_a_failed_trace_leaves_no_batch_behind(trace):
    torch._dynamo.reset()
    with pytest.raises(Exception):  # noqa: B017, each tool has its own
        trace(lrga.augment(Broken(ValueError("own")), rank=3))
    assert context.current() is None


class Layers(nn.Module):
    """A network whose layers are computed again in the backward pass."""

    def __init__(self, **options):
        super().__init__()
        self.first, self.second, self.options = GCNConv(D, D), GCNConv(D, D), options

    def forward(self, x, edge_index, batch):
        if not self.options:
            return self.second(self.first(x, edge_index).relu(), edge_index)
        x = checkpoint(self.first, x, edge_index, **self.options).relu()
        return checkpoint(self.second, x, edge_index, **self.options)


def checkpointed_pair(*, reentrant=False):
    plain = lrga.augment(Layers(), rank=4, init="paper")
    model = lrga.augment(Layers(use_reentrant=reentrant), rank=4)
    model.load_state_dict(plain.state_dict())
    return plain, model


def gradients(model, loss):
    return torch.autograd.grad(loss, list(model.parameters()))


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize(
    "around", ["nothing", None, OTHER]
)  # None or a vector: of something else that runs at the time
def test_layers_computed_again_in_the_backward_pass_take_the_batch_of_the_forward_pass(around, reentrant):
    plain, model = checkpointed_pair(reentrant=reentrant)
    expected = gradients(plain, plain(X, EDGES, BATCH).square().sum())
    loss = model(X.clone().requires_grad_(), EDGES, BATCH).square().sum()
    with nullcontext() if isinstance(around, str) else lrga.batch_context(around):
        loss.backward()
    torch.testing.assert_close([p.grad for p in model.parameters()], list(expected))


def test_two_batches_may_be_under_way_at_once_unless_they_share_their_edges():
    plain, model = checkpointed_pair()
    edges = EDGES.clone()
    expected = gradients(plain, (plain(X, EDGES, BATCH) * plain(X, edges, OTHER)).sum())
    found = gradients(model, (model(X, EDGES, BATCH) * model(X, edges, OTHER)).sum())
    torch.testing.assert_close(found, expected)
    _, model = checkpointed_pair()
    edges = EDGES.clone()
    loss = (model(X, edges, BATCH) * model(X, edges, OTHER)).sum()
    with pytest.raises(BatchContextError, match=r"clone\(\)"):
        loss.backward()
    edges = EDGES.clone()
    loss = (model(X, edges, BATCH) * model(X, edges, BATCH.clone())).sum()  # equal ones are one
    loss.backward()


def test_edges_that_are_not_those_of_the_forward_pass_are_refused():
    class Copying(Layers):
        def forward(self, x, edge_index, batch):
            return checkpoint(lambda y: self.first(y, edge_index.clone()), x, use_reentrant=False)

    model = lrga.augment(Copying(), rank=4)
    loss = model(X.clone().requires_grad_(), EDGES, BATCH).sum()
    with pytest.raises(BatchContextError, match="recompute_layers"):
        loss.backward()


@pytest.mark.parametrize("disable", [False, True])
def test_reversible_layers_of_pyg_name_the_option_that_turns_them_off(disable):
    group = GroupAddRev(SAGEConv(D // 2, D // 2), num_groups=2, disable=disable)
    model = lrga.augment(model_of(lambda self, x, edge_index, batch: self.group(x, edge_index), group=group), rank=2)
    loss = model(X.clone().requires_grad_() * 1, EDGES, BATCH).sum()
    with nullcontext() if disable else pytest.raises(BatchContextError, match="disable=True"):
        loss.backward()


@pytest.mark.parametrize(("options", "given"), [({}, {"batch": BATCH}), ({"single_graph": True}, {})])
def test_recomputed_layers_take_the_batch_of_the_forward_pass_or_are_for_one_graph(options, given):
    model = augmented(**options)
    expected = gradients(model, model(X, EDGES.clone(), **given).square().sum())
    model = lrga.nn.recompute_layers(model)
    torch.testing.assert_close(gradients(model, model(X, EDGES.clone(), **given).square().sum()), expected)


def test_another_model_may_use_the_same_edges_with_another_batch():
    edges = EDGES.clone()
    augmented()(X, edges, batch=None)
    plain, model = checkpointed_pair()
    expected = gradients(plain, plain(X, edges, BATCH).square().sum())
    torch.testing.assert_close(gradients(model, model(X, edges, BATCH).square().sum()), expected)


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_whole_model_can_be_computed_again(reentrant):
    model = augmented()
    x = X.clone().requires_grad_()
    expected = gradients(model, model(x, EDGES, batch=BATCH).square().sum())
    model.zero_grad()
    out = checkpoint(lambda *inputs: model(*inputs, batch=BATCH), x, EDGES, use_reentrant=reentrant)
    out.square().sum().backward()
    torch.testing.assert_close([p.grad for p in model.parameters()], list(expected))


# lrga.provide_batch


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([lrga.LRGAConv(GCNConv(D, D), D, D, rank=3) for _ in range(2)])

    def forward(self, x, edge_index, batch=None):
        for layer in self.layers:
            x = layer(x, edge_index)
        return x


class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.head = Encoder(), nn.Linear(D, 2)

    def forward(self, graphs):
        return self.head(self.encoder(graphs["x"], graphs["edge_index"], graphs["batch"]))


def test_a_model_of_layers_can_be_given_the_batch_once_and_its_class_looks_as_before():
    model = Encoder().eval()
    with pytest.raises(BatchContextError):
        model(X, EDGES, BATCH)
    keys = list(model.state_dict())
    assert lrga.provide_batch(model) is model
    assert isinstance(model, Encoder)
    assert list(model.state_dict()) == keys
    with lrga.batch_context(BATCH):
        expected = Encoder.forward(model, X, EDGES)
    torch.testing.assert_close(model(X, EDGES, BATCH), expected)
    torch.testing.assert_close(model(X, EDGES, batch=BATCH), expected)
    with pytest.raises(BatchContextError):
        model(X, EDGES)
    assert model(X, EDGES, batch=None).shape == (5, D)
    model = lrga.provide_batch(Encoder())
    assert type(model).__name__ == "Encoder"
    assert "class Encoder" not in repr(model)
    assert repr(model).startswith("Encoder(")


def test_the_batch_is_taken_from_whichever_module_is_called_with_one():
    model = lrga.provide_batch(Outer()).eval()
    expected = model.head(model.encoder(X, EDGES, BATCH))
    torch.testing.assert_close(model({"x": X, "edge_index": EDGES, "batch": BATCH}), expected)


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m)), lrga.provide_batch])
def test_copies_are_given_the_batch_as_well(duplicate):
    model = lrga.provide_batch(Outer()).eval()
    graphs = {"x": X, "edge_index": EDGES, "batch": BATCH}
    torch.testing.assert_close(duplicate(model)(graphs), model(graphs))


def test_models_without_such_layers_and_scripted_ones_are_refused():
    with pytest.raises(OptionError, match="LRGAConv"):
        lrga.provide_batch(GAT(D, 8, 2, 3))
    with pytest.raises(DTypeError, match="not its class"):
        lrga.provide_batch(Encoder)
    layer = lrga.LRGAConv(GCNConv(D, D), D, D, rank=2)
    assert lrga.provide_batch(layer)(X, EDGES, batch=BATCH).shape == (5, D)
    traced = torch.jit.trace(nn.Linear(2, 2), torch.ones(1, 2))
    with pytest.raises(UnsupportedError, match="TorchScript"):
        context.share_batch(traced)


def test_a_batch_of_several_graphs_without_a_batch_vector_is_refused():
    """PyG makes none where it does not know the number of nodes, as in pairs of graphs."""

    class Pair(Data):
        def __inc__(self, key, value, *args):
            return self.x_s.size(0) if key == "edge_index_s" else super().__inc__(key, value, *args)

    def network():
        model = model_of(lambda self, data: self.conv(data.x_s, data.edge_index_s), conv=GCNConv(D, D))
        return lrga.augment(model, rank=3)

    data = Batch.from_data_list([Pair(x_s=X, edge_index_s=EDGES)] * 2, follow_batch=["x_s"])
    assert data.batch is None
    with pytest.raises(BatchContextError, match="follow_batch"):
        network()(data)
    with pytest.raises(BatchContextError, match="follow_batch"):
        lrga.batch_context(data)
    with lrga.batch_context(data.x_s_batch):
        network().conv(data.x_s, data.edge_index_s)


def test_a_batch_vector_counts_more_than_plain_data():
    model = model_of(lambda self, data, batch=None: self.conv(data.x, data.edge_index), conv=GCNConv(D, D))
    model = lrga.augment(model, rank=16, init="paper").eval()
    data = Data(x=X, edge_index=EDGES)
    with lrga.batch_context(BATCH):
        expected = model.conv(X, EDGES)
        torch.testing.assert_close(model(data), expected)
    torch.testing.assert_close(model(data, BATCH), expected)
    torch.testing.assert_close(model(data, batch=BATCH), expected)
    assert not torch.allclose(model(data), expected)  # one graph


def test_layers_within_a_layer_are_told():
    wrapped = lrga.provide_batch(lrga.LRGAConv(Encoder(), D, D, rank=2))
    assert wrapped(X, EDGES, batch=BATCH).shape == (5, D)


def test_containers_of_pyg_are_told_in_a_script_and_after_pickling(tmp_path):
    """In a script PyG gives each Sequential a forward of its own."""
    script = """
import pickle, torch, lrga
from torch_geometric.nn import GCNConv, Sequential
x, edges, batch = torch.randn(5, 6), torch.tensor([[0, 1, 2, 3], [1, 0, 3, 4]]), torch.tensor([0, 0, 1, 1, 1])
layers = [(GCNConv(6, 8), "x, edge_index -> x"), torch.nn.Linear(8, 3)]
model = lrga.augment(Sequential("x, edge_index, batch", layers), rank=4, init="paper")
content = pickle.dumps(model)
Sequential("x, edge_index, batch", [(GCNConv(6, 5), "x, edge_index -> x")])
out = model(x, edges, batch)
assert torch.equal(model(x, edges, batch=batch), out)
assert torch.equal(pickle.loads(content)(x, edges, batch), out)
with lrga.batch_context(batch):
    assert torch.equal(model(x, edges, batch), out)
"""
    ended, _, errors = run_text(script, tmp_path)
    assert ended == 0, errors


def test_a_model_with_a_way_of_loading_of_its_own_loads():
    class Own(nn.ModuleDict):
        def load_state_dict(self, state_dict, strict=True):
            return super().load_state_dict(state_dict, strict)

    model = lrga.augment(Own({"conv": GCNConv(D, D)}), rank=3)
    model.load_state_dict(model.state_dict())


def test_the_innermost_call_that_tells_counts():
    model = lrga.provide_batch(GPSConv(D, lrga.LRGAConv(GCNConv(D, D), D, D, rank=3), attn_type="multihead")).eval()
    expected = model(X, EDGES, BATCH)
    with lrga.batch_context(OTHER):
        torch.testing.assert_close(model(X, EDGES, BATCH), expected)
        assert context.current().batch is OTHER


def test_a_batch_that_a_hook_of_the_model_sets_or_changes_is_used():
    model = augmented()
    expected = model(X, EDGES, batch=BATCH)
    model.register_forward_pre_hook(lambda _, args, kwargs: (args, kwargs | {"batch": BATCH}), with_kwargs=True)
    torch.testing.assert_close(model(X, EDGES), expected)
    torch.testing.assert_close(model(X, EDGES, batch=OTHER), expected)


def test_forward_called_directly_or_replaced_on_the_object_is_told():
    model = augmented()
    expected = model(X, EDGES, batch=BATCH)
    torch.testing.assert_close(model.forward(X, EDGES, batch=BATCH), expected)
    inner = nn.Module()
    inner.gcn = model
    inner.forward = types.MethodType(lambda self, x, batch: self.gcn(x, EDGES), inner)
    told = lrga.provide_batch(inner)
    copied = copy.deepcopy(told)
    torch.testing.assert_close(told(X, BATCH), expected)
    told.gcn = None
    torch.testing.assert_close(copied(X, BATCH), expected)


def test_threads_that_share_a_model_have_a_batch_each():
    model = augmented()
    expected = {id(batch): model(X, EDGES, batch=batch) for batch in (BATCH, OTHER)}
    wrong = []

    def work(batch):
        for _ in range(20):
            if not torch.allclose(model(X, EDGES, batch=batch), expected[id(batch)]):
                wrong.append(batch)

    threads = [threading.Thread(target=work, args=(batch,)) for batch in (BATCH, OTHER)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_context_entered_for_inference_serves_training_as_well():
    model = augmented().train()
    with lrga.batch_context(BATCH):
        with torch.inference_mode():
            model(X, EDGES)
        model(X, EDGES).sum().backward()
    assert model.convs[0].attention.project.weight.grad.abs().sum() > 0


def test_tasks_that_wait_for_each_other_have_a_batch_each():
    model, found = augmented(), {}

    async def answer(batch, seconds):
        with lrga.batch_context(batch):
            await asyncio.sleep(seconds)
            found[id(batch)] = model(X, EDGES)

    async def main():
        await asyncio.gather(answer(BATCH, 0.01), answer(OTHER, 0.03))

    with ThreadPoolExecutor(1) as pool:  # in this thread a browser's loop may run
        pool.submit(asyncio.run, main()).result()
    for batch in (BATCH, OTHER):
        torch.testing.assert_close(found[id(batch)], model(X, EDGES, batch=batch))
    assert context.current() is None
    assert context._traced.assignment is None  # which traced code would read
