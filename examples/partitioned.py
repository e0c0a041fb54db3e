"""Trains LRGA + GCN on one graph partitioned between processes; the losses equal those of one process.

    torchrun --nproc-per-node 4 examples/partitioned.py --nodes 100000
    torchrun --nnodes 2 --nproc-per-node 8 --rdzv-backend c10d --rdzv-endpoint HOST:29500 examples/partitioned.py

The first process prints the loss of each step and, once, the bytes that it sends per step.
``python examples/partitioned.py`` trains on the whole graph in one process, with the same losses.
"""

import argparse
import contextlib
import time

import torch

import lrga
from lrga.data import synthetic_graph
from lrga.distributed import count_traffic, is_leader, joined, launched, partition_graph, partition_model, training_step


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=20_000)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--conv", default="gcn", choices=["gcn", "gat", "gatedgcn", "graphsage", "gin"])
    parser.add_argument("--rank", type=int, default=32, help="the paper's κ; 0 omits the attention")
    parser.add_argument("--partition", default="blocks", choices=["blocks", "metis"])
    parser.add_argument("--device", default="auto", choices=["auto", "cpu", "cuda"])
    options = parser.parse_args()
    with joined(options.device) if launched() else contextlib.nullcontext():
        train(options)


def train(options: argparse.Namespace) -> None:
    gpu = options.device != "cpu" and torch.cuda.is_available()
    device = torch.device("cuda", torch.cuda.current_device()) if gpu else torch.device("cpu")
    # Every process generates the same graph and keeps its part. (For a graph that is too large for this, pass only
    # the incoming edges of this rank's nodes to partition_graph.)
    graph = synthetic_graph(options.nodes, 20, features=64, classes=4)
    part = partition_graph(graph.edge_index, graph.num_nodes, method=options.partition, device=device)
    torch.manual_seed(0)
    whole = lrga.GNN(64, 64, 4, 2, conv=options.conv, rank=options.rank or None)
    model = partition_model(whole, part)
    # With the default eps, Adam would turn rounding errors of gradients near zero into full steps.
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2, eps=1e-6)
    x, y, mask = (part.take_nodes(values) for values in (graph.x, graph.y, graph.train_mask))
    if is_leader():
        print(f"{part}, on {device}")
    for step in range(1, options.steps + 1):
        begin = time.perf_counter()
        with count_traffic() as traffic:
            loss = float(training_step(model, part, x, y, optimizer, mask=mask))
        if is_leader():
            print(f"step {step}: loss {loss:.6f}, {time.perf_counter() - begin:.3f} s")
            if step == 1:
                print(f"each step: {traffic}")


if __name__ == "__main__":
    main()
