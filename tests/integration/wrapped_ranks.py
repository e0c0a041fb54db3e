"""What two ranks compute with an augmented model inside PyTorch's wrappers; run by real processes, never collected."""

import copy
import json
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.nn.parallel import DistributedDataParallel
from torch_geometric.nn import GCN

import lrga


def whole(model):
    fully_shard(model)
    return model


def by_layer(model):
    for conv in model.convs:
        fully_shard(conv)
    fully_shard(model)
    return model


WRAPPERS = {
    "DDP": DistributedDataParallel,
    "FSDP": lambda model: FullyShardedDataParallel(model, use_orig_params=True, device_id=torch.device("cpu")),
    "fully_shard": whole,
    "fully_shard of each layer": by_layer,
}


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(3)
    model = lrga.augment(GCN(6, 8, 2, 3), rank=4, init="paper")
    x, edge_index = torch.randn(2, 5, 6), torch.tensor([[0, 1, 2, 3], [1, 0, 3, 4]])
    batch = torch.tensor([0, 0, 1, 1, 1])
    expected = model(x[rank], edge_index, batch=batch).detach()
    weight = [torch.zeros_like(p) for p in model.parameters()]
    for part in x:  # the gradient of both ranks' mean loss
        loss = model(part, edge_index, batch=batch).square().mean()
        weight = [w + g / 2 for w, g in zip(weight, torch.autograd.grad(loss, list(model.parameters())), strict=True)]
    report = {}
    for name, wrap in WRAPPERS.items():
        wrapped = wrap(copy.deepcopy(model))
        out = wrapped(x[rank], edge_index, batch=batch)
        out.square().mean().backward()
        grads = [p.grad.full_tensor() if hasattr(p.grad, "full_tensor") else p.grad for p in wrapped.parameters()]
        error = (out - expected).abs().max().item()
        if all(g is not None and g.shape == w.shape for g, w in zip(grads, weight, strict=True)):
            error = max(error, *((g - w).abs().max().item() for g, w in zip(grads, weight, strict=True)))
        report[name] = error
        try:
            wrapped(x[rank], edge_index)
            report[f"{name} without batch"] = "nothing raised"
        except lrga.errors.BatchContextError as raised:
            report[f"{name} without batch"] = str(raised)
        dist.barrier()
    Path(sys.argv[1], f"{rank}.json").write_text(json.dumps(report))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
