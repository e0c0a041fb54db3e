"""The attention of a trained network on one graph."""

import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from lrga.data.datasets.spec import SPLITS
from lrga.data.encodings import with_encodings
from lrga.data.packed.graphs import PackedGraphs
from lrga.errors import OptionError, UnsupportedError
from lrga.explain.layout import communities, positions
from lrga.nn.attention import LowRankGlobalAttention
from lrga.tasks.task import Task
from lrga.training.evaluate import run_model
from lrga.training.predict import Predictor, with_features
from lrga.training.problems.data import load_link_source, load_training_data
from lrga.training.problems.links import Messages, scores_of
from lrga.training.runs.folder import RunFolder
from lrga.training.runs.run import load_run
from lrga.training.runs.trust import data_from_file

_SLOW_NODES = 2_000
MAX_NODES, MAX_EDGES = 200_000, 4_000_000
Say = Callable[[str], None]
PAIRS = 300  # link prediction: at most this many links, and as many other pairs, are shown
_LINKS = Task(level="edge", kind="classification", out_channels=2, classes=("no link", "link"))


@dataclass(frozen=True)
class LayerFactors:
    """The attention of a layer: the matrix of head h is ``u[:, h] @ v[:, h].T``.

    Attributes:
        name: Name of the module in the network.
        u, v: [N, H, K] float32.
    """

    name: str
    u: NDArray[np.float32]
    v: NDArray[np.float32]

    @property
    def heads(self) -> int:
        """H, the number of heads."""
        return int(self.u.shape[1])

    @property
    def rank(self) -> int:
        """K, the rank."""
        return int(self.u.shape[2])

    def matrix(self, head: int = 0) -> NDArray[np.float64]:
        """[N, N]: the matrix of a head."""
        return self.u[:, head].astype(np.float64) @ self.v[:, head].astype(np.float64).T

    def row(self, node: int, head: int = 0) -> NDArray[np.float64]:
        """[N]: how strongly ``node`` attends to every node."""
        return self.v[:, head].astype(np.float64) @ self.u[node, head].astype(np.float64)

    def spectrum(self, head: int = 0) -> NDArray[np.float64]:
        """[K]: the singular values that may be nonzero, largest first; O(NK²) time, without forming the matrix."""
        a, b = (np.asarray(np.linalg.qr(f[:, head].astype(np.float64), mode="r")) for f in (self.u, self.v))
        return np.asarray(np.linalg.svd(a @ b.T, compute_uv=False))


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """A graph with its labels, predictions and attention.

    Attributes:
        run: Name of the run folder.
        dataset: Name of the data.
        split: Split of the graph, or the file it was read from; empty for a model of your own.
        graph: Number of the graph in the split or file.
        graph_id: Name of the graph, if it has one.
        node_ids: Names of the nodes, if they have any.
        task: What is predicted.
        edges: [E, 2], each undirected edge once.
        labels: Targets: one for each node, one for the graph, or one for each of ``edges``; ``None`` if there are none.
        predictions: Predicted classes or values, in the order of ``labels``.
        confidence: Softmax probability of the predicted class; ``None`` in regression.
        places: [N, 2], where the nodes are drawn.
        degree, community: [N], for each node.
        layers: The attention of each layer.
        pairs: [P, 2], the pairs that ``labels`` and ``predictions`` refer to in link prediction.
    """

    run: str
    dataset: str
    split: str
    graph: int = 0
    graph_id: str | None = None
    node_ids: list[str] | None = None
    task: Task
    edges: NDArray[np.int32]
    labels: NDArray[Any] | None
    predictions: NDArray[Any]
    confidence: NDArray[np.float32] | None
    places: NDArray[np.float32]
    degree: NDArray[np.int32]
    community: NDArray[np.int32]
    layers: list[LayerFactors]
    pairs: NDArray[np.int32] | None = None

    @property
    def num_nodes(self) -> int:
        """N."""
        return len(self.places)

    def __repr__(self) -> str:
        layers = ", ".join(layer.name for layer in self.layers)
        return f"Explanation({self.run}, graph {self.graph}, {self.num_nodes} nodes, layers: {layers})"


