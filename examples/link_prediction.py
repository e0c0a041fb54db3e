"""Predicts missing links of your own graph, from an edge list to the ten most likely new links.

    python examples/link_prediction.py [edges.csv]

Without a file, a small social network is generated: people of four clubs, who mostly know people of their own club. The
model is trained on 80 % of the links and must distinguish the other links from random pairs. The same from the command
line:

    lrga train ./edges.csv --task link --model gcn --split-by time
    lrga predict runs/edges-lrga-gcn-seed41 --node ann --top-k 10
"""

import random
import sys
import tempfile
from pathlib import Path

from lrga.data.own.edge_list import load_edge_list
from lrga.training import train
from lrga.training.predict import LinkScorer
from lrga.training.presets import make_config


def social_network(path: Path, people: int = 120, clubs: int = 4) -> Path:
    """Writes an edge list with a header and the year in which two people met."""
    drawn = random.Random(0)
    lines = ["source,target,year"]
    for a in range(people):
        for b in range(a):
            chance = 0.45 if a % clubs == b % clubs else 0.01
            if drawn.random() < chance:
                lines.append(f"person{a},person{b},{drawn.randrange(2000, 2026)}")
    path.write_text("\n".join(lines) + "\n")
    return path


def main() -> None:
    folder = Path(tempfile.mkdtemp())
    edges = Path(sys.argv[1]) if len(sys.argv) > 1 else social_network(folder / "edges.csv")
    data = load_edge_list(edges, split=(0.8, 0.1, 0.1), seed=0)
    print(
        f"{data.num_nodes} nodes, {data.edge.size(0)} edges to learn from, {data.splits['test'].edge.size(0)} to find"
    )

    for lrga in (False, True):
        rank = {"rank": 8} if lrga else {}
        config = make_config(
            str(edges), data_options={"task": "link"}, lrga=lrga, hidden=32, max_epochs=60, lr=0.01, seed=0, **rank
        )
        result = train(config, folder / f"run-{'lrga' if lrga else 'plain'}", data=data)
        print(f"{'LRGA + GCN' if lrga else 'GCN':10} test AUC {result.test:.3f} (best validation epoch)")

    scorer = LinkScorer.of(folder / "run-lrga", data=data)
    node = scorer.name(0)
    print(f"most likely new links of {node}:")
    for other, score in scorer.top(0, 5):
        print(f"  {scorer.name(other):12} {score:.3f}")


if __name__ == "__main__":
    main()
