"""A trained link-prediction model on new pairs, and the most likely new links of a node, in bounded memory."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from lrga.data.links.data import LinkData
from lrga.data.own.edge_list import read_pairs
from lrga.errors import CheckpointError, DataError, DTypeError, NonFiniteError, OptionError, ShapeError
from lrga.kernels.checks import check_count
from lrga.training.determinism import choose_device
from lrga.training.problems.kinds import load_link_source
from lrga.training.problems.links import LinkNetwork, Messages, scores_of
from lrga.training.runs.folder import RunFolder
from lrga.training.runs.run import load_run
from lrga.training.runs.trust import data_from_file

HEADER = ("source", "target", "score")


@dataclass(frozen=True)
class LinkScorer:
    """A saved model, the graph it was trained on, and the features it gives every node.

    Make one with :meth:`of`. Scores are probabilities, the sigmoid of the model's logits.
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
            folder: Of a link-prediction run.
            which: Weights ``"best"`` in validation (what the run reports), or of the ``"last"`` epoch.
            device: Where to compute.
            root: Another data root than the run's.
            data: The graph itself, in place of the one that the run names.
            trust: Whether the run's own data root may be written to.
        """
        place = choose_device(device)
        model, config = load_run(folder, which=which, device=str(place))
        if config.link is None:
            got = f"one on {config.data.name}"
            raise OptionError(f"a link-prediction run in {folder}", got, "predict graphs with: lrga predict RUN INPUT")
        if data is None:
            data = load_link_source(data_from_file(config.data, folder, trust=trust, root=root))
        graph = data
        if graph.fingerprint() != RunFolder(folder).model_facts()[2]:
            remedy = "bring back the graph of the run"
            raise CheckpointError(f"the graph that {folder} was trained on", "another under the same name", remedy)
        graph = graph.to(place)
        network: Any = model
        messages = Messages.of(
            graph, conv=config.model.model, weighted=config.link.edge_weights,
            with_validation=config.link.validation_edges,
        )  # fmt: skip
        return cls(network, graph, messages.encode(network))

    def number(self, name: str | int) -> int:
        """The number of the node that the user calls ``name``."""
        ids = self.data.node_ids
        if ids is not None:
            if str(name) in ids:
                return ids.index(str(name))
            raise DataError(f"a node of the graph, such as {ids[0]!r}", repr(name), "name a node that has an edge")
        text = str(name)
        number = int(text) if text.isascii() and text.isdecimal() else -1  # int() takes 1_7 for 17
        if not 0 <= number < self.data.num_nodes:
            raise DataError(f"a node from 0 to {self.data.num_nodes - 1:,}", repr(name), "name a node of the graph")
        return number

    def name(self, node: int) -> str:
        """What the user calls a node."""
        return str(node) if self.data.node_ids is None else self.data.node_ids[node]

    def read(self, path: str | Path) -> Tensor:
        """Pairs of a file, ``[P, 2]``: two numbers of each pair are all of the file that is ever in memory."""
        ids = self.data.node_ids
        known = {} if ids is None else {name: i for i, name in enumerate(ids)}
        blocks = []
        for pairs, lines in read_pairs(path, nodes=known):
            rows = []
            for pair, line in zip(pairs, lines, strict=True):
                try:
                    rows.append([known[name] if ids is not None else self.number(name) for name in pair])
                except (KeyError, DataError) as error:
                    got = f"{', '.join(pair)} in {path}, line {line}"
                    raise DataError("two nodes of the graph that the model was trained on", got, "drop it") from error
            blocks.append(torch.tensor(rows, dtype=torch.int64).view(-1, 2))
        return torch.cat(blocks)

    def score(self, pairs: Tensor, *, batch_size: int = 65_536) -> Tensor:
        """Probabilities of ``pairs`` ``[P, 2]``: ``[P]``."""
        check_count("batch_size", batch_size, minimum=1)
        if pairs.dim() != 2 or pairs.size(1) != 2:
            raise ShapeError("pairs of shape [P, 2]", f"shape {list(pairs.shape)}", "pass two nodes in each row")
        if pairs.is_floating_point() or pairs.dtype == torch.bool:
            raise DTypeError("pairs of whole numbers", str(pairs.dtype), "call pairs.long()")
        if pairs.numel():
            self._check_node(int(pairs.min()))
            self._check_node(int(pairs.max()))
        return self._logits(pairs, batch_size=batch_size).sigmoid()

    @torch.no_grad()
    def _logits(self, pairs: Tensor, *, batch_size: int) -> Tensor:
        logits = scores_of(self.model, self.h, pairs.to(self.h.device), batch_size=batch_size)
        if not bool(logits.isfinite().all()):
            raise NonFiniteError("finite scores", "NaN or infinity", "look at the node features, or train anew")
        return logits

    def rows(self, pairs: Tensor, *, batch_size: int = 65_536) -> Iterator[list[str]]:
        """A row for each pair: both names and the score."""
        for first in range(0, pairs.size(0), batch_size):
            part = pairs[first : first + batch_size]
            for (a, b), value in zip(part.tolist(), self.score(part, batch_size=batch_size).tolist(), strict=True):
                yield [self.name(a), self.name(b), f"{value:.6g}"]

    def top(self, node: int, k: int = 10, *, block: int = 65_536) -> list[tuple[int, float]]:
        """The ``k`` nodes most likely linked to ``node`` that are not yet, best first; equal ones by their number.

        Known edges of all splits are left out. Candidates are scored ``block`` at a time, so memory grows neither with
        the number of nodes nor with that of the edges, but for one mark for each node.
        """
        self._check_node(node)
        check_count("k", k, minimum=1)
        check_count("block", block, minimum=1)
        taken = self._known(node)
        best_scores = torch.empty(0, device=self.h.device)
        best_nodes = torch.empty(0, dtype=torch.int64, device=self.h.device)
        for first in range(0, self.data.num_nodes, block):
            free = ~taken[first : first + block]
            others = torch.nonzero(free).squeeze(1) + first
            if others.numel() == 0:
                continue
            # in order of the logits: the probabilities of several may all round to 1
            scores = self._logits(torch.stack([torch.full_like(others, node), others], dim=1), batch_size=block)
            nodes = torch.cat([best_nodes, others])
            order = torch.argsort(torch.cat([best_scores, scores]), descending=True, stable=True)[:k]
            best_scores, best_nodes = torch.cat([best_scores, scores])[order], nodes[order]
        return list(zip(best_nodes.tolist(), best_scores.sigmoid().tolist(), strict=True))

    def _check_node(self, node: int) -> None:
        if isinstance(node, bool) or not isinstance(node, int) or not 0 <= node < self.data.num_nodes:
            remedy = "ask number() for the number of a name"
            raise DataError(f"the number of a node, 0 to {self.data.num_nodes - 1:,}", repr(node), remedy)

    def _known(self, node: int) -> Tensor:
        """``[N]`` whether a link to each node is known, or it is the node itself."""
        taken = torch.zeros(self.data.num_nodes, dtype=torch.bool, device=self.h.device)
        taken[node] = True
        for edge in (self.data.edge, *(split.edge for split in self.data.splits.values())):
            taken[edge[edge[:, 0] == node, 1]] = True
            if self.data.undirected:
                taken[edge[edge[:, 1] == node, 0]] = True
        return taken