def explain(
    run: str | Path,
    *,
    graph: int = 0,
    source: str | Path | None = None,
    split: str = "test",
    which: str = "last",
    layers: Sequence[int] | None = None,
    root: str | Path | None = None,
    device: str = "cpu",
    say: Say | None = None,
    trust: bool = False,
) -> Explanation:
    """Runs a trained network on one graph and records its attention.

    Args:
        run: A run folder.
        graph: Number of the graph, counted from 0.
        source: Other graphs instead of the run's own data, in any form that ``lrga predict`` reads.
        split: Split of the run's own data.
        which: Weights of the ``"last"`` epoch, or of the ``"best"`` by validation.
        layers: Numbers of the layers, counted from 1; all by default.
        root: Data root, if it is not the run's.
        device: Device to compute on.
        say: Called with progress messages.
        trust: Whether a ``module:factory`` that the run names may be imported and its data root written to
            (:mod:`lrga.training.runs.trust`).
    """
    if RunFolder(run).model_facts()[1].level == "link":
        if graph != 0 or source is not None:
            raise OptionError("graph 0, the only graph in link prediction", f"graph {graph}", "omit the number")
        return _explain_links(run, split, which, layers, root, device, say, trust)
    predictor = Predictor.of(run, which=which, device=device)
    graphs, name = _graphs(predictor, source, split, root, trust)
    if not 0 <= graph < len(graphs):
        where = f"{name} {split}" if source is None else str(source)
        raise OptionError(f"a graph of {where}, 0 to {len(graphs) - 1}", str(graph), "choose one of these numbers")
    chosen = with_encodings(graphs.subset([graph]), predictor.architecture.encoding)
    batch = with_features(chosen.to(predictor.device).batch([0]), predictor.architecture)
    devices = [] if predictor.device.type == "cpu" else [predictor.device.index or 0]
    with torch.no_grad(), torch.random.fork_rng(devices), recorded_factors(predictor.model) as found:
        torch.manual_seed(RunFolder(run).config().run.seed)
        output = run_model(predictor.model, batch).float().cpu()
    kept = chosen_layers(found, layers, run)
    edges, places_of = edges_once(batch.edge_index, batch.num_nodes)
    labels = None if batch.y is None else batch.y.detach().cpu()
    if predictor.task.level == "edge":  # predictions are in the order of the batch's edges; keep those that are drawn
        shown = torch.from_numpy(places_of)
        output, labels = output[shown], None if labels is None else labels[shown]
    pos = graphs.columns.get("pos")
    given = batch.attribute("pos") if pos is not None and pos.level == "node" else None
    own = graphs.objects.get("node_id")
    ids = graphs.objects.get("graph_id")
    return Explanation(
        run=Path(run).resolve().name,
        dataset=name,
        split=split if source is None else str(source),
        graph=graph,
        graph_id=None if ids is None else str(ids[graph]),
        node_ids=None if own is None else [str(node) for node in own[graph]],
        task=predictor.task,
        layers=kept,
        **answers(predictor.task, output, labels),
        **drawn_graph(edges, batch.num_nodes, say, given),
    )


