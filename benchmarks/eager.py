"""Time of an ordinary (eager) PyG training loop: forward and backward without CUDA graphs.

    python benchmarks/eager.py [--baseline SRC] [--device cuda] [--json] [--out FILE]

- *attention*: LowRankGlobalAttention over 128 small graphs, called with ``batch`` and ``num_graphs``;
- *layers*: four LRGAConv(GCNConv) that share one batch vector, and four plain GCNConv;
- *large*: LowRankGlobalAttention over one graph of 576,289 nodes.

``--baseline`` is the ``src`` folder of another version of lrga: the same measurements run there in their
own process, in sequence on the same machine. First every result and gradient is compared with backend="segmented".
"""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from passes import LARGE, SMALL, Pass, features, small_sizes, use_tf32
from timing import event_ms, need_device, relative, replay_ms, wall_ms
from torch import Tensor, nn
from torch_geometric.nn import GCNConv

import lrga

LAYERS = 4


class Network(nn.Module):
    """Four layers of width D, as in user code."""

    def __init__(self, width: int, rank: int | None, backend: str = "auto") -> None:
        super().__init__()
        convs: list[nn.Module] = [GCNConv(width, width) for _ in range(LAYERS)]
        if rank is not None:
            convs = [lrga.LRGAConv(conv, width, width, rank, backend=backend) for conv in convs]
        self.layers = nn.ModuleList(convs)
        self.augmented = rank is not None

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor, num_graphs: int) -> Tensor:
        options = {"batch": batch, "num_graphs": num_graphs} if self.augmented else {}
        for layer in self.layers:
            x = layer(x, edge_index, **options)
        return x


def check(case: str, run: Pass, other: nn.Module) -> float:
    """The difference of result and gradients from those of ``other`` with equal weights; if large, ends the script."""
    use_tf32(False)
    other.load_state_dict(run.module.state_dict())
    twin = Pass(other, run.x, run.arguments)
    twin.upstream = run.upstream
    ours, theirs = (torch.cat([t.detach().flatten() for t in p.both()]) for p in (run, twin))
    error = relative(ours, theirs)
    if not error < 1e-3:
        raise SystemExit(f"{case}: values differ by {error:.1e} from the reference; no timing")
    use_tf32(True)
    return error


def times(run: Pass, device: str) -> dict[str, float]:
    """Eager milliseconds of forward and backward, and of forward alone."""
    if device == "cpu":
        return {"both_ms": wall_ms(run.both, device), "forward_ms": wall_ms(run.inference, device)}
    return {"both_ms": event_ms(run.both, repeats=60), "forward_ms": event_ms(run.inference, repeats=60)}


def measure(device: str, *, nodes: int = LARGE["nodes"], sizes: list[int] | None = None) -> dict[str, Any]:
    """Measures all cases with the imported lrga."""
    sizes, width, rank = sizes or small_sizes(), SMALL["width"], SMALL["rank"]
    torch.manual_seed(0)
    counts = torch.tensor(sizes, device=device)
    batch = torch.repeat_interleave(torch.arange(len(sizes), device=device), counts)
    first = (counts.cumsum(0) - counts)[batch]
    draws = torch.rand(2, 8, len(batch), device=device)
    edge_index = ((draws * counts[batch]).long() + first).flatten(1)  # 8 random edges a node, within its graph
    x = features(len(batch), width, device)
    result: dict[str, Any] = {}

    def attention(backend: str) -> nn.Module:
        return lrga.LowRankGlobalAttention(width, rank, backend=backend).to(device)

    run = Pass(attention("auto"), x, [batch, len(sizes)])
    result["attention"] = {"error": check("attention", run, attention("segmented")), **times(run, device)}
    network = Pass(Network(width, rank).to(device), x, [edge_index, batch, len(sizes)])
    bare = Pass(Network(width, None).to(device), x, [edge_index, batch, len(sizes)])
    error = check("layers", network, Network(width, rank, "segmented").to(device))
    result["layers"] = {"error": error, **times(network, device), "bare_ms": times(bare, device)["both_ms"]}

    width, rank = LARGE["width"], LARGE["rank"]
    large = Pass(attention("auto"), features(nodes, width, device))
    result["large"] = {"error": check("large", large, attention("segmented")), **times(large, device)}
    if device != "cpu":
        result["attention"]["replay_ms"], result["large"]["replay_ms"] = replay_ms(run.both), replay_ms(large.both)
    return result


def sizes_on(device: str) -> dict[str, Any]:
    """Arguments of :func:`measure`: tiny ones on a CPU, which only tests the script."""
    return {"nodes": 500, "sizes": [3, 1, 20]} if device == "cpu" else {}


def elsewhere(source: Path, device: str) -> dict[str, Any]:
    """Measures all cases with the lrga in ``source``, in its own process."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(source.resolve()), str(Path(__file__).parent)])}
    script = f"import json, eager; print(json.dumps(eager.measure({device!r}, **eager.sizes_on({device!r}))))"
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"the measurement of {source} failed:\n{done.stderr}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


CASES = {  # (case, what was measured) → the row's name, its launch
    ("attention", "both_ms"): ("attention, 128 graphs", "eager"),
    ("attention", "forward_ms"): ("attention, 128 graphs, forward only", "eager"),
    ("attention", "replay_ms"): ("attention, 128 graphs", "replay"),
    ("layers", "both_ms"): ("4 x LRGAConv(GCNConv)", "eager"),
    ("layers", "bare_ms"): ("4 x GCNConv", "eager"),
    ("layers", "added_ms"): ("LRGAConv minus GCNConv, a layer", "eager"),
    ("large", "both_ms"): ("one large graph", "eager"),
    ("large", "replay_ms"): ("one large graph", "replay"),
}


def rows_of(own: dict[str, Any], other: dict[str, Any] | None, baseline: str = "") -> list[dict[str, Any]]:
    """One row per case, with the baseline if there is one."""
    found = []
    for (case, key), (name, launch) in CASES.items():
        times = [_milliseconds(part[case], key) for part in (own, other) if part is not None]
        if times[0] is None:
            continue
        row: dict[str, Any] = {"case": name, "launch": launch, "ms": times[0], "error": own[case]["error"]}
        if other is not None:
            row |= {"baseline": baseline, "baseline_ms": times[1], "ratio": times[1] / times[0]}
        found.append(row)
    return found


def _milliseconds(row: dict[str, float], key: str) -> Any:
    if key == "added_ms":
        return (row["both_ms"] - row["bare_ms"]) / LAYERS
    return row.get(key)


def show(record: dict[str, Any]) -> None:
    """A table of milliseconds."""
    print(f"{record['device']}, TF32, forward and backward, ms")
    print(f"{'':38}{'launch':8}{'lrga':>9}{'baseline':>10}{'ratio':>7}")
    for row in record["rows"]:
        beside = f"{row['baseline_ms']:10.3f}{row['ratio']:7.2f}" if "baseline_ms" in row else ""
        print(f"{row['case']:38}{row['launch']:8}{row['ms']:9.3f}{beside}")


def main(arguments: Sequence[str] | None = None) -> None:
    from reporting import make_parser, report  # needs lrga.speed, which older baseline versions lack

    parser = make_parser(__doc__)
    parser.add_argument("--baseline", type=Path, help="src folder of the version to compare with")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    options = parser.parse_args(arguments)
    need_device(options.device)
    other = None if options.baseline is None else elsewhere(options.baseline, options.device)
    rows = rows_of(measure(options.device, **sizes_on(options.device)), other, f"lrga in {options.baseline}")
    report("eager", rows, show, options, device=options.device, precision="tf32")


if __name__ == "__main__":
    main()
