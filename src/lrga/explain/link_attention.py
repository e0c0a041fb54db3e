"""What the attention attends to where links are predicted: one graph, and pairs that may be links of it."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from lrga.errors import OptionError
from lrga.explain.attention import Explanation, chosen_layers, edges_once, recorded_factors, warn_of_size
from lrga.explain.layout import communities, positions
from lrga.explain.patience import Say
from lrga.tasks.task import Task
from lrga.training.problems.data import load_link_source
from lrga.training.problems.links import Messages, scores_of
from lrga.training.runs.run import load_run
from lrga.training.runs.trust import data_from_file

PAIRS = 300  # true ones that are judged, and as many false ones at most
_TASK = Task(level="edge", kind="classification", out_channels=2, classes=("no link", "link"))


def explain_links(
    run: str | Path,
    *,
    split: str = "test",
    which: str = "last",
    layers: Sequence[int] | None = None,
    root: str | Path | None = None,
    device: str = "cpu",
    say: Say | None = None,
    trust: bool = False,
) -> Explanation:
    """As :func:`~lrga.explain.attention.explain`, of a run that predicts links.

    Labels and predictions belong to :attr:`~lrga.explain.attention.Explanation.pairs`: links of the split (a link
    where the score is above 0) and, where the split has them, pairs that are none.
    """
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
    warn_of_size(data.num_nodes, len(edges), say)
    return Explanation(
        run=Path(run).resolve().name,
        dataset=config.data.name,
        split=split,
        graph=0,
        graph_id=None,
        node_ids=None if data.node_ids is None else [str(name) for name in data.node_ids],
        task=_TASK,
        edges=edges,
        labels=(np.arange(len(pairs)) < len(true)).astype(np.int32),
        predictions=(shares > 0.5).astype(np.int32),
        confidence=np.maximum(shares, 1 - shares).astype(np.float32),
        places=positions(edges, data.num_nodes),
        degree=np.bincount(edges.ravel(), minlength=data.num_nodes).astype(np.int32),
        community=communities(edges, data.num_nodes),
        layers=kept,
        pairs=pairs.cpu().numpy().astype(np.int32),
    )
