import copy
import subprocess
import sys

import pytest
import torch
from torch import nn

import lrga
from lrga.data import load
from lrga.errors import OptionError
from lrga.io.limits import parse_bytes, show_bytes
from lrga.kernels.edges import EdgeLayout
from lrga.nn.recompute import recompute_layers
from lrga.tasks import task_of
from lrga.training import Listener, OptimizerConfig, Trainer
from lrga.training.memory import (
    LiveBytes,
    fit_memory,
    keep_to_limit,
    plan_limit,
    plan_memory,
    return_freed_memory,
)


@pytest.fixture(scope="module")
def splits(tmp_path_factory):
    return load("CLUSTER", tmp_path_factory.mktemp("data"), sizes=(12, 2, 2))


def test_live_bytes_are_those_of_the_tensors_alive():
    with LiveBytes() as live:
        a = torch.zeros(1000)
        b = a + 1
        view = b.view(10, 100)
        assert live.now == 8000
        del a
        assert live.now == 4000
        del b, view
    assert (live.now, live.peak) == (0, 8000)


@pytest.mark.parametrize("conv", ["gcn", "gatedgcn"])
@pytest.mark.parametrize("recompute", [False, True])
def test_the_fit_foretells_a_larger_step(conv, recompute):
    model = lrga.GNN(4, 24, 3, 6, conv=conv, rank=8)
    fit = fit_memory(model, recompute=recompute)
    nodes, edges = 9000, 50_000
    layout, _ = EdgeLayout.from_edge_index(torch.randint(nodes, (2, edges)), nodes)
    step = recompute_layers(copy.deepcopy(model)) if recompute else model
    with LiveBytes() as live:
        step(torch.ones(nodes, 4), layout).square().mean().backward()
    assert live.peak < fit.of(nodes, edges) < 1.8 * live.peak


def test_measuring_leaves_model_and_random_state_alone():
    model = lrga.GNN(4, 8, 2, 2, rank=3)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    fit_memory(model)
    assert torch.equal(torch.rand(3), expected)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_what_fits_is_left_alone_what_fits_by_recomputing_is_recomputed_the_rest_is_refused(splits):
    model = lrga.GNN(7, 64, 6, 8, rank=30, encoder="embedding")
    return_freed_memory()
    for _ in range(2):  # what the first steps of a process set up stays
        plan_memory(model, splits, batch_size=8, limit=10**12)
    roomy = plan_memory(model, splits, batch_size=8, limit=10**12)
    assert not roomy.recompute
    assert "nothing to do" in str(roomy)
    tight = plan_memory(model, splits, batch_size=8, limit=roomy.plain - 1)
    assert tight.recompute
    assert tight.recomputed < tight.plain
    assert str(tight).startswith("activation checkpointing to fit into")
    assert plan_memory(model, splits, batch_size=8, limit=10**12, ranks=2).nodes < roomy.nodes
    with pytest.raises(OptionError, match="--batch-size"):
        plan_memory(model, splits, batch_size=8, limit=tight.standing)
    with pytest.raises(OptionError, match="data, weights and Python alone take"):
        plan_memory(model, splits, batch_size=8, limit=10**6)
    with pytest.raises(OptionError, match=r"lrga\.GNN"):
        plan_memory(nn.Linear(2, 2), splits, batch_size=8, limit=10**12)


def test_what_the_first_steps_of_a_process_leave_behind_is_counted():
    """In a process of its own: in this one the libraries have long been set up."""
    script = """
import torch
import lrga
from lrga.data import PackedGraphs
from lrga.training.memory import peak_of_process, plan_memory, return_freed_memory
from torch_geometric.data import Data
torch.set_num_threads(1)
return_freed_memory()
edges = torch.randint(1000, (2, 4000))
graphs = PackedGraphs.from_data_list([Data(x=torch.rand(1000, 7), edge_index=edges, y=torch.zeros(1))], y_level="graph")
model = lrga.GNN(7, 64, 6, 8, rank=30)
plan = plan_memory(model, {"train": graphs}, batch_size=1, limit=10**12)
now, _ = peak_of_process(torch.device("cpu"))
print(plan.standing - now)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=100, check=True)
    assert int(done.stdout) > -1_000_000


def test_the_memory_of_the_process_that_started_this_one_is_not_counted():
    """getrusage counts it: training begun from a large process would be refused for what that one holds."""
    ask = "import torch; from lrga.training.memory import peak_of_process as p; print(*p(torch.device('cpu')))"
    parent = f"import subprocess, sys; held = b'x' * 1_200_000_000; subprocess.run([sys.executable, '-c', {ask!r}])"
    if not sys.platform.startswith("linux"):
        pytest.skip("other systems do not tell the memory of a process apart")
    done = subprocess.run([sys.executable, "-c", parent], capture_output=True, text=True, timeout=100, check=True)
    now, most = map(int, done.stdout.split())
    assert 100_000_000 < now <= most < 1_000_000_000


def test_a_trainer_is_told_and_trains_as_before(splits, monkeypatch):
    told = []

    class Ear(Listener):
        def noted(self, text):
            told.append(text)

    # Small batches hide behind the memory of the process: it is left out here.
    monkeypatch.setattr("lrga.training.memory._standing", lambda splits, before: 0)
    losses = []
    for limited in (False, True):
        torch.manual_seed(0)
        model = lrga.GNN(7, 32, 6, 6, rank=8, encoder="embedding")
        trainer = Trainer(
            model, task_of("CLUSTER"), splits, OptimizerConfig(batch_size=4, max_epochs=1), listener=Ear()
        )
        if limited:
            need = plan_memory(model, splits, batch_size=4, limit=10**12).plain
            keep_to_limit(trainer, plan_limit(trainer, need - 1))
            assert "forward" in vars(model.layers[0])
        trainer.fit()
        losses.append(trainer.last.val_loss)
    assert losses[0] == pytest.approx(losses[1], abs=1e-6)
    assert len(told) == 1
    assert "activation checkpointing" in told[0]
    assert plan_limit(trainer, None) is None


def test_sizes_are_read_and_written_as_people_do():
    assert [parse_bytes(text) for text in ("8GB", "500 mb", "2GiB", "1.5t", "10")] == [
        8 * 10**9, 5 * 10**8, 2 * 2**30, 15 * 10**11, 10,
    ]  # fmt: skip
    assert (show_bytes(8e9), show_bytes(12e6)) == ("8.0 GB", "12 MB")
    for wrong in ("", "GB", "8XB", "8iB", "-1GB", "0", "9" * 400, True):
        with pytest.raises(OptionError, match="8GB"):
            parse_bytes(wrong)
