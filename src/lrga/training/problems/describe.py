"""Describes how a user's own graphs or edges were read, in one or two sentences, with warnings."""

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor
from torch_geometric.utils import is_undirected

from lrga.data.datasets.spec import SPLITS
from lrga.data.links.data import LinkData
from lrga.data.packed.graphs import PackedGraphs
from lrga.tasks.task import Task

MAX_LISTED = 12
MAX_CLASSES_OF_INTEGERS = 20  # more distinct integers are likely regression targets
MAX_EDGES_SORTED = 50_000_000  # limit of the search for reverse edges, which takes seconds and gigabytes


def describe(
    splits: Mapping[str, PackedGraphs], task: Task, features: Mapping[str, list[str]], *, asked_for: bool = False
) -> tuple[str, ...]:
    """Sentences on the task, the features, the edges and the splits, then warnings.

    Args:
        splits: ``train``, ``val`` and ``test``, with the original targets.
        task: The task.
        features: ``"node"``, ``"edge"`` and ``"target"`` → names of the columns.
        asked_for: Whether the user chose between classification and regression.

    Example:
        >>> from torch_geometric.data import Data
        >>> path, y = torch.tensor([[0, 1], [1, 0]]), [torch.tensor([i % 2]) for i in range(10)]
        >>> graphs = PackedGraphs.from_data_list([Data(x=torch.ones(2, 3), edge_index=path, y=one) for one in y])
        >>> task = Task(level="graph", kind="classification", out_channels=2)
        >>> notes = describe(dict.fromkeys(("train", "val", "test"), graphs), task, {})
        >>> notes[0]
        'graph classification, 2 classes: 0 (15), 1 (15); train 10, val 10, test 10 graphs'
        >>> notes[1]
        '3 node features, no edge features, undirected edges'
    """
    targets = {name: used_targets(splits[name], task) for name in SPLITS}
    of = ""
    if "mask" in splits["train"].columns and splits["train"].source is splits["test"].source:
        of = f" of {splits['train'].columns['mask'].values.size(0):,}"
    what, warnings = (_classes if task.kind == "classification" else _values)(targets, task, asked_for)
    if features.get("target"):
        what += f" ({_listed(features['target'])})"
    edges, more = _edges(splits)
    sizes = ", ".join(f"{name} {len(rows):,}" for name, rows in targets.items())
    return (
        f"{task.level} {task.kind}, {what}; {sizes}{of} {task.level}s",
        f"{', '.join(_features(splits['train'], features))}, {edges}",
        *(f"warning: {text}" for text in (*warnings, *more)),
    )


def describe_links(data: LinkData) -> str:
    """:func:`describe` for link prediction on one graph.

    Example:
        >>> from lrga.data.links.data import LinkSplit
        >>> splits = dict.fromkeys(("train", "val", "test"), LinkSplit(edge=torch.zeros(20, 2).long()))
        >>> describe_links(LinkData(num_nodes=9, edge=splits["train"].edge, splits=splits))
        'link prediction, 9 nodes, undirected edges without weights; train 20, val 20, test 20 edges'
    """
    sizes = ", ".join(f"{name} {data.splits[name].edge.size(0):,}" for name in SPLITS)
    weight, weights = data.edge_weight, "without weights"
    if weight is not None and weight.numel():  # shows a column of times that was read as weights
        weights = f"with weights from {float(weight.min()):g} to {float(weight.max()):g}"
    kind = f"{'un' * data.undirected}directed edges {weights}"
    return f"link prediction, {data.num_nodes:,} nodes, {kind}; {sizes} edges"


def used_targets(graphs: PackedGraphs, task: Task) -> Tensor:
    """The labels [M] or values [M, T] of a split that may be used, on the CPU."""
    y, mask = graphs.y, graphs.attribute("mask")
    assert y is not None
    rows = y.reshape(-1) if task.kind == "classification" else y.reshape(-1, task.out_channels)
    return (rows if mask is None else rows[mask]).cpu()


def _classes(targets: Mapping[str, Tensor], task: Task, asked_for: bool) -> tuple[str, list[str]]:
    seen = torch.bincount(targets["train"].long(), minlength=task.out_channels).tolist()
    counts = torch.bincount(torch.cat(list(targets.values())).long(), minlength=task.out_channels).tolist()
    names = task.classes or tuple(map(str, range(task.out_channels)))
    text = f"{len(names):,} classes: {_listed(f'{n} ({count:,})' for n, count in zip(names, counts, strict=True))}"
    whole = all(name.lstrip("-").isdigit() for name in names)
    many = len(names) > MAX_CLASSES_OF_INTEGERS or (len(names) > 2 and 2 * len(names) > sum(counts))
    unseen = [name for name, own, all_of_it in zip(names, seen, counts, strict=True) if all_of_it > own == 0]
    warnings = [f"classes in val or test but not in train: {_listed(unseen)}"] if unseen else []
    if whole and many and not asked_for:
        advice = "for a regression, write decimals or pass --task regression"
        warnings.append(f"the integers in y are read as {len(names):,} classes; {advice}")
    return text, warnings


def _values(targets: Mapping[str, Tensor], task: Task, asked_for: bool) -> tuple[str, list[str]]:
    train = targets["train"].double()
    if task.kind == "multilabel":
        missing = torch.cat(list(targets.values())).isnan().double().mean()
        return f"{task.out_channels:,} labels ({missing:.0%} missing)", []
    if task.out_channels > 1:
        return f"{task.out_channels:,} targets", []
    text, count = f"{float(train.min()):,.6g} to {float(train.max()):,.6g}", len(train.unique())
    if count == 1:
        return text, ["the target is constant in the training split: there is nothing to learn"]
    whole = not asked_for and bool((train == train.round()).all())
    if not whole or count > MAX_CLASSES_OF_INTEGERS or 2 * count >= len(train):
        return text, []
    advice = "if they are classes, write them without a decimal point or pass --task classification"
    return text, [f"y has {count} distinct values, all integers, read as a regression target; {advice}"]


def _features(graphs: PackedGraphs, names: Mapping[str, list[str]]) -> Iterable[str]:
    for level, values in (("node", graphs.x), ("edge", graphs.edge_attr)):
        columns = 0 if values is None else values.shape[1:].numel()
        if values is None or columns == 0:
            yield f"no {level} features"
        elif not values.is_floating_point() and columns == 1:
            yield f"{level} types"
        elif level == "node" and not names.get("node") and columns == 1 and bool(values.eq(1).all()):
            yield "no node features (each is 1)"
        else:
            listed = f" ({_listed(names[level])})" if names.get(level) else ""
            yield f"{columns:,} {level} feature{'s' * (columns != 1)}{listed}"


def _listed(names: Iterable[str]) -> str:
    first, *more = names
    return ", ".join([first, *more[: MAX_LISTED - 1], *["…"] * (len(more) >= MAX_LISTED)])


def _edges(splits: Mapping[str, PackedGraphs]) -> tuple[str, list[str]]:
    """Describes the edges, with a warning if there are none."""
    different = {id(graphs.source): graphs for graphs in splits.values()}.values()  # masked splits share graphs
    count = sum(graphs.num_edges for graphs in different)
    if count == 0:
        return "no edges", ["there are no edges: only the attention connects the nodes of a graph"]
    if count > MAX_EDGES_SORTED:
        return f"{count:,} edges", []
    if all(is_undirected(graphs.edge_index.cpu(), num_nodes=graphs.num_nodes) for graphs in different):
        return "undirected edges", []
    return "directed edges (messages flow one way only: list both directions of undirected edges)", []
