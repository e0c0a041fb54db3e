"""A trained model on new graphs."""

import csv
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

import torch
from torch import Tensor, nn

from lrga.data.datasets.loading import load
from lrga.data.datasets.place import SPLITS
from lrga.data.datasets.spec import dataset_name, spec_of
from lrga.data.own.reading import load_inputs
from lrga.data.packed.batch import PackedBatch
from lrga.data.packed.graphs import PackedGraphs
from lrga.errors import DataError, NonFiniteError, OptionError
from lrga.io.files import atomic_path
from lrga.tasks.task import Task
from lrga.training.architecture import Architecture
from lrga.training.determinism import choose_device, seed_torch
from lrga.training.evaluate import run_model
from lrga.training.runs.folder import RunFolder
from lrga.training.runs.run import load_run
from lrga.training.runs.trust import data_from_file


@dataclass(frozen=True)
class Predictor:
    """A saved model with what is needed to read its answers: ``Predictor.of("runs/my-run")``."""

    model: nn.Module
    task: Task
    architecture: Architecture
    folder: Path
    device: torch.device
    features: Mapping[str, list[str]] | None = None  # names of the columns; None in runs of older versions

    @classmethod
    def of(cls, folder: str | Path, *, which: str = "last", device: str = "auto") -> "Predictor":
        """The model of a run folder; ``which`` as in :func:`~lrga.training.runs.run.load_run`."""
        home, place = RunFolder(folder), choose_device(device)
        model, config = load_run(folder, which=which, device=str(place))
        architecture, task, _ = home.model_facts()
        if not isinstance(task, Task) or not isinstance(architecture, Architecture):
            remedy = "predict links with: lrga predict RUN PAIRS, or LinkScorer in Python"
            raise OptionError(f"a run on graphs in {folder}", f"links of {config.data.name}", remedy)
        return cls(model, task, architecture, Path(folder), place, home.features())

    def read(
        self, source: str | Path, *, root: str | Path | None = None, trust: bool = False
    ) -> PackedGraphs:  # fmt: skip
        """Graphs from ``source``: anything :func:`~lrga.data.own.reading.load_inputs` reads, or a split of a named
        data set as ``ZINC/test``; checked against the model. Columns of features are put into the model's order by
        their names. The run's data root is written to only with ``trust``.

        ``meta["notes"]`` of the graphs holds what one should know of them.
        """
        name, _, split = str(source).partition("/")
        dataset = dataset_name(name)
        if dataset is None or spec_of(dataset).links:
            graphs = self.by_name(load_inputs(source), str(source))
        else:
            split = split or "test"
            if split not in SPLITS:
                raise OptionError(f"a split of {dataset}: {', '.join(SPLITS)}", repr(split), f"write {dataset}/test")
            data = RunFolder(self.folder).config().data
            if data.name != dataset:
                data = replace(data, name=dataset, source=None, options={})
            data = data_from_file(data, self.folder, trust=trust, root=root)
            graphs = load(dataset, data.root, source=data.source, **data.options)[split]
        check_fit(graphs, self.architecture, str(source))
        return graphs

    def by_name(self, graphs: PackedGraphs, source: str) -> PackedGraphs:
        """The graphs with the columns of their features in the order in which the model was trained on them."""
        model = self.architecture
        reads = {"node": not model.random_features, "edge": model.conv == "gatedgcn" and model.edge_encoder != "ones"}
        for level, name in (("node", "x"), ("edge", "edge_attr")):
            found = graphs.meta.get(f"{level}_names")
            wanted = None if self.features is None else self.features.get(level)
            if not reads[level] or found == wanted:
                continue
            if found is None or wanted is None:
                side = "of the run" if wanted is None else f"in {source}"
                note = f"the names of the {level} features {side} are unknown: columns are matched by position"
                graphs.meta["notes"] = [*graphs.meta.get("notes", []), note]
                continue
            missing, unknown = ([n for n in a if n not in b] for a, b in ((wanted, found), (found, wanted)))
            if missing or unknown:
                got = [f"without {', '.join(missing)}"] * bool(missing) + [f"with {', '.join(unknown)}"] * bool(unknown)
                expected = f"the {level} features {', '.join(wanted) or '(none)'} in {source}"
                raise DataError(expected, f"columns {' and '.join(got)}", "name the columns as in training")
            column = graphs.columns[name]
            values = column.values[:, [found.index(n) for n in wanted]].contiguous()
            graphs = graphs.with_column(name, replace(column, values=values))
        return graphs

    def header(self) -> list[str]:
        """Names of the columns of :meth:`rows`."""
        ids = {"graph": ["graph"], "node": ["graph", "node"], "edge": ["graph", "source", "target"]}[self.task.level]
        if self.task.kind == "classification":
            return [*ids, "prediction", *(f"score_{name}" for name in self._classes())]
        if self.task.kind == "multilabel":
            return [*ids, *(f"score_{name}" for name in self._classes())]
        several = self.task.out_channels > 1
        return [*ids, *([f"prediction_{i}" for i in range(self.task.out_channels)] if several else ["prediction"])]

    @torch.no_grad()
    def rows(self, graphs: PackedGraphs, *, batch_size: int = 128) -> Iterator[list[Any]]:
        """A row for each graph, node or edge, in the order in which they came: ids, prediction, scores.

        Scores are probabilities: the softmax over classes, the sigmoid of each label. With random features the noise
        follows from the run's seed.
        """
        graphs = graphs.to(self.device)
        with torch.random.fork_rng([] if self.device.type == "cpu" else [self.device.index or 0]):
            seed_torch(RunFolder(self.folder).config().run.seed)
            for number, batch in enumerate(graphs.batches(batch_size)):
                output = run_model(self.model, with_features(batch, self.architecture))
                if not bool(output.isfinite().all()):
                    got = f"NaN or infinity in batch {number + 1} of {batch_size} graphs"
                    raise NonFiniteError("finite predictions", got, "look at the features of these graphs")
                if self.task.level == "edge":
                    output = batch.in_original_order(output)
                exact = output if output.dtype == torch.float64 else output.float()
                yield from self._rows_of(graphs, batch, number * batch_size, exact.cpu())

    def _rows_of(self, graphs: PackedGraphs, batch: PackedBatch, first: int, output: Tensor) -> Iterator[list[Any]]:
        values: list[list[Any]]
        if self.task.kind == "classification":
            names, shares = self._classes(), output.softmax(dim=1)
            best = shares.argmax(dim=1).tolist()
            values = [[names[i], *(f"{s:.6g}" for s in row)] for i, row in zip(best, shares.tolist(), strict=True)]
        elif self.task.kind == "multilabel":
            values = [[f"{s:.6g}" for s in row] for row in output.sigmoid().tolist()]
        else:
            digits = [
                _digits(*pair) for pair in zip(self.task.target_mean or (), self.task.target_std or (), strict=True)
            ]
            digits = digits or [7] * self.task.out_channels
            values = [[f"{v:.{n}g}" for v, n in zip(row, digits, strict=True)] for row in output.tolist()]
        for ids, row in zip(_ids(graphs, batch, first, self.task.level), values, strict=True):
            yield [*ids, *row]

    def _classes(self) -> list[str]:
        return list(self.task.classes or (str(i) for i in range(self.task.out_channels)))


