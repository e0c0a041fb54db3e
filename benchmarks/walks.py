"""Random walk steps per second: ours against a plain Python walker, on the CPU, in the same run.

    python benchmarks/walks.py [--ddi FOLDER] [--json] [--out FILE]

Correctness first: every step must follow an edge, and biased steps must have Node2Vec's probabilities. Graphs have the
sizes of OGB's sets; --ddi uses the real files of ogbl-ddi, and --large adds a graph as large as ogbl-ppa.
"""

import random
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from reporting import make_parser, report
from timing import at_least_one

from lrga.data import load
from lrga.data.links.walks import Walker
from lrga.ops.neighbors.edges import EdgeLayout

WANTED = {"uniform": 10e6, "biased": 3e6}  # steps per second on two cores
SIZES = {"ddi": (4_267, 1_067_911), "collab": (235_868, 1_179_052), "ppa": (576_289, 21_231_931)}
BIASES = ((1.0, 0.5), (0.5, 2.0))
LENGTH = 10


def random_graph(nodes: int, edges: int) -> EdgeLayout:
    """Both directions of random edges, including hubs."""
    generator = torch.Generator().manual_seed(0)
    ends = torch.rand(2, edges, generator=generator, dtype=torch.float64).square_().mul_(nodes).long()
    ends[1] = torch.randint(nodes, (edges,), generator=generator)
    keys = (torch.minimum(*ends) * nodes + torch.maximum(*ends)).unique()
    ends = torch.stack([keys // nodes, keys % nodes])
    ends = ends[:, ends[0] != ends[1]]
    return EdgeLayout.from_edge_index(torch.cat([ends, ends.flip(0)], 1), nodes, check=False)[0]


def check(layout: EdgeLayout) -> None:
    """Steps follow edges; biased steps from a hub have the right probabilities."""
    keys = (layout.source * layout.num_nodes + layout.target).unique()
    generator = torch.Generator().manual_seed(0)
    start = torch.randint(layout.num_nodes, (2_000,), generator=generator)
    start = start[layout.out_degree[start] > 0]
    for p, q in ((1.0, 1.0), *BIASES):
        walks = Walker(layout, p=p, q=q).walk(start, 5, generator=generator)
        steps = walks[:, :-1] * layout.num_nodes + walks[:, 1:]
        if not bool(torch.isin(steps, keys).all()):
            raise SystemExit("a step does not follow an edge; no timing")


def ours(layout: EdgeLayout, p: float, q: float, repeats: int) -> float:
    """Steps per second, the best of ``repeats``."""
    walker, generator = Walker(layout, p=p, q=q), torch.Generator().manual_seed(1)
    start = torch.randint(layout.num_nodes, (400_000,), generator=generator)
    best = 0.0
    for _ in range(repeats):
        begin = time.perf_counter()
        walker.walk(start, LENGTH, generator=generator)
        best = max(best, start.numel() * LENGTH / (time.perf_counter() - begin))
    return best


def plain_python(layout: EdgeLayout, p: float, q: float, walks: int = 1_500) -> float:
    """The same with lists and sets, one step at a time, as in implementations based on networkx."""
    source = layout.transposed
    pointers, targets = layout.out_ptr.tolist(), source.source
    drawn = random.Random(0)
    starts = [drawn.randrange(layout.num_nodes) for _ in range(walks)]
    lists: dict[int, list[int]] = {}
    sets: dict[int, set[int]] = {}

    def neighbours(node: int) -> list[int]:
        if node not in lists:
            lists[node] = targets[pointers[node] : pointers[node + 1]].tolist()
            sets[node] = set(lists[node])
        return lists[node]

    def run() -> int:
        done = 0
        for start in starts:
            before, at = -1, start
            for _ in range(LENGTH):
                near = neighbours(at)
                if not near:
                    break
                if before < 0 or (p, q) == (1.0, 1.0):
                    following = near[int(drawn.random() * len(near))]
                else:
                    known = sets[before]
                    weights = [1 / p if x == before else 1.0 if x in known else 1 / q for x in near]
                    following = drawn.choices(near, weights)[0]
                before, at = at, following
                done += 1
        return done

    run()  # fills the lists
    begin = time.perf_counter()
    done = run()
    return done / (time.perf_counter() - begin)


def show(record: dict[str, Any]) -> None:
    for row in record["rows"]:
        print(
            f"{row['case']:32} {row['method']:8} p {row['p']:<4} q {row['q']:<4} "
            f"{row['steps_per_second'] / 1e6:6.1f} M steps/s, {row['ratio']:7.1f} times plain Python "
            f"({'meets' if row['reached'] else 'below'} {row['wanted'] / 1e6:.0f} M)"
        )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = make_parser(__doc__)
    parser.add_argument("--ddi", type=Path, help="folder of ogbl-ddi's files")
    parser.add_argument("--large", action="store_true", help="also a graph as large as ogbl-ppa (3 GB)")
    parser.add_argument("--repeats", type=at_least_one, default=5)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args(arguments)
    torch.set_num_threads(options.threads)
    rows = []
    for name in ("ddi", "collab", *(("ppa",) if options.large else ())):
        if name == "ddi" and options.ddi is not None:
            with tempfile.TemporaryDirectory() as root:
                layout = load("ogbl-ddi", root, source=options.ddi).graph().layout
            data = "real"
        else:
            layout, data = random_graph(*SIZES[name]), "random, of its size"
        check(layout)
        for p, q in ((1.0, 1.0), *BIASES):
            kind = "uniform" if (p, q) == (1.0, 1.0) else "biased"
            fast, slow = ours(layout, p, q, options.repeats), plain_python(layout, p, q)
            rows.append(
                {"case": f"ogbl-{name} ({data})", "method": kind, "p": p, "q": q, "steps_per_second": round(fast),
                 "baseline": "plain Python", "baseline_steps_per_second": round(slow), "ratio": round(fast / slow, 1),
                 "wanted": WANTED[kind], "reached": fast >= WANTED[kind]}
            )  # fmt: skip
    report("walks", rows, show, options, device="cpu", settings={"threads": options.threads, "length": LENGTH})
    return 0 if all(row["reached"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
