"""Two ranks that share one GPU (gloo carries their tensors through main memory): run by real processes."""

import json
import sys
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn.functional as F

import lrga
from lrga.data import synthetic_graph
from lrga.distributed import joined, partition_graph, partition_model, training_step


def compare(conv, rank):
    graph = synthetic_graph(3000, 12, features=8, classes=3, communities=6)
    torch.manual_seed(7)
    whole = lrga.GNN(8, 24, 3, 2, conv=conv, rank=rank, heads=2 if conv == "gat" else 1).to("cuda")
    part = partition_graph(graph.edge_index, graph.num_nodes, device="cuda")
    ours = partition_model(whole, part)
    adam = torch.optim.Adam(ours.parameters())
    x, y = part.take_nodes(graph.x), part.take_nodes(graph.y)
    loss = float(training_step(ours, part, x, y, adam))
    expected = F.cross_entropy(whole(graph.x.cuda(), graph.edge_index.cuda()), graph.y.cuda())
    expected.backward()
    worst = max(
        float((a.grad - b.grad).norm() / b.grad.norm().clamp(min=1e-3))
        for a, b in zip(ours.parameters(), whole.parameters(), strict=True)
        if a.grad is not None and b.grad is not None
    )
    return {"loss": abs(loss - float(expected.detach())), "gradient": worst}


def main():
    torch.backends.cuda.matmul.allow_tf32 = False
    with joined("cuda"):
        found = {
            f"{conv} {rank}": compare(conv, rank)
            for conv in ("gcn", "gat", "gatedgcn", "graphsage", "gin")
            for rank in (None, 8)
        }
        (Path(sys.argv[1]) / f"{dist.get_rank()}.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main()