def _digits(mean: float, std: float) -> int:
    """Digits of a prediction: 7 of its difference from the mean, which may be large beside it."""
    return min(17, 7 + max(0, math.ceil(math.log10(max(abs(mean), std) / std))))


def write_csv(
    predictor: Predictor, graphs: PackedGraphs, file: IO[str], *, batch_size: int = 128, escape_formulas: bool = False
) -> int:
    """Writes all predictions as CSV (:func:`write_table`); returns their number."""
    rows = predictor.rows(graphs, batch_size=batch_size)
    return write_table(predictor.header(), rows, file, escape_formulas=escape_formulas)


def write_csv_file(
    predictor: Predictor,
    graphs: PackedGraphs,
    path: str | Path,
    *,
    batch_size: int = 128,
    escape_formulas: bool = False,
) -> int:
    """As :func:`write_csv`, into a file that appears whole or not at all."""
    rows = predictor.rows(graphs, batch_size=batch_size)
    return write_table_file(predictor.header(), rows, path, escape_formulas=escape_formulas)


def write_table(
    header: Sequence[str], rows: Iterable[Sequence[Any]], file: IO[str], *, escape_formulas: bool = False
) -> int:
    """Writes rows below a header as CSV; returns their number.

    Args:
        header: Names of the columns.
        rows: Names and numbers.
        file: Where to.
        escape_formulas: Whether names that a spreadsheet would run as a formula, those that begin with ``=``, ``+``,
            ``-``, ``@``, a tab or a line break and are no numbers, get an apostrophe in front.

    Example:
        >>> import sys
        >>> write_table(["node", "prediction"], [["=1+1", "-2.5"]], sys.stdout, escape_formulas=True)
        node,prediction
        '=1+1,-2.5
        1
    """
    writer = csv.writer(file, lineterminator="\n")
    convert: Callable[[Any], Any] = _escaped if escape_formulas else lambda value: value
    writer.writerow(map(convert, header))
    count = 0
    for row in rows:
        writer.writerow(map(convert, row))
        count += 1
    return count


