"""Predictions of a trained model on new graphs."""

import csv
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import IO, Any

import torch
from torch import Tensor, nn

from lrga.checks import check_count
from lrga.data.datasets.building import load
from lrga.data.datasets.spec import SPLITS, dataset_name, spec_of
from lrga.data.encodings import with_encodings
from lrga.data.links.data import LinkData
from lrga.data.own.edge_list import read_pairs
from lrga.data.own.reading import load_inputs
from lrga.data.own.table import number
from lrga.data.packed.batch import PackedBatch
from lrga.data.packed.graphs import PackedGraphs
from lrga.errors import CheckpointError, DataError, DTypeError, NonFiniteError, OptionError, ShapeError
from lrga.io.files import atomic_path
from lrga.models.gnn import EDGE_CONVOLUTIONS
from lrga.tasks.losses import wide
from lrga.tasks.task import Task
from lrga.training.determinism import choose_device, forked_devices
from lrga.training.evaluate import run_model
from lrga.training.problems.architecture import Architecture
from lrga.training.problems.data import load_link_source
from lrga.training.problems.links import LinkNetwork, Messages, scores_of
from lrga.training.runs.folder import RunFolder
from lrga.training.runs.run import load_run
from lrga.training.runs.trust import data_from_file


@dataclass(frozen=True)
class Predictor:
    """A saved model and the facts needed to interpret its output: ``Predictor.of("runs/my-run")``."""

    model: nn.Module
    task: Task
    architecture: Architecture
    folder: Path
    device: torch.device
    features: Mapping[str, list[str]] | None = None  # column names; None in runs of older versions

    @classmethod
    def of(cls, folder: str | Path, *, which: str = "last", device: str = "auto") -> "Predictor":
        """The model of a run folder; ``which`` as in :func:`~lrga.training.runs.run.load_run`."""
        run_folder, on = RunFolder(folder), choose_device(device)
        model, config = load_run(folder, which=which, device=str(on))
        architecture, task, _ = run_folder.model_facts()
        if not isinstance(task, Task) or not isinstance(architecture, Architecture):
            remedy = "predict links with: lrga predict RUN PAIRS, or LinkScorer in Python"
            raise OptionError(f"a run on graphs in {folder}", f"link prediction on {config.data.name}", remedy)
        return cls(model, task, architecture, Path(folder), on, run_folder.features())

    def read(self, source: str | Path, *, root: str | Path | None = None, trust: bool = False) -> PackedGraphs:
        """Graphs from ``source``: anything :func:`~lrga.data.own.reading.load_inputs` reads, or a split of a named
        data set as ``ZINC/test``. The graphs are checked against the model, and feature columns are reordered by
        name. The run's data root is written to only with ``trust``.

        ``meta["notes"]`` of the graphs holds notes on reading them.
        """
        name, _, split = str(source).partition("/")
        dataset, trained_on = dataset_name(name), False
        if dataset is None or spec_of(dataset).links:
            graphs = load_inputs(source)
        else:
            split = split or "test"
            if split not in SPLITS:
                raise OptionError(f"a split of {dataset}: {', '.join(SPLITS)}", repr(split), f"write {dataset}/test")
            data = RunFolder(self.folder).config().data
            trained_on = data.name == dataset
            if not trained_on:
                data = replace(data, name=dataset, source=None, options={})
            data = data_from_file(data, self.folder, trust=trust, root=root)
            graphs = load(dataset, data.root, source=data.source, **data.options)[split]
        return self.fitted(graphs, str(source), trained_on=trained_on)

    def fitted(self, graphs: PackedGraphs, source: str, *, trained_on: bool = False) -> PackedGraphs:
        """The graphs with their feature columns in the order of training, by name.

        Graphs without the features that the model was trained on are an error. Edges without features are allowed for
        the data set that it was ``trained_on``, where they are ones too.
        """
        if len(graphs) == 0:
            raise DataError(f"graphs in {source}", "none", "pass at least one graph")
        for level, name, encoder, channels in _inputs(self.architecture):
            graphs = self._in_order(graphs, level, name, source)
            values = getattr(graphs, name)
            if level == "node" or values is not None or not trained_on:
                _check_features(f"({name}) in {source}", level, values, encoder, channels)
        return graphs

    def _in_order(self, graphs: PackedGraphs, level: str, name: str, source: str) -> PackedGraphs:
        found, wanted = graphs.meta.get(f"{level}_names"), (self.features or {}).get(level)
        if found == wanted:
            return graphs
        if found is None or wanted is None:
            side = "of the run" if wanted is None else f"in {source}"
            note = f"the names of the {level} features {side} are unknown: columns are matched by position"
            graphs.meta["notes"] = [*graphs.meta.get("notes", []), note]
            return graphs
        missing, unknown = ([n for n in a if n not in b] for a, b in ((wanted, found), (found, wanted)))
        if missing or unknown:
            got = [f"without {', '.join(missing)}"] * bool(missing) + [f"with {', '.join(unknown)}"] * bool(unknown)
            expected = f"the {level} features {', '.join(wanted) or '(none)'} in {source}"
            raise DataError(expected, f"columns {' and '.join(got)}", "name the columns as in training")
        column = graphs.columns[name]
        values = column.values[:, [found.index(n) for n in wanted]].contiguous()
        return graphs.with_column(name, replace(column, values=values))

    def header(self) -> list[str]:
        """Column names of :meth:`rows`."""
        ids = {"graph": ["graph"], "node": ["graph", "node"], "edge": ["graph", "source", "target"]}[self.task.level]
        if self.task.kind != "regression":
            label = ["prediction"] * (self.task.kind == "classification")
            return [*ids, *label, *(f"score_{name}" for name in self._classes())]
        several = self.task.out_channels > 1
        return [*ids, *([f"prediction_{name}" for name in self._classes()] if several else ["prediction"])]

    @torch.no_grad()
    def rows(self, graphs: PackedGraphs, *, batch_size: int = 128) -> Iterator[list[Any]]:
        """A row for each graph, node or edge, in the input order: ids, prediction, scores.

        Scores are probabilities: softmax over classes, or sigmoid of each label. The noise of random features follows
        from the run's seed.
        """
        graphs = with_encodings(graphs, self.architecture.encoding).to(self.device)
        with torch.random.fork_rng(forked_devices(self.device)):
            torch.manual_seed(RunFolder(self.folder).config().run.seed)
            for number, batch in enumerate(graphs.batches(batch_size)):
                output = run_model(self.model, with_features(batch, self.architecture))
                if not bool(output.isfinite().all()):
                    got = f"NaN or infinity in batch {number + 1} of {batch_size} graphs"
                    raise NonFiniteError("finite predictions", got, "check the features of these graphs")
                if self.task.level == "edge":
                    output = batch.in_original_order(output)
                yield from self._rows_of(graphs, batch, number * batch_size, wide(output).cpu())

    def _rows_of(self, graphs: PackedGraphs, batch: PackedBatch, first: int, output: Tensor) -> Iterator[list[Any]]:
        values: list[list[Any]]
        if self.task.kind == "classification":
            names, shares = self._classes(), output.softmax(dim=1)
            best = shares.argmax(dim=1).tolist()
            values = [[names[i], *(f"{s:.6g}" for s in row)] for i, row in zip(best, shares.tolist(), strict=True)]
        elif self.task.kind == "multilabel":
            values = [[f"{s:.6g}" for s in row] for row in output.sigmoid().tolist()]
        else:
            scales = zip(self.task.target_mean or (), self.task.target_std or (), strict=True)
            # 7 digits for the difference from the mean, which may be much larger
            digits = [min(17, 7 + max(0, math.ceil(math.log10(max(abs(m), std) / std)))) for m, std in scales]
            digits = digits or [7] * self.task.out_channels
            values = [[f"{v:.{n}g}" for v, n in zip(row, digits, strict=True)] for row in output.tolist()]
        for ids, row in zip(_ids(graphs, batch, first, self.task.level), values, strict=True):
            yield [*ids, *row]

    def _classes(self) -> list[str]:
        targets = (self.features or {}).get("target")
        return list(self.task.classes or targets or (str(i) for i in range(self.task.out_channels)))


