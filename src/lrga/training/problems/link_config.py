"""What a link-prediction run decides beside the options that every run has, and the protocols of the three OGB sets."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lrga.data.links.negatives import KINDS
from lrga.data.links.walks import EXTREME
from lrga.errors import OptionError
from lrga.kernels.checks import check_choice, check_count
from lrga.models.embeddings import EMBEDDINGS
from lrga.models.link import LINK_SETS, PREDICTORS

BATCH_SIZE = 65_536

UNUSED = (
    "budget", "heads", "preset", "reading", "residual", "batch_norm", "readout", "random_features", "resample_features",
    "edge_features", "recalibrate_norm", "loss", "standardize_targets", "label_smoothing", "fanouts",
)  # fmt: skip
"""Options of other runs that mean nothing here: refused where somebody gives them."""

NETWORK_ONLY = ("rank", "attention_heads", "skip", "backend", "layers", "validation_edges", "edge_weights")
WALK_BIAS = ("walk_p", "walk_q")
WALKS = (
    "walk_length",
    "walk_context",
    "walks_per_node",
    "walk_epochs",
    "walk_batch_size",
    "walk_lr",
    "walk_pull",
    *WALK_BIAS,
)
"""What only some models read."""


@dataclass(frozen=True, kw_only=True)
class LinkConfig:
    """Options of link prediction alone.

    Attributes:
        skip: Whether a layer's input is among the inputs of its linear map (networks with LRGA).
        predictor: ``"hadamard"``, ``"dot"`` or ``"concat"``.
        predictor_layers: Linear maps of the predictor.
        negatives: ``"uniform"`` random pairs or pairs that are ``"no_edge"``.
        validation_edges: Whether messages run along the validation edges, too, when the test is scored.
        edge_weights: Whether GCN reads the weights of the edges, where they have any.
        walk_length: Steps of a random walk (Node2Vec, DeepWalk).
        walk_context: Nodes of a walk that are near each other.
        walks_per_node: Walks that begin in each node in an epoch.
        walk_epochs: Epochs of walks before the predictor is trained.
        walk_batch_size: Nodes whose walks make a batch.
        walk_lr: Learning rate of the vectors.
        walk_pull: How strongly what is near on a walk is drawn together beside the loss; DeepWalk's Laplacian term.
        walk_p: Node2Vec's p: how little a walk returns to where it was.
        walk_q: Node2Vec's q: how little it goes away.
    """

    skip: bool = True
    predictor: str = "hadamard"
    predictor_layers: int = 3
    negatives: str = "uniform"
    validation_edges: bool = False
    edge_weights: bool = True
    walk_length: int = 40
    walk_context: int = 20
    walks_per_node: int = 10
    walk_epochs: int = 2
    walk_batch_size: int = 256
    walk_lr: float = 0.01
    walk_pull: float = 0.0
    walk_p: float = 1.0
    walk_q: float = 1.0

    def __post_init__(self) -> None:
        check_choice("predictor", self.predictor, PREDICTORS)
        check_choice("negatives", self.negatives, KINDS)
        for name in ("predictor_layers", "walk_length", "walks_per_node", "walk_batch_size"):
            check_count(name, getattr(self, name), minimum=1)
        check_count("walk_epochs", self.walk_epochs)
        check_count("walk_context", self.walk_context, minimum=2)
        if self.walk_context > self.walk_length + 1:
            got = f"{self.walk_context} of walks with {self.walk_length + 1} nodes"
            raise OptionError("walk_context of at most the nodes of a walk", got, "take longer walks")
        for name in ("walk_lr", "walk_p", "walk_q"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
                raise OptionError(f"{name}, a number above 0", repr(value), f"pass another {name}")
            if name != "walk_lr" and not 1 / EXTREME <= value <= EXTREME:
                expected = f"{name} from {1 / EXTREME:g} to {EXTREME:g}"
                raise OptionError(expected, repr(value), f"pass another {name}")
        pull = self.walk_pull
        if isinstance(pull, bool) or not isinstance(pull, int | float) or not 0 <= pull < float("inf"):
            raise OptionError("walk_pull, a number of at least 0", repr(pull), "pass another walk_pull")
        for name in ("skip", "validation_edges", "edge_weights"):
            if not isinstance(getattr(self, name), bool):
                raise OptionError(f"{name} to be true or false", repr(getattr(self, name)), "pass a bool")


_LR = {"ogbl-collab": 5e-4, "ogbl-ddi": 5e-3, "ogbl-ppa": 1e-2}  # of the networks
# Windows and walks of the leaderboard's DeepWalk: of a dense graph only the next two nodes of a walk are near.
_DEEPWALK: dict[str, dict[str, Any]] = {
    "ogbl-collab": {"walk_length": 40, "walk_context": 20, "walk_epochs": 5, "walk_pull": 0.005},
    "ogbl-ddi": {"walk_length": 80, "walk_context": 3, "walk_epochs": 5, "walk_batch_size": 16, "walk_pull": 0.05},
    "ogbl-ppa": {"walk_length": 80, "walk_context": 3, "walk_epochs": 3, "walk_pull": 0.02},
}
_EPOCHS = {"ogbl-collab": 200, "ogbl-ddi": 200, "ogbl-ppa": 20}


def link_protocol(dataset: str | None, model: str = "gcn", *, lrga: bool | None = None) -> dict[str, Any]:
    """Every option of a run, by name: the authors' for networks with LRGA, OGB's examples for the other rows.

    Args:
        dataset: One of the three, or ``None`` for the user's own edges.
        model: A convolution, ``"node2vec"``, ``"deepwalk"`` or ``"mf"``.
        lrga: Whether the network has LRGA; by default where it can.

    Example:
        >>> options = link_protocol("ogbl-ddi")
        >>> options["rank"], options["skip"], options["lr"], options["negatives"], options["dropout"]
        (50, False, 0.005, 'no_edge', 0.5)
    """
    embedding = model in EMBEDDINGS
    lrga = not embedding if lrga is None else lrga
    if embedding and lrga:
        raise OptionError("LRGA in a network of layers", f"the model {model!r}, a table", "pass lrga=False")
    common = {"lrga": lrga, "batch_size": BATCH_SIZE, "schedule": "constant"}
    if dataset is None:
        own = {"hidden": 128, "layers": 2, "rank": 30, "skip": True, "dropout": 0.0, "predictor_layers": 2}
        steps = {"lr": 5e-3, "max_epochs": 100, "clip_gradient": None if embedding else 1.0, "negatives": "no_edge"}
        return common | own | steps | ({"walk_epochs": 5, "walk_length": 20, "walk_context": 10} if embedding else {})
    facts = LINK_SETS[dataset]
    negatives = "no_edge" if dataset == "ogbl-ddi" else "uniform"
    options = common | {
        "layers": facts.layers, "skip": facts.skip, "rank": facts.rank, "dropout": facts.dropout,
        "negatives": negatives, "max_epochs": _EPOCHS[dataset],
    }  # fmt: skip
    if not embedding:
        plain = 1e-3 if dataset == "ogbl-collab" else _LR[dataset]
        rate = _LR[dataset] if lrga else plain
        return options | {
            "hidden": facts.hidden, "lr": rate, "clip_gradient": 1.0, "predictor_layers": facts.layers,
        }  # fmt: skip
    walks = _DEEPWALK[dataset] if model == "deepwalk" else {"walk_epochs": 100 if dataset == "ogbl-ddi" else 2}
    width = 256 if model == "mf" else 128
    return options | walks | {"hidden": width, "lr": 0.01, "clip_gradient": None, "predictor_layers": 3}


def refuse_foreign(given: Mapping[str, Any]) -> None:
    """Refuses options that a link-prediction run would not read."""
    if idle := [key for key in given if key in UNUSED]:
        raise OptionError("options of link prediction", ", ".join(idle), "leave out what it does not use")


def idle_options(given: Mapping[str, Any], model: str) -> list[str]:
    """Those of the options that this model would not read.

    Args:
        given: What somebody asked for, by name.
        model: A convolution, ``"node2vec"``, ``"deepwalk"`` or ``"mf"``.

    Example:
        >>> idle_options({"rank": 30, "walk_p": 2.0, "hidden": 64}, "deepwalk")
        ['rank', 'walk_p']
    """
    if model in EMBEDDINGS:
        unused = NETWORK_ONLY + {"mf": WALKS, "deepwalk": WALK_BIAS, "node2vec": ()}[model]
    else:
        unused = WALKS if model == "gcn" else (*WALKS, "edge_weights")
    unused += ("predictor_layers",) if given.get("predictor") == "dot" else ()
    # a bool that is false says what is the case anyway
    return [key for key in given if key in unused and given[key] is not False]


def refuse_idle(given: Mapping[str, Any], model: str) -> None:
    """Refuses :func:`idle_options`, and vectors of walks without a predictor to train on them."""
    if idle := idle_options(given, model):
        who = f"{model} (a table of vectors)" if model in EMBEDDINGS else model
        raise OptionError(f"options that {who} reads", ", ".join(idle), "leave out what it does not use")
    if given.get("predictor") == "dot" and model in ("node2vec", "deepwalk"):
        got, remedy = f"{model} with the predictor dot, which has none", "take hadamard or concat"
        raise OptionError("a predictor with weights, to be trained on the vectors of the walks", got, remedy)