def _explain_links(
    run: str | Path,
    split: str,
    which: str,
    layers: Sequence[int] | None,
    root: str | Path | None,
    device: str,
    say: Say | None,
    trust: bool,
) -> Explanation:
    """Labels and predictions of pairs: links of the split and, if the split has them, pairs that are not links. A pair
    is predicted to be a link if its score is above 0."""
    model, config = load_run(run, which=which, device=device)
    place = next(iter(model.parameters())).device
    data = load_link_source(data_from_file(config.data, run, trust=trust, root=root)).to(place)
    if split not in data.splits:
        raise OptionError(f"a split: {', '.join(data.splits)}", repr(split), "choose one of these")
    messages = Messages.of(data, conv=config.model.model, weighted=config.option("edge_weights"))
    with torch.no_grad(), recorded_factors(model) as found:
        h = messages.encode(model)  # type: ignore[arg-type]
    kept = chosen_layers(found, layers, run)
    true, false = data.splits[split].edge[:PAIRS], data.splits[split].edge_neg
    pairs = true if false is None else torch.cat([true, false[: len(true)]])
    scores = scores_of(model, h, pairs, batch_size=65_536).cpu()  # type: ignore[arg-type]
    shares = scores.sigmoid().numpy()
    edges, _ = edges_once(data.edge.t(), data.num_nodes)
    return Explanation(
        run=Path(run).resolve().name,
        dataset=config.data.name,
        split=split,
        node_ids=None if data.node_ids is None else [str(name) for name in data.node_ids],
        task=_LINKS,
        labels=(np.arange(len(pairs)) < len(true)).astype(np.int32),
        predictions=(shares > 0.5).astype(np.int32),
        confidence=np.maximum(shares, 1 - shares).astype(np.float32),
        layers=kept,
        pairs=pairs.cpu().numpy().astype(np.int32),
        **drawn_graph(edges, data.num_nodes, say),
    )


def _graphs(
    predictor: Predictor, source: str | Path | None, split: str, root: str | Path | None, trust: bool
) -> tuple[PackedGraphs, str]:
    config = RunFolder(predictor.folder).config()
    if source is not None:
        return predictor.read(source, root=root, trust=trust), str(source)
    if split not in SPLITS:
        raise OptionError(f"a split: {', '.join(SPLITS)}", repr(split), "choose one of these")
    command = f"lrga explain {shlex.quote(str(predictor.folder))} --input {config.data.name}"
    data = data_from_file(config.data, predictor.folder, trust=trust, root=root, command=command)
    graphs = load_training_data(data, config.run).splits[split]
    return predictor.fitted(graphs, f"{data.name} ({split})", trained_on=True), data.name


@contextmanager
def recorded_factors(model: nn.Module) -> Iterator[list[LayerFactors]]:
    """Records the factors of every attention module of ``model`` that is called inside the block.

    Example:
        >>> import lrga
        >>> model = lrga.GNN(3, 8, 2, 2, rank=4)
        >>> with recorded_factors(model) as found:
        ...     _ = model(torch.randn(5, 3), torch.tensor([[0, 1], [1, 0]]))
        >>> [(layer.name, layer.u.shape) for layer in found]
        [('layers.0.attention', (5, 1, 4)), ('layers.1.attention', (5, 1, 4))]
    """
    found: list[LayerFactors] = []
    names = {module: name for name, module in model.named_modules()}

    def write_down(module: LowRankGlobalAttention, arguments: tuple[Any, ...], options: dict[str, Any], _: Any) -> None:
        with torch.no_grad():
            factors = module.factors(*arguments, **options)
        u, v = (f.detach().float().cpu().view(f.size(0), module.heads, -1).numpy().copy() for f in factors)
        found.append(LayerFactors(names[module], u, v))

    with attention_hooks(model, write_down):
        yield found


