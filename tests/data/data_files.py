"""Files that tests of data read: made in OGB's exact layout, real ones where they are, and hostile ones."""

import gzip
import os
from pathlib import Path

import numpy as np
import pytest
import torch

from lrga.data.datasets.source import BuildContext

SPLIT_OF = {"ogbl-ppa": "throughput", "ogbl-collab": "time", "ogbl-ddi": "target"}


def write_csv(path: Path, rows, form="%d") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wt", compresslevel=1) as file:
        np.savetxt(file, rows, delimiter=",", fmt=form)


def make_ogb(folder: Path, name: str, *, nodes=60, seed=0) -> Path:
    """A small set as OGB lays it out: random edges that occur once, split 70/15/15, ten negatives for each split."""
    rng = np.random.default_rng(seed)
    upper = np.stack(np.triu_indices(nodes, 1), 1)
    rng.shuffle(upper)
    edges, others = upper[:400], upper[400:]
    edges = np.where(rng.random((400, 1)) < 0.5, edges, edges[:, ::-1]).astype(np.int64)
    train, valid, test = edges[:280], edges[280:340], edges[340:]
    raw, split = folder / "raw", folder / "split" / SPLIT_OF[name]
    write_csv(raw / "edge.csv.gz", train)
    write_csv(raw / "num-node-list.csv.gz", [[nodes]])
    write_csv(raw / "num-edge-list.csv.gz", [[len(train)]])
    extra = [{}, {}, {}]
    if name == "ogbl-ppa":
        write_csv(raw / "node-feat.csv.gz", np.eye(58, dtype=int)[rng.integers(0, 58, nodes)])
    if name == "ogbl-collab":
        write_csv(raw / "node-feat.csv.gz", rng.standard_normal((nodes, 128)), "%.6f")
        write_csv(raw / "edge_weight.csv.gz", rng.integers(1, 9, (len(train), 1)))
        write_csv(raw / "edge_year.csv.gz", rng.integers(1990, 2017, (len(train), 1)))
        extra = [
            {"weight": rng.integers(1, 9, len(part)), "year": np.full(len(part), year)}
            for part, year in ((train, 2016), (valid, 2018), (test, 2019))
        ]
    split.mkdir(parents=True)
    torch.save({"edge": train} | extra[0], split / "train.pt")
    torch.save(
        {"edge": valid, "edge_neg": others[:30]} | extra[1], split / "valid.pt", _use_new_zipfile_serialization=False
    )
    torch.save({"edge": test, "edge_neg": others[30:70]} | extra[2], split / "test.pt")
    return folder


def shared(name: str = "") -> Path:
    """The real files of that name, which lie beside some checkouts; the test is skipped where they do not."""
    path = Path(__file__).resolve().parents[2] / "../shared/data" / name
    return path if path.exists() else pytest.skip(f"the real files of {name} are not beside this checkout")


def context(folder: Path, source: Path | None = None, **options) -> BuildContext:
    """For a builder that works in ``folder``."""
    return BuildContext(raw=folder / "raw", work=folder / "work", source=source, **options)


class Hostile:
    """Pickles as a command that makes the file ``mark``."""

    def __init__(self, mark: Path):
        self.mark = mark

    def __reduce__(self):
        return os.system, (f"touch {self.mark}",)
