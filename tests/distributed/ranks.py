"""What every rank computes for the tests of this folder: run by three real processes, never collected by pytest.

Each check compares a divided computation with the same one on the whole graph in this very process, for groups of 2 and
3 ranks, and reports the greatest difference.
"""

import copy
import json
import sys
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch_geometric.nn import GCN

import lrga
from lrga.distributed import (
    Partition,
    PartitionedAttention,
    RankBatchNorm,
    all_reduce_sum,
    count_traffic,
    link_step,
    partition_graph,
    partition_model,
    reduce_gradients,
    score_links,
    training_step,
)
from lrga.distributed.collectives import gather_ragged
from lrga.errors import ShapeError
from lrga.models.link import LinkGNN, LinkModel, LinkPredictor
from lrga.nn.norm import BatchNorm

CONVOLUTIONS = ("gcn", "gat", "gatedgcn", "graphsage", "gin")
WIDTH, CLASSES, FEATURES = 8, 3, 5


def make_graph(num_nodes, num_edges, seed=0):
    """Random directed edges with loops and repeats; the last fifth of the nodes is isolated."""
    generator = torch.Generator().manual_seed(seed)
    used = max(num_nodes - num_nodes // 5, 1)
    edge_index = torch.randint(used, (2, num_edges if num_nodes else 0), generator=generator)
    x = torch.randn(num_nodes, FEATURES, generator=generator, dtype=torch.float64)
    y = torch.randint(CLASSES, (num_nodes,), generator=generator)
    return edge_index, x, y


def make_model(conv, rank, dtype=torch.float64, **options):
    torch.manual_seed(7)
    heads = 2 if conv == "gat" else 1
    model = lrga.GNN(FEATURES, WIDTH, CLASSES, 2, conv=conv, rank=rank, heads=heads, edge_channels=2, **options)
    return model.to(dtype)


def whole_step(model, edge_index, x, y, optimizer, edge_attr=None):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x, edge_index, edge_attr), y)
    loss.backward()
    optimizer.step()
    return loss.detach()


def worst_gradient(ours, theirs):
    worst = 0.0
    for (name, mine), other in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        assert (mine.grad is None) == (other.grad is None), name
        if mine.grad is not None:
            worst = max(worst, float((mine.grad - other.grad).abs().max()))
    return worst


def compare(
    conv, rank, group, *, steps=1, nodes=23, edges=70, method="blocks", dtype=torch.float64, task="node", **options
):
    """Greatest differences of loss, gradients and running statistics between the divided and the whole graph."""
    edge_index, x, y = make_graph(nodes, edges)
    x = x.to(dtype)
    edge_attr = torch.randn(edge_index.size(1), 2, dtype=dtype, generator=torch.Generator().manual_seed(3))
    if task == "edge":
        y = torch.randint(CLASSES, (edge_index.size(1),), generator=torch.Generator().manual_seed(4))
    elif task == "graph":
        y = y[:1]
    whole = make_model(conv, rank, dtype, task=task, **options)
    part = partition_graph(edge_index, nodes, method=method, group=group)
    ours = partition_model(whole, part)
    assert list(ours.state_dict()) == list(whole.state_dict())
    mine = {"node": part.take_nodes, "edge": part.take_edges, "graph": lambda v: v}[task](y)
    own_x, own_e = part.take_nodes(x), part.take_edges(edge_attr)
    adam, reference = (torch.optim.Adam(m.parameters(), lr=1e-2) for m in (ours, whole))
    result = {"loss": 0.0, "gradient": 0.0, "statistics": 0.0}
    for step in range(steps):
        loss = training_step(ours, part, own_x, mine, adam, edge_attr=own_e)
        expected = whole_step(whole, edge_index, x, y, reference, edge_attr)
        assert torch.isfinite(expected)
        result["loss"] = max(result["loss"], float((loss - expected).abs()))
        if step == 0:
            result["gradient"] = worst_gradient(ours, whole)
    result["statistics"] = max(
        float((a.double() - b.double()).abs().max())
        for a, b in zip(ours.state_dict().values(), whole.state_dict().values(), strict=True)
    )
    with torch.no_grad():
        out, expected = ours.eval()(own_x, part.edges, own_e), whole.eval()(x, edge_index, edge_attr)
    expected = expected if task == "graph" else (part.take_nodes if task == "node" else part.take_edges)(expected)
    result["output"] = float((out - expected).abs().max()) if out.numel() else 0.0
    return result


