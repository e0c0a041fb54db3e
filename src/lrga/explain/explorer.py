"""``lrga explain``: the attention of a trained network as an interactive page."""

import base64
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lrga.errors import OptionError
from lrga.explain.attention import Explanation, LayerFactors, explain
from lrga.explain.html import render, write_page

DRAWN_EDGES = 8_000  # at most; more would make clicks slow
DRAWN_EDGES_OF_LARGE = 3_000
WEBGL_NODES = 2000  # above this, nodes are drawn with WebGL
MAX_BYTES = 400_000_000  # bytes of factors; browsers do not open larger pages


def write_explorer(
    run: str | Path | Explanation,
    output: str | Path,
    *,
    graph: int = 0,
    layers: Sequence[int] | None = None,
    **options: Any,
) -> Explanation:
    """Writes the page of a graph's attention; the arguments are those of :func:`~lrga.explain.attention.explain`.

    Instead of a run, it also accepts the result of :func:`~lrga.explain.own_model.explain_model`.
    """
    found = run if isinstance(run, Explanation) else explain(run, graph=graph, layers=layers, **options)
    write_page(output, explorer_page(found))
    return found


def explorer_page(found: Explanation) -> str:
    """The page: it contains the factors and computes rows of the attention on request."""
    size = sum(layer.u.nbytes + layer.v.nbytes for layer in found.layers)
    if size > MAX_BYTES:
        got = f"{size:,} bytes of {len(found.layers)} layers"
        raise OptionError(f"at most {MAX_BYTES:,} bytes of factors in a page", got, "choose fewer layers: --layers 1")
    dataset = Path(found.dataset).name if Path(found.dataset).is_absolute() else found.dataset
    where = f"graph {found.graph} of {dataset}" + (f", {found.split}" if found.split else "")
    return render(
        "explorer.html",
        scripts=("common.js", "matrix.js", "explorer.js"),
        data=_data(found) | {"webgl": found.num_nodes > WEBGL_NODES},
        webgl=found.num_nodes > WEBGL_NODES,
        title=f"What {found.run} attends to: {where}",
        found=found,
        answer=_answer(found),
        regression=found.task.kind != "classification",
        several_heads=any(layer.heads > 1 for layer in found.layers),
    )


def _data(found: Explanation) -> dict[str, Any]:
    edges = found.edges if found.pairs is None else found.pairs
    most = DRAWN_EDGES if found.num_nodes <= WEBGL_NODES else DRAWN_EDGES_OF_LARGE
    chosen = _some(len(edges), most)

    def answers(values: NDArray[Any] | None) -> str | None:
        return None if values is None else packed(values[chosen] if found.task.level == "edge" else values)

    return {
        "nodes": found.num_nodes,
        "level": found.task.level,
        "kind": found.task.kind,
        "classes": _class_names(found),
        "ids": found.node_ids,
        "places": packed(found.places),
        "edges": packed(edges[chosen]),
        "all_edges": len(edges),
        "neighbours": packed(found.edges),
        "background": None if found.pairs is None else packed(found.edges[_some(len(found.edges), most)]),
        "degree": packed(found.degree),
        "community": packed(found.community),
        "labels": answers(found.labels),
        "predictions": answers(found.predictions),
        "confidence": answers(found.confidence),
        "layers": [_layer(layer) for layer in found.layers],
    }


def _some(count: int, most: int) -> NDArray[np.int64]:
    """All numbers below ``count``, or a random sample of ``most`` of them."""
    if count <= most:
        return np.arange(count)
    return np.sort(np.random.default_rng(0).choice(count, most, replace=False))


def _layer(layer: LayerFactors) -> dict[str, Any]:
    return {
        "name": layer.name,
        "heads": [
            {
                "u": packed(layer.u[:, head]),
                "v": packed(layer.v[:, head]),
                "spectrum": [float(value) for value in layer.spectrum(head)],
            }
            for head in range(layer.heads)
        ],
        "rank": layer.rank,
    }


def packed(values: NDArray[Any]) -> str:
    """Base64 of the numbers, little-endian, four bytes each.

    Example:
        >>> packed(np.array([1.0], dtype=np.float32))
        'AACAPw=='
    """
    kind = "<i4" if np.issubdtype(values.dtype, np.integer) else "<f4"
    return base64.b64encode(np.ascontiguousarray(values, dtype=kind).tobytes()).decode()


def _class_names(found: Explanation) -> list[str] | None:
    if found.task.kind != "classification":
        return None
    return list(found.task.classes or (str(number) for number in range(found.task.out_channels)))


def _answer(found: Explanation) -> dict[str, str]:
    """A text with label and prediction of the graph, or a summary over its nodes or edges."""
    names = _class_names(found)

    def text(value: Any) -> str:
        return names[int(value)] if names is not None else f"{float(value):.5g}"

    if found.task.level == "graph":
        of = " of the first target" if found.task.kind == "regression" and found.task.out_channels > 1 else ""
        told = {f"prediction{of}": text(found.predictions[0])}
        return told if found.labels is None else {f"label{of}": text(found.labels[0]), **told}
    if found.labels is None or names is None:
        return {}
    right = int((found.labels == found.predictions).sum())
    what = found.task.level if found.pairs is None else "pair"
    return {f"{what}s predicted correctly": f"{right:,} of {len(found.predictions):,}"}
