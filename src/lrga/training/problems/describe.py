"""How a user's own graphs or edges were understood, in one or two sentences, and what may be wrong with them."""

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from lrga.data.datasets.spec import SPLITS
from lrga.data.links.data import LinkData
from lrga.data.packed.graphs import PackedGraphs
from lrga.tasks.task import Task

MAX_CLASSES_LISTED = 10
MAX_NAMES_LISTED = 12
MAX_CLASSES_OF_INTEGERS = 20  # from integers; with more they are likely numbers to predict
MIN_TO_CHOOSE_BY = 10  # targets of a split
MAX_EDGES_SORTED = 50_000_000  # to look for their reverse, which takes seconds and gigabytes


def describe(
    splits: Mapping[str, PackedGraphs], task: Task, features: Mapping[str, list[str]], *, asked_for: bool = False
) -> tuple[str, ...]:
    """Sentences on the task, the features, the edges and the splits, then warnings.

    Args:
        splits: ``train``, ``val`` and ``test``, with the targets as the user gave them.
        task: What is predicted.
        features: ``"node"`` and ``"edge"`` → names of the columns of their features.
        asked_for: Whether the user said whether these are classes or numbers to predict.

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
    sizes = ", ".join(f"{name} {len(targets[name]):,}" for name in SPLITS)
    of = ""
    if "mask" in splits["train"].columns:
        rows = splits["train"].columns["mask"].values.size(0)
        of = f" of {rows:,}" if splits["train"].source is splits["test"].source else ""
    if task.kind == "classification":
        what, warnings = _classes(targets, task, asked_for)
    else:
        what, warnings = _labels(targets) if task.kind == "multilabel" else _values(targets, asked_for)
    edges, more = _edges(splits)
    notes = [
        f"{task.level} {task.kind}, {what}; {sizes}{of} {task.level}s",
        f"{_features(splits['train'], features)}, {edges}",
    ]
    warnings += [*more, *_small({name: len(rows) for name, rows in targets.items()}, f"{task.level}s")]
    return (*notes, *(f"warning: {text}" for text in warnings))


def describe_links(data: LinkData) -> tuple[str, ...]:
    """The same of the edges of one graph.

    Example:
        >>> from lrga.data.links.data import LinkSplit
        >>> splits = dict.fromkeys(("train", "val", "test"), LinkSplit(edge=torch.zeros(20, 2).long()))
        >>> describe_links(LinkData(num_nodes=9, edge=splits["train"].edge, splits=splits))
        ('link prediction, 9 nodes, undirected edges without weights; train 20, val 20, test 20 edges',)
    """
    counts = {name: data.splits[name].edge.size(0) for name in SPLITS}
    kind = f"{'un' * data.undirected}directed edges with{'out' * (data.edge_weight is None)} weights"
    sizes = ", ".join(f"{name} {count:,}" for name, count in counts.items())
    note = f"link prediction, {data.num_nodes:,} nodes, {kind}; {sizes} edges"
    return (note, *(f"warning: {text}" for text in _small(counts, "edges")))


def _small(counts: Mapping[str, int], what: str) -> list[str]:
    small = [f"{name} ({counts[name]})" for name in ("val", "test") if counts[name] < MIN_TO_CHOOSE_BY]
    return [f"{' and '.join(small)}: too few {what} for reliable model selection"] * bool(small)


def used_targets(graphs: PackedGraphs, task: Task) -> Tensor:
    """[M] labels or [M, T] values of a split that may be looked at, on the CPU."""
    y, mask = graphs.y, graphs.attribute("mask")
    assert y is not None
    rows = y.reshape(-1) if task.kind == "classification" else y.reshape(-1, task.out_channels)
    return (rows if mask is None else rows[mask]).cpu()


def _classes(targets: Mapping[str, Tensor], task: Task, asked_for: bool) -> tuple[str, list[str]]:
    counts = {name: torch.bincount(rows.long(), minlength=task.out_channels) for name, rows in targets.items()}
    total = torch.stack(list(counts.values())).sum(0).tolist()
    names = task.classes or tuple(map(str, range(task.out_channels)))
    listed = [f"{name} ({count:,})" for name, count in zip(names, total, strict=True)]
    text = ", ".join(listed[:MAX_CLASSES_LISTED]) + (", …" if len(listed) > MAX_CLASSES_LISTED else "")
    warnings = []
    whole = all(name.lstrip("-").isdigit() for name in names)
    many = len(names) > MAX_CLASSES_OF_INTEGERS or (len(names) > 2 and 2 * len(names) > sum(total))
    if whole and many and not asked_for:
        warnings.append(
            f"the integers in y are read as {len(names):,} classes; for a regression, write decimals or "
            "pass --task regression"
        )
    unseen = [
        name for name, count, every in zip(names, counts["train"].tolist(), total, strict=True) if every > count == 0
    ]
    if unseen:
        warnings.append(f"classes in val or test but not in train: {_listed(unseen)}")
    return f"{len(names):,} classes: {text}", warnings


def _labels(targets: Mapping[str, Tensor]) -> tuple[str, list[str]]:
    rows = torch.cat(list(targets.values()))
    text = f"{rows.size(1):,} labels ({rows.isnan().double().mean():.0%} missing)"
    constant = [str(i) for i, own in enumerate(targets["train"].unbind(1)) if len(own[~own.isnan()].unique()) < 2]
    return text, [f"label {_listed(constant)} is constant in the training split"] if constant else []


def _values(targets: Mapping[str, Tensor], asked_for: bool) -> tuple[str, list[str]]:
    train = targets["train"].double()
    low, high = train.amin(0).tolist(), train.amax(0).tolist()
    text = f"{low[0]:,.6g} to {high[0]:,.6g}" if len(low) == 1 else f"{len(low)} values each"
    constant = [str(i) for i, (a, b) in enumerate(zip(low, high, strict=True)) if a == b]
    if constant:
        which = "the target" if len(low) == 1 else f"target {_listed(constant)}"
        return text, [f"{which} is constant in the training split: there is nothing to learn"]
    whole = len(low) == 1 and not asked_for and bool((train == train.round()).all())
    if whole and (count := len(train.unique())) <= MAX_CLASSES_OF_INTEGERS and 2 * count < len(train):
        advice = "if they are classes, write them without a decimal point or pass --task classification"
        return text, [f"y has {count} distinct values, all integers, read as a regression target; {advice}"]
    return text, []


def _features(graphs: PackedGraphs, names: Mapping[str, list[str]]) -> str:
    texts = []
    for level, values in (("node", graphs.x), ("edge", graphs.edge_attr)):
        columns = 0 if values is None else values.shape[1:].numel()
        if values is None or columns == 0:
            texts.append(f"no {level} features")
        elif not values.is_floating_point() and columns == 1:
            texts.append(f"{level} types")
        elif level == "node" and not names.get("node") and columns == 1 and bool(values.eq(1).all()):
            texts.append("no node features (each is 1)")
        else:
            listed = f" ({_listed(names[level])})" if names.get(level) else ""
            texts.append(f"{columns:,} {level} feature{'s' * (columns != 1)}{listed}")
    return ", ".join(texts)


def _listed(names: list[str]) -> str:
    return ", ".join(names[:MAX_NAMES_LISTED]) + (", …" if len(names) > MAX_NAMES_LISTED else "")


def _edges(splits: Mapping[str, PackedGraphs]) -> tuple[str, list[str]]:
    """Whether edges have a direction, and a warning where none has its reverse."""
    total, back, repeated = 0, 0, 0
    different = {id(graphs.source): graphs for graphs in splits.values()}  # masked splits share their graphs
    if (count := sum(graphs.num_edges for graphs in different.values())) > MAX_EDGES_SORTED:
        return f"{count:,} edges", []
    for graphs in different.values():
        source, target = graphs.edge_index.cpu().numpy()
        source, target = source[source != target], target[source != target]
        key = np.unique(source * graphs.num_nodes + target)
        mirrored = np.unique(target * graphs.num_nodes + source)
        total, back = total + len(key), back + len(np.intersect1d(key, mirrored, assume_unique=True))
        repeated += len(source) - len(key)
    notes = [f"{repeated:,} duplicate edges; each sends its own message"] if repeated else []
    if total == 0:
        return "no edges", ["there are no edges: only the attention connects the nodes of a graph"]
    if back == total:
        return "undirected edges", notes
    if back > total // 10:
        return f"directed edges ({100 * back / total:.0f}% with their reverse)", notes
    text = "edges are directed, so messages flow one way only: list both directions of undirected edges"
    return "directed edges", [text, *notes]