def write_table(
    header: Sequence[str], rows: Iterable[Sequence[Any]], target: IO[str] | str | Path, *, escape_formulas: bool = False
) -> int:
    """Writes rows below a header as CSV; returns their number.

    Args:
        header: Column names.
        rows: Names and numbers.
        target: An open file, or a path, which is written atomically; with several writers the last one wins.
        escape_formulas: Whether to put an apostrophe before names that a spreadsheet would run as a formula: those that
            begin with ``=``, ``+``, ``-``, ``@``, a tab or a line break and are not numbers.

    Example:
        >>> import sys
        >>> write_table(["node", "prediction"], [["=1+1", "-2.5"]], sys.stdout, escape_formulas=True)
        node,prediction
        '=1+1,-2.5
        1
    """
    if isinstance(target, str | Path):
        with atomic_path(Path(target)) as temporary, open(temporary, "w", encoding="utf-8", newline="") as file:
            return write_table(header, rows, file, escape_formulas=escape_formulas)
    writer = csv.writer(target, lineterminator="\n")
    convert: Callable[[Any], Any] = _escaped if escape_formulas else lambda value: value
    writer.writerow(map(convert, header))
    count = 0
    for row in rows:
        writer.writerow(map(convert, row))
        count += 1
    return count


def _escaped(value: Any) -> Any:
    is_formula = isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r", "\n"))
    return "'" + value if is_formula and number(value) is None else value