def check_models(two, three):
    found = {f"{conv} lrga": compare(conv, 3, three) for conv in CONVOLUTIONS}
    if two is not None:
        found |= {f"{conv} plain": compare(conv, None, two) for conv in CONVOLUTIONS}
    return found


def check_variants(three):
    results = {}
    for conv in CONVOLUTIONS:
        for task in ("edge", "graph"):
            results[f"{conv} {task}"] = compare(conv, 3, three, task=task)
        results[f"{conv} preset 2020"] = compare(conv, 3, three, preset="2020", wiring="outer-residual")
        if conv in ("gcn", "gatedgcn"):  # with nodes alone in order of their ranks, and with edges too
            results[f"{conv} metis"] = compare(conv, 3, three, method="metis", nodes=40, edges=150)
        results[f"{conv} two nodes"] = compare(conv, 3, three, nodes=2, edges=3)
        results[f"{conv} no edges"] = compare(conv, 3, three, edges=0)
    results["gcn float32"] = compare("gcn", 3, three, dtype=torch.float32)
    results["gcn no norm"] = compare("gcn", 3, three, batch_norm=False)
    results["gcn two heads"] = compare("gcn", 3, three, attention_heads=2)
    results["gat norm after the mixture"] = compare("gat", 3, three, wiring="outer-norm")
    results["gcn one node"] = compare("gcn", 3, three, nodes=1, edges=0)
    results["gcn no residual"] = compare("gcn", 3, three, residual=False)
    return results


def compare_links(
    conv, rank, group, *, steps=1, nodes=23, edges=70, method="blocks", learned=True, weighted=False, clip=None,
    predictor="hadamard", dtype=torch.float64, pairs=31,
):  # fmt: skip
    """Greatest differences of loss, gradients and weights of link prediction, divided and whole."""
    edge_index, x, _ = make_graph(nodes, edges)
    weight = None
    if weighted:  # repeated loops have no one weight in PyG
        edge_index = edge_index[:, edge_index[0] != edge_index[1]]
        edge_index = torch.cat([edge_index, torch.tensor([[2, 9], [2, 9]])], dim=1)
        weight = torch.rand(edge_index.size(1), dtype=dtype, generator=torch.Generator().manual_seed(2))
    torch.manual_seed(7)
    gnn = LinkGNN(WIDTH if learned else FEATURES, WIDTH, 2, conv=conv, rank=rank)
    scorer = LinkPredictor(WIDTH, WIDTH, 2, kind=predictor)
    whole = LinkModel(gnn, scorer, num_nodes=nodes if learned else None).to(dtype)
    part = partition_graph(edge_index, nodes, method=method, group=group)
    ours = partition_model(whole, part)
    ours.load_state_dict(whole.state_dict())
    adam, reference = (torch.optim.Adam(m.parameters(), lr=1e-2) for m in (ours, whole))
    given, own_x = (None, None) if learned else (x.to(dtype), part.take_nodes(x.to(dtype)))
    own_weight = None if weight is None else part.take_edges(weight)
    number, ranks = dist.get_rank(group), dist.get_world_size(group)
    generator = torch.Generator().manual_seed(5)
    result = {"loss": 0.0, "gradient": 0.0}
    for step in range(steps):
        true, false = (torch.randint(nodes, (2, count), generator=generator) for count in (pairs, pairs + 9))
        # uneven shares: the last rank has no edge to score, the first no other pair
        mine = (true[:, number :: max(ranks - 1, 1)], false[:, max(number - 1, 0) :: max(ranks - 1, 1)])
        if ranks > 1:
            mine = (mine[0] if number < ranks - 1 else true[:, :0], mine[1] if number else false[:, :0])
        loss = link_step(ours, part, own_x, *mine, adam, edge_weight=own_weight, clip_gradient=clip)
        reference.zero_grad()
        h = whole.encode(given, edge_index, weight)
        expected = F.softplus(-whole.score(h, true)).mean() + F.softplus(whole.score(h, false)).mean()
        expected.backward()
        if clip is not None:
            for parameters in whole.parameter_groups():
                torch.nn.utils.clip_grad_norm_(parameters, clip)
        reference.step()
        result["loss"] = max(result["loss"], float((loss - expected.detach()).abs()))
        if step == 0:
            theirs = dict(whole.named_parameters())
            for name, parameter in ours.named_parameters():
                other = theirs[name].grad
                other = part.take_nodes(other) if name.startswith("embedding") else other
                if parameter.numel():
                    result["gradient"] = max(result["gradient"], float((parameter.grad - other).abs().max()))
    with torch.no_grad():
        mine = ours.eval().encode(own_x, part.edges, own_weight)
        everything = whole.eval().encode(given, edge_index, weight)
        result["output"] = float((part.gather_nodes(mine) - everything).abs().max())
        some = torch.randint(nodes, (2, 6), generator=torch.Generator().manual_seed(number))
        scores = score_links(ours, part, mine, some)
        result["scores"] = float((scores - whole.score(everything, some)).abs().max())
    return result


