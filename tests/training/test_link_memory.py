import copy
import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))
from link_graphs import communities, config_of

from lrga.errors import OptionError
from lrga.models.link import LinkGNN
from lrga.nn.recompute import recompute_layers
from lrga.training import train
from lrga.training.callbacks.events import Listener
from lrga.training.memory import LiveBytes
from lrga.training.problems.link_architecture import resolve_link
from lrga.training.problems.link_memory import LinkMemoryPlan, _Need, keep_to_limit, plan_link_memory
from lrga.training.problems.link_run import link_task
from lrga.training.problems.link_trainer import LinkTrainer
from lrga.training.runs.folder import RunFolder


def trainer_of(data, **options):
    config = config_of(**options)
    architecture = resolve_link(config, data)
    torch.manual_seed(0)
    return LinkTrainer(architecture.build(), link_task(config, data), data, config), architecture


@pytest.fixture
def bare(monkeypatch):
    """Small graphs hide behind the memory of the process: it is left out."""
    monkeypatch.setattr("lrga.training.problems.link_memory.peak_of_process", lambda device: (0, 0))


@pytest.mark.parametrize("conv", ["gcn", "graphsage", "gat", "gin", "gatedgcn"])
@pytest.mark.parametrize("rank", [None, 3])
def test_layers_computed_again_give_values_gradients_dropout_and_statistics_of_those_kept(conv, rank):
    torch.manual_seed(1)
    plain = LinkGNN(5, 8, 3, conv=conv, rank=rank, dropout=0.3).double()
    again = recompute_layers(copy.deepcopy(plain))
    x, edges = torch.randn(30, 5, dtype=torch.float64), torch.randint(30, (2, 120))
    found = []
    for model in (plain, again):
        torch.manual_seed(3)
        for _ in range(2):
            model.zero_grad()
            out = model(x, edges)
            (out * torch.arange(out.numel()).view_as(out)).sum().backward()
        found.append([out.detach(), *(p.grad for p in model.parameters()), *model.buffers()])
    for a, b in zip(*found, strict=True):
        assert (a is None) == (b is None)
        assert a is None or torch.allclose(a, b, atol=1e-12)


@pytest.mark.parametrize("model", ["gcn", "graphsage", "gat", "mf"])
@pytest.mark.parametrize("recompute", [False, True])
def test_small_graphs_foretell_the_step_on_a_larger_one(model, recompute, bare):
    from lrga.data.links.data import LinkData, LinkSplit

    edge = torch.randint(12_000, (40_000, 2), generator=torch.Generator().manual_seed(0))
    edge = edge[edge[:, 0] != edge[:, 1]]
    split = LinkSplit(edge=edge[:5000], edge_neg=edge[5000:6000])
    data = LinkData(num_nodes=12_000, edge=edge, splits=dict.fromkeys(("train", "val", "test"), split))
    options = {"model": model, "hidden": 32, "batch_size": 3000} | ({} if model == "mf" else {"rank": 8, "layers": 4})
    trainer, architecture = trainer_of(data, **options)
    expected = _Need(trainer, architecture).step(recompute=recompute)
    weights = sum(p.numel() * 4 for p in trainer.model.parameters())
    trainer.step(*trainer.pairs())  # makes Adam's moments
    trainer.optimizer.zero_grad()
    if recompute:
        plan = LinkMemoryPlan(1, 0, 2, 1, 0, 0, 3000, 3000, 12_000, 80_000)
        keep_to_limit(trainer, plan)
    with LiveBytes() as live:
        trainer.step(*trainer.pairs())
    assert live.peak < expected - 3 * weights < 2 * live.peak


def test_what_fits_is_left_alone_what_fits_by_less_is_done_the_rest_is_refused(bare):
    data = communities(400, 4)
    trainer, architecture = trainer_of(data, hidden=64, layers=6, rank=16, batch_size=300, eval_batch_size=50_000)
    roomy = plan_link_memory(trainer, architecture, limit=10**12)
    assert not roomy.recompute
    assert roomy.block == roomy.whole_block == 50_000
    assert "nothing to do" in str(roomy)
    blocks = plan_link_memory(trainer, architecture, limit=roomy.plain)
    assert not blocks.recompute
    assert blocks.block < 50_000
    assert "pairs at once instead of 50,000" in str(blocks)
    tight = plan_link_memory(trainer, architecture, limit=roomy.plain - 1)
    assert tight.recompute
    assert tight.recomputed < tight.plain == roomy.plain
    assert "activation checkpointing" in str(tight)
    with pytest.raises(OptionError, match="--batch-size or --hidden"):
        plan_link_memory(trainer, architecture, limit=tight.standing + 1)
    with pytest.raises(OptionError, match="graph, weights and Python alone"):
        plan_link_memory(trainer, architecture, limit=tight.standing - 1)