def _inputs(model: Architecture) -> Iterator[tuple[str, str, str, int | list[int]]]:
    """Level, column, encoder and width of the features that the model reads."""
    if not model.random_features:
        yield "node", "x", model.encoder, model.in_channels
    if model.conv in EDGE_CONVOLUTIONS and model.edge_encoder != "ones":
        yield "edge", "edge_attr", model.edge_encoder, model.edge_channels


def _check_features(
    where: str, level: str, values: Tensor | None, encoder: str, channels: int | list[int]
) -> None:  # fmt: skip
    remedy = "use graphs with the features that the model was trained on"
    if isinstance(channels, list):
        sizes, wanted = channels, f"{len(channels)} types for each {level}, below {', '.join(map(str, channels))},"
    elif encoder == "embedding":
        sizes, wanted = [channels], f"{level} types 0 to {channels - 1}"
    else:
        sizes, wanted = [], f"{channels} numbers for each {level}"
    wanted += f" {where}"
    if values is None:
        raise DataError(wanted, "none", remedy)
    columns = values.shape[1:].numel()
    if sizes:
        if values.is_floating_point() or columns != len(sizes):
            kind = "real numbers" if values.is_floating_point() else "types"
            raise DataError(wanted, f"{columns} {kind} each", remedy)
        for column, size in zip(values.view(len(values), -1).t(), sizes, strict=True):
            if column.numel() and not 0 <= int(column.min()) <= int(column.max()) < size:
                got = f"type {int(column.max()) if int(column.min()) >= 0 else int(column.min())}"
                raise DataError(wanted, got, "remove graphs with types that are not in training, or train again")
    elif columns != channels:
        raise DataError(wanted, f"{columns} each", remedy)


def with_features(batch: PackedBatch, model: Architecture) -> PackedBatch:
    """Converts integer features to float if the model expects real numbers."""
    for _, name, encoder, _ in _inputs(model):
        values = getattr(batch, name)
        if encoder == "linear" and values is not None and not values.is_floating_point():
            setattr(batch, name, values.float().view(values.size(0), -1))
    return batch


def _ids(graphs: PackedGraphs, batch: PackedBatch, first: int, level: str) -> Iterator[list[Any]]:
    rows = slice(first, first + batch.num_graphs)
    names: Sequence[Any] = (graphs.objects.get("graph_id") or range(len(graphs)))[rows]
    if level == "graph":
        yield from ([name] for name in names)
        return
    ids = graphs.objects.get("node_id", [])[rows] or map(range, batch.ptr.diff().tolist())
    nodes = [[name, node] for name, own in zip(names, ids, strict=True) for node in own]
    if level == "node":
        yield from nodes
        return
    for source, target in batch.in_original_order(batch.edge_index.t().contiguous()).tolist():
        yield [*nodes[source], nodes[target][1]]