@contextmanager
def attention_hooks(model: nn.Module, hook: Callable[..., Any]) -> Iterator[None]:
    """Calls ``hook(module, arguments, options, output)`` after every attention module that runs inside the block."""
    modules = [module for module in model.modules() if isinstance(module, LowRankGlobalAttention)]
    attending = [module for module in modules if module.rank or module.maps is not None]
    handles = [module.register_forward_hook(hook, with_kwargs=True) for module in attending]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def drawn_graph(
    edges: NDArray[np.int32], num_nodes: int, say: Say | None = None, given: Tensor | None = None
) -> dict[str, Any]:
    """The edges of an explanation, and place, degree and community of its nodes; ``given`` with two columns are places.

    For a large graph, ``say`` reports that this takes a while. A graph too large for a browser is an error.
    """
    num_edges = len(edges)
    if num_nodes > MAX_NODES or num_edges > MAX_EDGES:
        got = f"{num_nodes:,} nodes and {num_edges:,} edges"
        remedy = "pass a smaller graph with --input"
        raise UnsupportedError(f"a graph of at most {MAX_NODES:,} nodes and {MAX_EDGES:,} edges", got, remedy)
    if say is not None and num_nodes > _SLOW_NODES:
        say(f"drawing {num_nodes:,} nodes and {num_edges:,} edges, and finding their communities")
    if given is not None and given.dim() == 2 and given.size(0) == num_nodes and given.size(1) >= 2:
        places = np.nan_to_num(given[:, :2].detach().cpu().numpy().astype(np.float32))
    else:
        places = positions(edges, num_nodes)
    return {
        "edges": edges,
        "places": places,
        "degree": np.bincount(edges.ravel(), minlength=num_nodes).astype(np.int32),
        "community": communities(edges, num_nodes),
    }


def parse_layers(text: str | None) -> list[int] | None:
    """Numbers of layers from ``"1,4"``; ``None`` of ``None``.

    Example:
        >>> parse_layers("1,4")
        [1, 4]
    """
    if text is None:
        return None
    try:
        return [int(part) for part in text.split(",")]
    except ValueError as error:
        raise OptionError("numbers of layers, separated by commas", repr(text), "write for example 1,4") from error


def chosen_layers(found: list[LayerFactors], layers: Sequence[int] | None, run: str | Path) -> list[LayerFactors]:
    """The selected layers, counted from 1; all by default."""
    if not found:
        got = f"a plain network, or rank 0, in {run}"
        remedy = "use lrga.augment, or train without --no-lrga"
        raise UnsupportedError("a network with low-rank global attention", got, remedy)
    if layers is None:
        return found
    wrong = [layer for layer in layers if not 1 <= layer <= len(found)]
    if wrong or not layers:
        got = ", ".join(map(str, wrong)) or "none"
        raise OptionError(f"layers from 1 to {len(found)}", got, "choose from these, for example --layers 1,2")
    return [found[layer - 1] for layer in dict.fromkeys(layers)]


def edges_once(edge_index: Tensor, num_nodes: int) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """[E, 2] undirected edges, each once and without self-loops; [E] the first position of each in ``edge_index``."""
    ends = edge_index.t().cpu().numpy().reshape(-1, 2)
    low, high = ends.min(axis=1), ends.max(axis=1)
    keys, first = np.unique(low * max(num_nodes, 1) + high, return_index=True)
    first = first[low[first] != high[first]] if len(keys) else first.astype(np.int64)
    pairs = np.stack([low[first], high[first]], axis=1) if len(first) else np.zeros((0, 2))
    return pairs.astype(np.int32), first


def answers(task: Task, output: Tensor, labels: Tensor | None) -> dict[str, Any]:
    """Labels, predictions and confidence of an explanation from scores ``[rows, columns]`` on the CPU."""
    rows = output.size(0)
    if task.kind == "classification":
        top = output.softmax(dim=1).max(dim=1)
        classes = None if labels is None else labels.view(rows).numpy().astype(np.int32)
        return {
            "labels": classes,
            "predictions": top.indices.numpy().astype(np.int32),
            "confidence": top.values.numpy(),
        }
    output = output.sigmoid() if task.kind == "multilabel" else output
    if labels is not None:
        labels = labels.view(rows, -1)[:, 0].double()
        if task.target_mean is not None and task.target_std is not None:
            labels = labels * task.target_std[0] + task.target_mean[0]
    values = None if labels is None else labels.float().numpy()
    return {"labels": values, "predictions": output[:, 0].numpy(), "confidence": None}