def write_table_file(
    header: Sequence[str], rows: Iterable[Sequence[Any]], path: str | Path, *, escape_formulas: bool = False
) -> int:
    """As :func:`write_table`, into a file that appears whole or not at all; of several writers the last one wins."""
    with atomic_path(Path(path)) as temporary, open(temporary, "w", encoding="utf-8", newline="") as file:
        return write_table(header, rows, file, escape_formulas=escape_formulas)


def _escaped(value: Any) -> Any:
    if not isinstance(value, str) or not value.startswith(("=", "+", "-", "@", "\t", "\r", "\n")):
        return value
    try:
        float(value)
    except ValueError:
        return "'" + value
    return value


def check_fit(graphs: PackedGraphs, model: Architecture, source: str) -> None:
    """Refuses graphs whose features are not those that the model was trained on."""
    if len(graphs) == 0:
        raise DataError(f"graphs in {source}", "none", "bring at least one graph")
    if not model.random_features:
        _check_features("x", "node", graphs.x, model.encoder, model.in_channels, source)
    if model.conv == "gatedgcn" and model.edge_encoder != "ones":
        _check_features("edge_attr", "edge", graphs.edge_attr, model.edge_encoder, model.edge_channels, source)


def _check_features(
    name: str, level: str, values: Tensor | None, encoder: str, channels: int | list[int], source: str
) -> None:
    remedy = "use graphs with the features that the model was trained on"
    if isinstance(channels, list):
        sizes, wanted = channels, f"{len(channels)} types for each {level}, below {', '.join(map(str, channels))},"
    elif encoder == "embedding":
        sizes, wanted = [channels], f"{level} types 0 to {channels - 1}"
    else:
        sizes, wanted = [], f"{channels} numbers for each {level}"
    wanted += f" ({name}) in {source}"
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
                raise DataError(wanted, got, "leave out graphs with types that the model never saw, or train anew")
    elif columns != channels:
        raise DataError(wanted, f"{columns} each", remedy)


def with_features(batch: PackedBatch, model: Architecture) -> PackedBatch:
    """The batch with features as the model reads them: whole numbers become real ones where it wants those."""
    if model.encoder == "linear" and batch.x is not None and not batch.x.is_floating_point():
        batch.x = batch.x.float().view(batch.num_nodes, -1)
    if model.edge_encoder == "linear" and batch.edge_attr is not None and not batch.edge_attr.is_floating_point():
        batch.edge_attr = batch.edge_attr.float().view(batch.num_edges, -1)
    return batch


def _ids(graphs: PackedGraphs, batch: PackedBatch, first: int, level: str) -> Iterator[list[Any]]:
    names = graphs.objects.get("graph_id") or list(range(len(graphs)))
    chosen = range(first, first + batch.num_graphs)
    if level == "graph":
        yield from ([names[g]] for g in chosen)
        return
    own: list[list[Any]] | None = graphs.objects.get("node_id")
    ptr = batch.ptr.tolist()
    if level == "node":
        for k, g in enumerate(chosen):
            nodes = own[g] if own is not None else range(ptr[k + 1] - ptr[k])
            yield from ([names[g], node] for node in nodes)
        return
    ends = batch.in_original_order(batch.edge_index.t().contiguous()).cpu()
    graph_of = batch.batch.cpu()[ends[:, 0]].tolist()
    for k, (source, target) in zip(graph_of, ends.tolist(), strict=True):
        g, begin = first + k, ptr[k]
        pair = (source - begin, target - begin)
        yield [names[g], *(pair if own is None else (own[g][pair[0]], own[g][pair[1]]))]