@dataclass(frozen=True)
class LinkScorer:
    """A saved model, the graph it was trained on, and the node features it computes.

    Create it with :meth:`of`. Scores are probabilities: the sigmoid of the model's logits.
    """

    model: LinkNetwork
    data: LinkData
    h: Tensor

    @classmethod
    @torch.no_grad()
    def of(
        cls, folder: str | Path, *, which: str = "best", device: str = "auto", root: str | Path | None = None,
        data: LinkData | None = None, trust: bool = False,
    ) -> "LinkScorer":  # fmt: skip
        """The model of a run folder.

        Args:
            folder: Folder of a link-prediction run.
            which: Weights ``"best"`` in validation (which the run reports), or of the ``"last"`` epoch.
            device: Device of the computation.
            root: Data root that replaces the run's.
            data: The graph, instead of the one that the run names.
            trust: Whether the run's own data root may be written to.
        """
        on = choose_device(device)
        model, config = load_run(folder, which=which, device=str(on))
        _, task, fingerprint = RunFolder(folder).model_facts()
        if task.level != "link":
            got = f"a run on {config.data.name}"
            raise OptionError(f"a link-prediction run in {folder}", got, "predict graphs with: lrga predict RUN INPUT")
        if data is None:
            data = load_link_source(data_from_file(config.data, folder, trust=trust, root=root))
        if data.fingerprint() != fingerprint:
            remedy = "restore the graph of the run"
            raise CheckpointError(f"the graph that {folder} was trained on", "another graph with the same name", remedy)
        graph = data.to(on)
        network: Any = model
        messages = Messages.of(
            graph, conv=config.model.model, weighted=config.option("edge_weights"),
            with_validation=config.option("validation_edges"),
        )  # fmt: skip
        return cls(network, graph, messages.encode(network))

    @cached_property
    def _numbers(self) -> dict[str, int]:
        """Name of each node in the user's data → its number."""
        ids = self.data.node_ids
        return {name: i for i, name in enumerate(map(str, range(self.data.num_nodes)) if ids is None else ids)}

    def number(self, name: str | int) -> int:
        """The number of the node with this name in the user's data."""
        if str(name) not in self._numbers:
            ids = self.data.node_ids
            expected = f"a node from 0 to {self.data.num_nodes - 1:,}" if ids is None else f"a node such as {ids[0]!r}"
            raise DataError(expected, repr(name), "pass a node of the graph that has an edge")
        return self._numbers[str(name)]

    def name(self, node: int) -> str:
        """The name of a node in the user's data."""
        return str(node) if self.data.node_ids is None else self.data.node_ids[node]

    def read(self, path: str | Path) -> Tensor:
        """Reads the pairs of a file, ``[P, 2]``."""
        known, rows = self._numbers, []
        for pair, line in zip(*read_pairs(path, nodes={} if self.data.node_ids is None else known), strict=True):
            if not all(name in known for name in pair):
                got = f"{', '.join(pair)} in {path}, line {line}"
                raise DataError("two nodes of the graph that the model was trained on", got, "remove it")
            rows.append([known[name] for name in pair])
        return torch.tensor(rows, dtype=torch.int64).view(-1, 2)

    def score(self, pairs: Tensor, *, batch_size: int = 65_536) -> Tensor:
        """Probabilities of ``pairs`` ``[P, 2]``: ``[P]``."""
        check_count("batch_size", batch_size, minimum=1)
        if pairs.dim() != 2 or pairs.size(1) != 2:
            raise ShapeError("pairs of shape [P, 2]", f"shape {list(pairs.shape)}", "pass two nodes in each row")
        if pairs.is_floating_point() or pairs.dtype == torch.bool:
            raise DTypeError("pairs of integers", str(pairs.dtype), "call pairs.long()")
        if pairs.numel():
            self._check_node(int(pairs.min()))
            self._check_node(int(pairs.max()))
        return self._logits(pairs, batch_size=batch_size).sigmoid()

    @torch.no_grad()
    def _logits(self, pairs: Tensor, *, batch_size: int) -> Tensor:
        logits = scores_of(self.model, self.h, pairs.to(self.h.device), batch_size=batch_size)
        if not bool(logits.isfinite().all()):
            raise NonFiniteError("finite scores", "NaN or infinity", "check the node features, or train again")
        return logits

    def header(self) -> list[str]:
        """Column names of :meth:`rows`."""
        return ["source", "target", "score"]

    def rows(self, pairs: Tensor, *, batch_size: int = 65_536) -> Iterator[list[str]]:
        """A row for each pair: both names and the score."""
        for first in range(0, pairs.size(0), batch_size):
            part = pairs[first : first + batch_size]
            for (a, b), value in zip(part.tolist(), self.score(part, batch_size=batch_size).tolist(), strict=True):
                yield [self.name(a), self.name(b), f"{value:.6g}"]

    def top(self, node: int, k: int = 10, *, block: int = 65_536) -> list[tuple[int, float]]:
        """The ``k`` most likely new neighbours of ``node``, best first; ties in the order of node numbers.

        Known edges of all splits are excluded. Candidates are scored ``block`` at a time.
        """
        self._check_node(node)
        check_count("k", k, minimum=1)
        check_count("block", block, minimum=1)
        others = torch.nonzero(~self._known(node)).squeeze(1)
        logits = self._logits(torch.stack([torch.full_like(others, node), others], dim=1), batch_size=block)
        # sorted by logits, because several probabilities may round to 1
        best = torch.argsort(logits, descending=True, stable=True)[:k]
        return list(zip(others[best].tolist(), logits[best].sigmoid().tolist(), strict=True))

    def _check_node(self, node: int) -> None:
        if isinstance(node, bool) or not isinstance(node, int) or not 0 <= node < self.data.num_nodes:
            remedy = "use number() to convert a name"
            raise DataError(f"the number of a node, 0 to {self.data.num_nodes - 1:,}", repr(node), remedy)

    def _known(self, node: int) -> Tensor:
        """``[N]`` whether each node is a known neighbour, or the node itself."""
        taken = torch.zeros(self.data.num_nodes, dtype=torch.bool, device=self.h.device)
        taken[node] = True
        for edge in (self.data.edge, *(split.edge for split in self.data.splits.values())):
            taken[edge[edge[:, 0] == node, 1]] = True
            if self.data.undirected:
                taken[edge[edge[:, 1] == node, 0]] = True
        return taken