def check_links(three):
    results = {f"{conv} {rank}": compare_links(conv, rank, three) for conv in CONVOLUTIONS for rank in (None, 3)}
    results["features"] = compare_links("graphsage", 3, three, learned=False, predictor="concat")
    results["weights"] = compare_links("gcn", 3, three, weighted=True, clip=0.05)
    results["two nodes"] = compare_links("gcn", 3, three, nodes=2, edges=3, predictor="dot")
    results["ten steps"] = compare_links("gcn", 3, three, steps=10, clip=0.05)
    results["metis"] = compare_links("graphsage", 3, three, method="metis", nodes=40, edges=150)
    results["no edges"] = compare_links("graphsage", None, three, edges=0)
    return results


def check_collectives(group):
    rank, ranks = dist.get_rank(group), dist.get_world_size(group)
    x = torch.arange(4, dtype=torch.float64, requires_grad=True)
    with count_traffic() as traffic:
        total = all_reduce_sum((rank + 1.0) * x, group=group)
        (total.square().sum() * (rank + 1)).backward()
    factor = sum(range(1, ranks + 1))
    # L = Σ_r (r+1) |Σ_s (s+1) x_s|², so the gradient on rank r is (r+1) · 2 Σ(…) · Σ(r+1)
    expected = (rank + 1.0) * 2 * factor * factor * x.detach()
    edge_index, _, _ = make_graph(23, 70)
    part = partition_graph(edge_index, 23, group=group)
    values = torch.randn(23, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    own = part.take_nodes(values).requires_grad_()
    with count_traffic() as halo:
        near = part.with_halo(own)
        weights = torch.randn(23, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
        places = torch.cat([part.nodes, part.halo])
        (near * weights[places]).sum().backward()
    copies = torch.zeros(23, dtype=torch.float64).index_add_(0, places, torch.ones(len(places), dtype=torch.float64))
    dist.all_reduce(copies, group=group)
    second = part.take_nodes(values).requires_grad_()
    (grad,) = torch.autograd.grad(part.with_halo(second.square()).square().sum(), second, create_graph=True)
    (again,) = torch.autograd.grad(grad.sum(), second)  # d²/dx² of copies · x⁴ is copies · 12 x²
    ragged = gather_ragged(torch.full((rank, 2), float(rank)), group=group)
    return {
        "all_reduce": float((total - factor * x.detach()).abs().max()),
        "all_reduce gradient": float((x.grad - expected).abs().max()),
        "payload": traffic.payload,
        "halo": float((near - values[places]).abs().max()),
        "halo gradient": float((own.grad - (copies[:, None] * weights)[part.nodes]).abs().max()),
        "halo twice": float((again - 12 * copies[part.nodes, None] * values[part.nodes] ** 2).abs().max()),
        "halo bytes": halo.wire["halo"],
        "halo bytes expected": (part.num_halo + sum(part.send)) * 4 * 8,
        "ragged": ragged.tolist(),
        "gathered": bool(torch.equal(part.gather_nodes(part.take_nodes(values)), values)),
        "out_degree": bool(torch.equal(part.out_degree, torch.bincount(edge_index[0], minlength=23)[part.nodes])),
        "in_degree": bool(torch.equal(part.in_degree, torch.bincount(edge_index[1], minlength=23)[part.nodes])),
    }


def check_norm(group):
    results, rank = {}, dist.get_rank(group)
    for name, sizes in {"uneven": [5, 0, 9], "one row": [1, 0, 0], "two rows": [1, 1, 0]}.items():
        rows = torch.randn(sum(sizes), 4, dtype=torch.float64, generator=torch.Generator().manual_seed(3)) * 3 + 100
        weights = torch.randn(rows.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(5))
        for momentum in (0.1, None):
            torch.manual_seed(1)
            whole = BatchNorm(4, momentum=momentum).double()
            torch.nn.init.normal_(whole.weight)
            ours = RankBatchNorm.of(copy.deepcopy(whole), group)
            mine = slice(sum(sizes[:rank]), sum(sizes[: rank + 1]))
            worst = 0.0
            for _ in range(3):
                own, everything = rows[mine].clone().requires_grad_(), rows.clone().requires_grad_()
                out, expected = ours(own), whole(everything)
                (out * weights[mine]).sum().backward()
                (expected * weights).sum().backward()
                reduce_gradients(ours, group)
                pairs = [(out, expected[mine]), (own.grad, everything.grad[mine])]
                pairs += [(a.grad, b.grad) for a, b in zip(ours.parameters(), whole.parameters(), strict=True)]
                pairs += list(zip(ours.buffers(), whole.buffers(), strict=True))
                worst = max([worst, *(float((a - b).abs().max()) for a, b in pairs if a.numel())])
                ours.zero_grad()
                whole.zero_grad()
            results[f"{name} {momentum}"] = worst
    return results


SHAPES = [("graph", 1, 17), ("graph", 3, 2), ("graph", 3, 90), ("row", 3, 17), (None, 1, 17)]


def check_attention(group):
    results, payloads, world = {}, {}, dist.get_world_size(group)
    options = [{"qk_norm": True}, {"normalize": "rms"}, {"qk_norm": True, "gate": True}]
    cases = [({"normalize": n}, heads, nodes) for n, heads, nodes in SHAPES] + [(option, 3, 17) for option in options]
    for option, heads, nodes in cases:
        torch.manual_seed(3)
        whole = lrga.LowRankGlobalAttention(6, rank=4, heads=heads, **option).double()
        ours = PartitionedAttention.of(copy.deepcopy(whole), nodes, group)
        x = torch.randn(nodes, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(4))
        mine = Partition.blocks(nodes, world).nodes(dist.get_rank(group))
        own, everything = x[mine].requires_grad_(), x.clone().requires_grad_()
        with count_traffic() as traffic:
            out = ours(own)
            out.square().sum().backward()
        expected = whole(everything)
        expected.square().sum().backward()
        reduce_gradients(ours, group)
        pairs = [(out, expected[mine]), (own.grad, everything.grad[mine])]
        pairs += [(a.grad, b.grad) for a, b in zip(ours.parameters(), whole.parameters(), strict=True)]
        pairs += list(zip(ours.factors(own), [f[mine] for f in whole.factors(everything)], strict=True))
        results[f"{option} {heads} {nodes}"] = max(float((a - b).abs().max()) for a, b in pairs if a.numel())
        if option.get("normalize") in ("graph", "row", None) and "qk_norm" not in option:
            payloads[f"{heads} {nodes}"] = traffic.payload.get("attention", 0)
    torch.manual_seed(3)
    maps = [tuple(torch.nn.Linear(6, k).double() for k in (2, 2, 3, 1)) for _ in range(2)]
    whole = lrga.LowRankGlobalAttention(6, rank=1, heads=2, maps=maps)
    x = torch.randn(9, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(4))
    mine = Partition.blocks(9, world).nodes(dist.get_rank(group))
    ours = PartitionedAttention.of(copy.deepcopy(whole), 9, group)
    results["maps"] = float((ours(x[mine]) - whole(x)[mine]).abs().max())
    return {"differences": results, "payloads": payloads}


def check_traffic(group, kind):
    """Bytes by purpose of a step on graphs of two sizes; of links, with as many pairs."""
    found = {}
    for nodes, edges in ((24, 80), (240, 800)):
        edge_index, x, y = make_graph(nodes, edges)
        part = partition_graph(edge_index, nodes, group=group)
        whole = make_model("gcn", 3)
        if kind == "links":
            scorer = LinkPredictor(WIDTH, WIDTH, 2)
            whole = LinkModel(LinkGNN(WIDTH, WIDTH, 2, rank=3), scorer, num_nodes=nodes).double()
        model = partition_model(whole, part)
        adam, generator = torch.optim.Adam(model.parameters()), torch.Generator().manual_seed(dist.get_rank(group))
        pairs = torch.randint(nodes, (2, 10), generator=generator)
        with count_traffic() as traffic:
            if kind == "links":
                link_step(model, part, None, pairs, pairs, adam)
            else:
                training_step(model, part, part.take_nodes(x), part.take_nodes(y), adam)
        found[str(nodes)] = {"payload": traffic.payload, "wire": traffic.wire, "text": str(traffic)}
    return found


def check_no_halo(group):
    """Two components, one on each of two ranks: nothing is exchanged."""
    edge_index = torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]])
    part = partition_graph(edge_index, 4, group=group)
    with count_traffic() as traffic:
        out = part.with_halo(torch.ones(2, 3))
    return {"exchanges": part.exchanges, "wire": traffic.wire, "rows": out.size(0)}