def test_walks_count_and_are_named_where_they_are_too_many(bare):
    data = communities(60)
    trainer, architecture = trainer_of(data, model="node2vec", walk_epochs=1)
    before = copy.deepcopy(trainer.model.state_dict())
    plan = plan_link_memory(trainer, architecture, limit=10**12)
    assert plan.walks > plan.plain
    assert all(torch.equal(value, before[name]) for name, value in trainer.model.state_dict().items())
    assert all(p.grad is None for p in trainer.model.parameters())
    with pytest.raises(OptionError, match=r"a step of walks.*--walk-length"):
        plan_link_memory(trainer, architecture, limit=plan.walks - 1)


def run(folder, data, **options):
    told = []

    class Ear(Listener):
        def noted(self, text):
            told.append(text)

    return train(config_of(**options), folder, data=data, listeners=[Ear()]), told


@pytest.mark.parametrize("model", ["gcn", "graphsage", "mf"])
def test_a_run_that_keeps_to_a_limit_ends_as_one_without(tmp_path, bare, model):
    data = communities(120, features=7)
    options = {"model": model} | ({} if model == "mf" else {"layers": 4})
    free, silent = run(tmp_path / "free", data, **options)
    assert silent == []
    trainer, architecture = trainer_of(data, **options)
    need = plan_link_memory(trainer, architecture, limit=10**12).plain
    held, told = run(tmp_path / "held", data, **options, memory_limit=need - 1)
    assert "activation checkpointing" in told[0]
    for name, value in held.model.state_dict().items():
        assert torch.allclose(value, free.model.state_dict()[name], atol=1e-5), name
    assert held.last.test_metric == pytest.approx(free.last.test_metric, abs=0.02)
    last = RunFolder(tmp_path / "held").environments()[-1]
    assert (last["memory_limit"], last["activation_checkpointing"]) == (need - 1, True)
    assert last["pairs_scored_at_once"] <= 200
    assert "memory: to fit into" in (tmp_path / "held" / "log.txt").read_text()


@pytest.mark.parametrize("model", ["node2vec", "deepwalk", "gcn"])
def test_a_roomy_limit_changes_not_a_bit(tmp_path, model):
    options = {"model": model} | ({} if model == "gcn" else {"walk_epochs": 1})
    free, _ = run(tmp_path / "free", communities(), **options)
    held, told = run(tmp_path / "held", communities(), **options, memory_limit=10**12)
    assert "nothing to do" in told[0]
    for name, value in held.model.state_dict().items():
        assert torch.equal(value, free.model.state_dict()[name]), name


def test_windows_of_walks_are_foretold(bare):
    trainer, architecture = trainer_of(communities(300), model="deepwalk", walk_batch_size=100, hidden=64)
    expected = _Need(trainer, architecture).walks()
    weights = sum(p.numel() * 4 for p in trainer.model.parameters())
    trainer.walks.step()  # makes Adam's moments
    trainer.walks.optimizer.zero_grad()
    with LiveBytes() as live:
        trainer.walks.step()
    assert 0.95 * live.peak < expected - 3 * weights < 1.6 * live.peak


def test_an_impossible_limit_leaves_nothing_behind(tmp_path):
    with pytest.raises(OptionError, match="fits into 1 MB"):
        run(tmp_path / "run", communities(), memory_limit=10**6)
    assert not (tmp_path / "run").exists()


@pytest.mark.gpu
@pytest.mark.parametrize("recompute", [False, True])
def test_on_a_gpu_a_step_stays_below_what_was_foretold(recompute):
    data = communities(2000, 40, features=64).to("cuda")
    config = config_of(hidden=128, layers=4, rank=32, batch_size=8000, device="cuda")
    architecture = resolve_link(config, data)
    trainer = LinkTrainer(architecture.build().to("cuda"), link_task(config, data), data, config)
    expected = _Need(trainer, architecture).step(recompute=recompute)
    if recompute:
        keep_to_limit(trainer, LinkMemoryPlan(1, 0, 2, 1, 0, 0, 8000, 8000, 2000, 1))
    for _ in range(2):
        torch.cuda.reset_peak_memory_stats()
        trainer.step(*trainer.pairs())
    assert torch.cuda.max_memory_allocated() < expected < 2 * torch.cuda.max_memory_allocated()
