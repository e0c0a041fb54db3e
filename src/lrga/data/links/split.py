"""Splits edges into edges to train on and edges to predict: at random, by time, or as given."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from lrga.checks import check_choice, check_count, check_flag
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


def split_edges(
    edge: np.ndarray,
    node_ids: tuple[str, ...] | None,
    weight: np.ndarray | None = None,
    time: np.ndarray | None = None,
    given: np.ndarray | None = None,
    *,
    fractions: Sequence[float] | None = None,
    by: str | None = None,
    directed: bool = False,
    seed: int = 41,
    negatives: int | None = None,
    where: str = "the edges",
) -> LinkData:
    """Splits edges ``[E', 2]`` into the training graph and the edges to predict.

    Self-loops are dropped. Repeated edges become one edge with the sum of their weights and the earliest of their
    times. ``meta["notes"]`` reports both. In a split by time, repetitions after the last edge of a split do not count
    in the weights of that split. An edge in two given splits is an error: it would be known before it is predicted.

    The options are those of :func:`lrga.data.own.edge_list.load_edge_list`.
    """
    check_choice("split_by", by, (None, *KINDS))
    if fractions is not None:
        check_fractions(fractions)
    check_flag("directed", directed)
    check_count("seed", seed)
    if negatives is not None:
        check_count("negatives", negatives, minimum=1)
        check_memory(32 * negatives, f"{negatives:,} negative pairs", remedy="use fewer", error=OptionError)
    num_nodes = len(node_ids) if node_ids is not None else int(edge.max(initial=-1)) + 1
    given_columns = {"edge": edge, "weight": weight, "time": time, "given": given}
    loops, notes = edge[:, 0] == edge[:, 1], []
    if loops.any():
        notes.append(f"{int(loops.sum()):,} edges from a node to itself left out")
    rows = {key: values[~loops] for key, values in given_columns.items() if values is not None}
    if loops.all():
        raise DataError(f"edges between different nodes in {where}", "none", "add some")

    ends = rows["edge"] if directed else np.sort(rows["edge"], axis=1)
    _, first, number = np.unique(ends[:, 0] * num_nodes + ends[:, 1], return_index=True, return_inverse=True)
    order = np.argsort(first)  # edges in the order of their first row
    first, number = first[order], np.argsort(order)[number.reshape(-1)]  # number [rows]: the edge of each row
    edges = {key: values[first] for key, values in rows.items()}
    if given is not None and (apart := rows["given"] != edges["given"][number]).any():
        nodes = rows["edge"][np.argmax(apart)].tolist()
        pair = ", ".join(str(node) if node_ids is None else node_ids[node] for node in nodes)
        raise DataError(f"every edge in one split in {where}", f"the edge {pair} in two", "keep each edge in one split")
    if len(first) < len(number):
        notes.append(f"{len(number) - len(first):,} repeated edges joined with their first")
    if time is not None:
        edges["time"] = np.full(len(first), np.inf)
        np.minimum.at(edges["time"], number, rows["time"])
    by = by or ("random" if given is None else "given")
    code = _codes(by, edges, fractions, seed, where)
    if weight is not None:
        late = np.zeros(len(number), bool)
        if by == "time":
            end = np.array([edges["time"][code == split].max(initial=-np.inf) for split in range(len(SPLITS))])
            late = rows["time"] > end[code[number]]
        edges["weight"] = np.bincount(number, np.where(late, 0.0, rows["weight"]))
        if late.any():
            notes.append(f"{int(late.sum()):,} repeated edges later than their split ignored in its weights")

    splits = {}
    pairs = NoEdgePairs(torch.from_numpy(edges["edge"]), num_nodes, undirected=not directed)
    for split, name in enumerate(SPLITS):
        chosen = np.flatnonzero(code == split)
        if by == "time":
            chosen = chosen[np.argsort(edges["time"][chosen], kind="stable")]
        part = {key: torch.from_numpy(values[chosen]) for key, values in edges.items()}
        negative = None
        if name != "train":
            wanted = negatives or max(len(chosen), min(MIN_NEGATIVES, pairs.count))
            generator = torch.Generator().manual_seed(seed * 3 + split)
            negative = pairs.draw(wanted, generator=generator).t().contiguous()
        splits[name] = LinkSplit(
            edge=part["edge"],
            edge_neg=negative,
            weight=part["weight"].float() if weight is not None else None,
            # integers, like OGB's years; only their order is used
            time=part["time"].clamp(-(2.0**62), 2.0**62).long() if time is not None else None,
        )
    train, counts = splits["train"], [f"{len(splits[name].edge):,}" for name in SPLITS]
    if by != "random":
        notes.append(f"split {by}: {counts[0]} edges to train on, {counts[1]} for validation, {counts[2]} for test")
    data = LinkData(
        num_nodes=num_nodes,
        edge=train.edge,
        splits=splits,
        undirected=not directed,
        edge_weight=train.weight,
        edge_time=train.time,
        metric="auc",
        node_ids=node_ids,
        meta={"notes": notes, "split": by, "seed": seed},
    )
    data.check(where)
    return data


def _codes(
    by: str, edges: Mapping[str, np.ndarray], fractions: Sequence[float] | None, seed: int, where: str
) -> np.ndarray:
    """[E'] 0, 1 or 2 for train, val and test."""
    if by != "random" and by not in edges:
        add = "add it, below a header or as fourth column" if by == "time" else "add it"
        more = ", or split the edges at random" + (" or by time" if by == "given" else "")
        raise DataError(f"a column {by.replace('given', 'split')!r} in {where}", "none", f"{add}{more}")
    if by == "given":
        if fractions is not None:
            remedy = "omit them, or split at random or by time (--split-by)"
            raise OptionError("one split of the edges", f"fractions as well as the column split of {where}", remedy)
        return edges["given"]
    count = len(edges["edge"])
    if by == "time":
        order = np.argsort(edges["time"], kind="stable")
    else:
        order = np.random.default_rng(seed).permutation(count)
    held = [max(1, round(fraction * count)) for fraction in (fractions or DEFAULT_FRACTIONS)[1:]]
    code = np.zeros(count, dtype=np.int64)
    code[order[count - sum(held) :]] = 1
    code[order[count - held[1] :]] = 2
    return code
