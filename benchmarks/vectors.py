"""A step of Node2Vec's vectors, loss and gradients: ours against PyG's Node2Vec, in the same run.

    python benchmarks/vectors.py [--device cuda] [--repeats 7] [--json] [--out FILE]

Both get the same walks over a table of ogbl-ddi's size. PyG looks up the vectors of each window of a walk, split by its
sampler (splitting is not timed); ours looks up those of the walk. Correctness first: loss and
gradients must agree.
"""

import sys
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch_geometric
from reporting import make_parser, report
from timing import at_least_one, need_device, relative, wall_ms
from torch import Tensor, nn
from torch_geometric.nn import Node2Vec as PygNode2Vec

from lrga.models.embeddings import Node2Vec

NODES, CHANNELS = 4_267, 128
CASES = {  # nodes per walk and per window, walks per batch
    "OGB's Node2Vec": (40, 20, 2_560),
    "windows of DeepWalk": (80, 3, 160),
}


class PygLoss(nn.Module):
    """The loss of PyG's class, which itself needs PyG's compiled walks."""

    EPS, loss = 1e-15, PygNode2Vec.loss

    def __init__(self, embedding: nn.Embedding) -> None:
        super().__init__()
        self.embedding, self.embedding_dim = embedding, embedding.embedding_dim


class Step:
    """Loss and gradients of the same walks, by both implementations.

    Args:
        length: Nodes per walk.
        window: Nodes per window.
        walks: Number of walks.
        device: Device of the tensors.
    """

    def __init__(self, length: int, window: int, walks: int, device: str) -> None:
        torch.manual_seed(0)
        self.model, self.window = Node2Vec(NODES, CHANNELS).to(device), window
        # As in training: if products are near 17, PyG's loss loses its gradient in float32.
        nn.init.normal_(self.model.embedding.weight, std=0.1)
        self.near, self.far = (torch.randint(NODES, (walks, length), device=device) for _ in range(2))
        self.windows = [torch.cat(part.unfold(1, window, 1).unbind(1)) for part in (self.near, self.far)]
        self.peer = PygLoss(self.model.embedding)

    def ours(self) -> Tensor:
        return self._step(lambda: self.model.walk_loss(self.near, self.far, window=self.window))

    def pyg(self) -> Tensor:
        return self._step(lambda: self.peer.loss(*self.windows))

    def check(self) -> float:
        """The relative difference of the gradients; ends the script if they or the losses differ."""
        loss, own = self.ours(), self.model.embedding.weight.grad
        expected, theirs = self.pyg(), self.model.embedding.weight.grad
        assert own is not None
        assert theirs is not None
        off = relative(own, theirs)
        if not (off < 1e-4 and abs(float(loss - expected)) < 1e-4 * float(expected)):
            raise SystemExit(
                f"losses {float(loss):.6f} and {float(expected):.6f}, gradients differ by {off:.1e}; no timing"
            )
        return off

    def _step(self, loss: Callable[[], Tensor]) -> Tensor:
        self.model.zero_grad(set_to_none=True)
        value = loss()
        value.backward()
        return value.detach()


def show(record: dict[str, Any]) -> None:
    for row in record["rows"]:
        times = f"{row['ms']:9.2f} ms, PyG's {row['baseline_ms']:9.2f} ms"
        print(f"{row['case']:20} {times}: {row['ratio']:5.1f} times faster")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = make_parser(__doc__)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--threads", type=at_least_one, default=2)
    parser.add_argument("--repeats", type=at_least_one, default=7)
    options = parser.parse_args(arguments)
    need_device(options.device)
    torch.set_num_threads(options.threads)
    rows = []
    for name, (length, window, walks) in CASES.items():
        step = Step(length, window, walks, options.device)
        off = step.check()
        ours, pyg = (wall_ms(run, options.device, repeats=options.repeats) for run in (step.ours, step.pyg))
        rows.append(
            {"case": name, "nodes": length, "window": window, "walks": walks, "error": off, "ms": round(ours, 3),
             "baseline": "PyG", "baseline_ms": round(pyg, 3), "ratio": round(pyg / ours, 1)}
        )  # fmt: skip
    settings = {"threads": options.threads, "repeats": options.repeats}
    settings["torch_geometric"] = torch_geometric.__version__
    report("vectors", rows, show, options, device=options.device, precision="float32", settings=settings)
    return 0


if __name__ == "__main__":
    sys.exit(main())
