"""Splits edges into edges to train on and edges to predict: at random, by time, or as given."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch

from lrga.checks import check_count
from lrga.data.links.data import SPLITS, LinkData, LinkSplit
from lrga.data.links.negatives import NoEdgePairs
from lrga.errors import DataError, OptionError
from lrga.io.limits import check_memory

KINDS = ("random", "time", "given")
MIN_NEGATIVES = 1_000
DEFAULT_FRACTIONS = (0.8, 0.1, 0.1)


def check_fractions(fractions: Any) -> None:
    """Raises an error unless ``fractions`` are three numbers above 0 that add up to 1."""
    good = isinstance(fractions, Sequence) and not isinstance(fractions, str) and len(fractions) == len(SPLITS)
    good = good and all(isinstance(fraction, int | float) and 0 < fraction < 1 for fraction in fractions)
    if not good or abs(sum(fractions) - 1) > 1e-6:
        expected = "split, three fractions above 0 that add up to 1 (train, val, test)"
        raise OptionError(expected, repr(fractions), "pass for example 0.8,0.1,0.1")


@dataclass(frozen=True, kw_only=True)
class SplitRequest:
    """Options of a split of edges; see :func:`lrga.data.own.edge_list.load_edge_list`."""

    fractions: Sequence[float] | None = None
    by: str | None = None
    directed: bool = False
    seed: int = 41
    negatives: int | None = None

    def __post_init__(self) -> None:
        if self.by is not None and self.by not in KINDS:
            raise OptionError(f"split_by to be one of {', '.join(KINDS)}", repr(self.by), "choose one of these")
        if self.fractions is not None:
            check_fractions(self.fractions)
        if not isinstance(self.directed, bool):
            raise OptionError("directed to be true or false", repr(self.directed), "pass a bool")
        check_count("seed", self.seed)
        if self.negatives is not None:
            check_count("negatives", self.negatives, minimum=1)
            what, remedy = f"{self.negatives:,} negative pairs", "ask for fewer"
            check_memory(32 * self.negatives, what, remedy=remedy, error=OptionError)


def split_edges(
    edge: np.ndarray,
    node_ids: tuple[str, ...] | None,
    request: SplitRequest,
    *,
    weight: np.ndarray | None = None,
    time: np.ndarray | None = None,
    given: np.ndarray | None = None,
    where: str = "the edges",
) -> LinkData:
    """Splits edges ``[E', 2]`` into the training graph and the edges to predict.

    Self-loops are dropped. Repeated edges become one edge with the sum of their weights and the earliest of their
    times. ``meta["notes"]`` reports both. In a split by time, repetitions after the last edge of a split do not count
    in the weights of that split. An edge in two given splits is an error: it would be known before it is predicted.
    """
    num_nodes = len(node_ids) if node_ids is not None else int(edge.max(initial=-1)) + 1
    columns: dict[str, Any] = {"weight": weight, "time": time, "given": given}
    edge, columns, notes, repeats = _clean(edge, columns, num_nodes, node_ids, request, where)
    by = request.by or ("random" if given is None else "given")
    code = _codes(by, request, len(edge), columns, where)
    if by == "time" and repeats is not None and repeats.weight is not None:
        end = np.array([columns["time"][code == number].max(initial=-np.inf) for number in range(len(SPLITS))])
        late = repeats.time > end[code[repeats.edge]]
        columns["weight"] = np.bincount(repeats.edge, np.where(late, 0.0, repeats.weight))
        notes += [f"{int(late.sum()):,} repeated edges later than their split ignored in its weights"] * bool(
            late.any()
        )
    counts = np.bincount(code, minlength=3)
    splits = {}
    pairs = NoEdgePairs(torch.from_numpy(edge), num_nodes, undirected=not request.directed)
    for number, name in enumerate(SPLITS):
        rows = np.flatnonzero(code == number)
        if by == "time":
            rows = rows[np.argsort(columns["time"][rows], kind="stable")]
        part = torch.from_numpy(edge[rows])
        negative = None
        if name != "train":
            wanted = request.negatives or max(len(rows), min(MIN_NEGATIVES, pairs.count))
            generator = torch.Generator().manual_seed(request.seed * 3 + number)
            negative = pairs.draw(wanted, generator=generator).t().contiguous()
        splits[name] = LinkSplit(part, negative, _tensor(columns["weight"], rows), _whole(columns["time"], rows))
    train = splits["train"]
    notes.append(f"split {by}: {counts[0]:,} edges to train on, {counts[1]:,} for validation, {counts[2]:,} for test")
    data = LinkData(
        num_nodes=num_nodes,
        edge=train.edge,
        splits=splits,
        undirected=not request.directed,
        edge_weight=train.weight,
        edge_time=train.time,
        metric="auc",
        node_ids=node_ids,
        meta={"notes": notes[:-1] if by == "random" else notes, "split": by, "seed": request.seed},
    )
    data.check(where)
    return data


class _Repeats(NamedTuple):
    """Every row of a list with repeated edges: the number of its edge, its weight and its time."""

    edge: np.ndarray
    weight: Any
    time: Any


def _clean(
    edge: np.ndarray,
    columns: dict[str, Any],
    num_nodes: int,
    node_ids: tuple[str, ...] | None,
    request: SplitRequest,
    where: str,
) -> tuple[np.ndarray, dict[str, Any], list[str], _Repeats | None]:
    def chosen(columns: dict[str, Any], rows: np.ndarray) -> dict[str, Any]:
        return {key: None if values is None else values[rows] for key, values in columns.items()}

    notes = []
    loops = edge[:, 0] == edge[:, 1]
    if loops.any():
        notes.append(f"{int(loops.sum()):,} edges from a node to itself left out")
        edge, columns = edge[~loops], chosen(columns, ~loops)
    if len(edge) == 0:
        raise DataError(f"edges between different nodes in {where}", "none", "add some")
    ends = edge if request.directed else np.sort(edge, axis=1)
    keys = ends[:, 0] * num_nodes + ends[:, 1]
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    inverse = inverse.reshape(-1)
    if len(first) == len(edge):
        return edge, columns, notes, None
    if columns["given"] is not None and (columns["given"] != columns["given"][first][inverse]).any():
        row = int(np.flatnonzero(columns["given"] != columns["given"][first][inverse])[0])
        expected = f"every edge in one split in {where}"
        pair = ", ".join(str(node) if node_ids is None else node_ids[node] for node in edge[row].tolist())
        raise DataError(expected, f"the edge {pair} in two", "keep each edge in one split")
    notes.append(f"{len(edge) - len(first):,} repeated edges joined with their first")
    joined = chosen(columns, first)
    if columns["weight"] is not None:
        joined["weight"] = np.bincount(inverse, weights=columns["weight"])
    if columns["time"] is not None:
        joined["time"] = np.full(len(first), np.inf)
        np.minimum.at(joined["time"], inverse, columns["time"])
    order = np.argsort(first, kind="stable")  # in the given order
    repeats = _Repeats(np.argsort(order)[inverse], columns["weight"], columns["time"])
    return edge[first][order], chosen(joined, order), notes, repeats


def _codes(by: str, request: SplitRequest, count: int, columns: dict[str, Any], where: str) -> np.ndarray:
    if by == "given":
        if columns["given"] is None:
            raise DataError(f"a column 'split' in {where}", "none", "add it, or split the edges at random or by time")
        if request.fractions is not None:
            remedy = "omit them, or split at random or by time (--split-by)"
            raise OptionError("one split of the edges", f"fractions as well as the column split of {where}", remedy)
        return np.asarray(columns["given"])
    if by == "time":
        if columns["time"] is None:
            raise DataError(f"a column 'time' in {where}", "none", "add it, or split the edges at random")
        order = np.argsort(columns["time"], kind="stable")
    else:
        order = np.random.default_rng(request.seed).permutation(count)
    held = [max(1, round(fraction * count)) for fraction in (request.fractions or DEFAULT_FRACTIONS)[1:]]
    code = np.zeros(count, dtype=np.int64)
    code[order[count - sum(held) :]] = 1
    code[order[count - held[1] :]] = 2
    return code


def _tensor(values: np.ndarray | None, rows: np.ndarray) -> torch.Tensor | None:
    return None if values is None else torch.from_numpy(values[rows]).float()


def _whole(values: np.ndarray | None, rows: np.ndarray) -> torch.Tensor | None:
    """Times as integers, like OGB's years; only their order is used."""
    if values is None:
        return None
    return torch.from_numpy(values[rows].clip(-(2.0**62), 2.0**62).astype(np.int64))