def check_augmented(group):
    """Greatest difference of output and gradients of an augmented model of PyG, divided and whole."""
    edge_index, x, _ = make_graph(23, 70)
    torch.manual_seed(7)
    whole = GCN(FEATURES, WIDTH, 2, CLASSES, norm="batch_norm").double()
    whole = lrga.augment(whole, 3, single_graph=True, init="paper")
    part = partition_graph(edge_index, 23, group=group)
    ours = partition_model(whole, part)
    out, expected = ours(part.take_nodes(x), part.edges), whole(x, edge_index)
    out.square().sum().backward()
    expected.square().sum().backward()
    reduce_gradients(ours, group)
    return max(worst_gradient(ours, whole), float((out - part.take_nodes(expected)).detach().abs().max()))


def check_disagreement(group):
    """What ranks are told that divide different graphs, or one graph differently."""
    edge_index, rank, told = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]]), dist.get_rank(group), []
    swapped = Partition.of_assignment(torch.tensor([0, 1, 0, 1] if rank else [0, 1, 1, 0]), 2)
    for nodes, partition in ((4 + rank, None), (4, swapped)):
        try:
            partition_graph(edge_index, nodes, partition=partition, group=group)
            told.append("nothing")
        except ShapeError as error:
            told.append(str(error))
    return told


def check_all(two, three):
    """``two`` is the group of the first two ranks, ``None`` on the third."""
    results = {
        "augmented": check_augmented(three),
        "collectives": {"3": check_collectives(three)},
        "norm": check_norm(three),
        "attention": check_attention(three),
        "models": check_models(two, three),
        "ten steps": {
            f"{conv} {rank}": compare(conv, rank, three, steps=10) for conv, rank in (("gcn", 3), ("gat", None))
        },
        "variants": check_variants(three),
        "links": check_links(three),
        "link traffic": check_traffic(three, "links"),
        "traffic": check_traffic(three, "nodes"),
    }
    if two is not None:
        results["collectives"]["2"] = check_collectives(two)
        results["disagreement"], results["no_halo"] = check_disagreement(two), check_no_halo(two)
    return results


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=timedelta(seconds=120))
    rank = dist.get_rank()
    two = dist.new_group([0, 1])  # every rank makes the group, a member of it or not
    results = check_all(two if rank < 2 else None, dist.group.WORLD)
    Path(sys.argv[1], f"{rank}.json").write_text(json.dumps(results))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
