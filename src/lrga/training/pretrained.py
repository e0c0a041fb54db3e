"""Trained networks in a folder that others can load: ``model.safetensors`` and ``config.json``, never a pickle.

::

    model.safetensors   the state dict
    config.json         class and arguments of the network, the scale of its output, the record, a checksum
"""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import nn

from lrga.errors import (
    CheckpointError,
    ChecksumError,
    DataMissingError,
    DTypeError,
    MissingDependencyError,
    OptionError,
)
from lrga.io.documents import read_json, write_json
from lrga.io.files import sha256_of
from lrga.io.safetensors import load_tensors, save_tensors
from lrga.models.embeddings import DeepWalk, MatrixFactorization, Node2Vec
from lrga.models.gnn import GNN
from lrga.models.link import LinkGNN, LinkModel, LinkPredictor
from lrga.nn.layers.lrga import Wiring
from lrga.training.determinism import choose_device
from lrga.training.problems.architecture import SavedNetwork
from lrga.training.runs.folder import RunFolder
from lrga.training.runs.run import load_run, with_weights
from lrga.version import __version__

FORMAT = 1
WEIGHTS, CONFIG = "model.safetensors", "config.json"
NETWORKS: dict[str, type[nn.Module]] = {
    kind.__name__: kind for kind in (GNN, LinkModel, MatrixFactorization, Node2Vec, DeepWalk)
}
NAMED = Path(__file__).resolve().parents[3] / "pretrained"  # of a clone; not in the wheel
HUB = "hf://"


def save_pretrained(model: nn.Module, folder: str | Path, *, record: Mapping[str, Any] | None = None) -> Path:
    """Saves a network so that :func:`load_pretrained` builds it again, here or elsewhere.

    Args:
        model: A :class:`lrga.GNN` (as :func:`lrga.build_model` returns it), a link model or an embedding of
            :mod:`lrga.models`.
        folder: Where ``model.safetensors`` and ``config.json`` are written.
        record: Anything that JSON can hold, kept in ``config.json``: data set, metrics, seed.

    Returns:
        The folder.

    Example:
        >>> import lrga, tempfile
        >>> model = lrga.GNN(5, 16, 2, 2, rank=4)
        >>> folder = lrga.save_pretrained(model, tempfile.mkdtemp(), record={"dataset": "CLUSTER"})
        >>> sorted(path.name for path in folder.iterdir())
        ['config.json', 'model.safetensors']
    """
    kind = next((name for name, network in NETWORKS.items() if type(model) is network), None)
    if kind is None:
        remedy = "save the weights of other models with safetensors.torch.save_model(model, path)"
        raise DTypeError(f"a model of class {', '.join(NETWORKS)}", type(model).__name__, remedy)
    return write_network(model, kind, Path(folder), record)


def write_network(model: nn.Module, kind: str, folder: Path, record: Mapping[str, Any] | None = None) -> Path:
    """:func:`save_pretrained` of a model that is a ``kind`` of :data:`NETWORKS`."""
    config = {"format": FORMAT, "lrga": __version__, "class": kind, "arguments": _arguments(model)}
    _check_as_built(model, config)
    if isinstance(model, GNN) and model.output_mean is not None and model.output_std is not None:
        config["output_scale"] = {"mean": model.output_mean.tolist(), "std": model.output_std.tolist()}
    save_tensors(folder / WEIGHTS, model.state_dict(), metadata={"format": "pt"})
    config |= {"sha256": sha256_of(folder / WEIGHTS), "record": dict(record or {})}
    try:
        write_json(folder / CONFIG, config)
    except (TypeError, ValueError) as error:
        raise OptionError("a record that JSON can hold", str(error), "pass numbers, text, lists and dicts") from error
    return folder


def load_pretrained(source: str | Path, *, which: str | None = None, device: str = "cpu") -> nn.Module:
    """Loads a trained network, in evaluation mode.

    Args:
        source: A folder that :func:`save_pretrained` wrote; the folder of a run of ``lrga train``; the name of a model
            in the folder ``pretrained/`` of a clone; or ``"hf://owner/name"`` (``"hf://owner/name@revision"``) on the
            Hugging Face Hub, which needs ``pip install 'lrga[hub]'``. Nothing else needs a network connection.
        which: Of a run: weights of the ``"last"`` epoch or of the ``"best"`` in validation; by default those whose
            result the run reports.
        device: Device of the network; ``"auto"`` uses a GPU if there is one.

    Returns:
        The network. Predictions of a run whose targets were standardised are in the units of the data.

    Raises:
        DataMissingError: There is no such folder or name; the message lists the names available.
        CheckpointError: The folder holds no such model, or weights that do not fit.
        ChecksumError: The weights are damaged.

    Example:
        >>> import lrga, tempfile
        >>> model = lrga.build_model("ZINC", "gcn", hidden=8, layers=1).eval()
        >>> again = lrga.load_pretrained(lrga.save_pretrained(model, tempfile.mkdtemp()))
        >>> x, edge_index = torch.tensor([3, 0, 5]), torch.tensor([[0, 1], [1, 2]])
        >>> torch.equal(again(x, edge_index), model(x, edge_index))
        True
    """
    folder = _folder(source)
    if (folder / "model.json").is_file():
        chosen = RunFolder(folder).config().reported if which is None else which
        return load_run(folder, which=chosen, device=device)[0]
    if which is not None:
        raise OptionError("which only with the folder of a run", f"{which!r} with {source}", "leave it out")
    return read_network(folder).to(choose_device(device))


def read_network(folder: Path, network: type[nn.Module] | None = None, kind: str | None = None) -> nn.Module:
    """What :func:`save_pretrained` wrote, in evaluation mode; ``network`` is built in place of the class ``kind``."""
    path, remedy = folder / CONFIG, "restore the folder, or save the model again"
    config = read_json(path)
    if not isinstance(config, dict) or config.get("format") != FORMAT or config.get("class") not in NETWORKS:
        got = f"format {config.get('format')} of {config.get('class')}" if isinstance(config, dict) else "no object"
        raise CheckpointError(f"what lrga.save_pretrained of this version writes, in {path}", got, remedy)
    if kind is not None and config["class"] != kind:
        raise CheckpointError(f"a {kind} in {folder}", f"a {config['class']}", "load it with lrga.load_pretrained")
    if not (folder / WEIGHTS).is_file():
        raise CheckpointError(f"the file {folder / WEIGHTS}", "no such file", remedy)
    weights = load_tensors(folder / WEIGHTS, remedy=remedy)
    if sha256_of(folder / WEIGHTS) != config.get("sha256"):
        got = "another content (damaged, or of another model)"
        raise ChecksumError(f"{folder / WEIGHTS} with the sha256 of {CONFIG}", got, remedy)
    try:
        model = with_weights(_Described(config, network or NETWORKS[config["class"]]), weights, str(path))
        dtypes = {tensor.dtype for tensor in weights.values() if tensor.is_floating_point()}
        model = model.to(dtypes.pop()) if len(dtypes) == 1 else model
        if "output_scale" in config and isinstance(model, GNN):
            model.set_output_scale(config["output_scale"]["mean"], config["output_scale"]["std"])
    except CheckpointError:
        raise
    except (LookupError, TypeError, AttributeError, ValueError) as error:
        raise CheckpointError(f"arguments of a {config['class']} in {path}", str(error), remedy) from error
    return model.eval()


def _folder(source: str | Path) -> Path:
    if isinstance(source, str) and source.startswith(HUB):
        return _download(source)
    path = Path(source)
    if (path / CONFIG).is_file():
        return path
    names = sorted(found.parent.name for found in NAMED.glob(f"*/{CONFIG}"))
    if str(source) in names:
        return NAMED / str(source)
    got = "a folder without config.json" if path.is_dir() else "neither a folder nor a name"
    if names:
        remedy = f"choose a name among {', '.join(names)}, or pass a folder"
    elif NAMED.is_dir():
        remedy = "pass a folder of lrga.save_pretrained or of lrga train"
    else:
        remedy = "pass a folder; names need a clone of the repository, installed with pip install -e ."
    raise DataMissingError(f"a pretrained model {str(source)!r}", f"{got}; names available: {len(names)}", remedy)


def _download(source: str) -> Path:
    try:
        from huggingface_hub import snapshot_download
    except ImportError as error:
        remedy = "pip install 'lrga[hub]'"
        raise MissingDependencyError(f"the package huggingface_hub, for {source}", str(error), remedy) from error
    name, _, revision = source.removeprefix(HUB).partition("@")
    try:
        return Path(snapshot_download(name, revision=revision or None, allow_patterns=[CONFIG, WEIGHTS]))
    except (OSError, ValueError) as error:
        remedy = "check the name and the connection, or download the two files and pass their folder"
        got = (str(error).splitlines() or [type(error).__name__])[0]
        raise DataMissingError(f"the model {source}", got, remedy) from error


def _arguments(model: nn.Module) -> dict[str, Any]:
    """Of the constructor, as JSON values."""
    if isinstance(model, LinkModel):
        nodes = None if model.embedding is None else model.embedding.weight.size(0)
        return {"gnn": model.gnn.arguments, "predictor": model.predictor.arguments, "num_nodes": nodes}
    arguments: Any = model.arguments
    return {key: asdict(value) if isinstance(value, Wiring) else value for key, value in arguments.items()}


class _Described(SavedNetwork):
    """The network that a ``config.json`` describes."""

    def __init__(self, config: Mapping[str, Any], network: type[nn.Module]) -> None:
        self.arguments, self.network = dict(config["arguments"]), network
        predictor, gnn = self.arguments, self.arguments if config["class"] == "GNN" else None
        if config["class"] == "LinkModel":
            gnn, predictor = self.arguments["gnn"], self.arguments["predictor"]
        self.num_layers, self.predictor_layers = 0 if gnn is None else gnn["num_layers"], predictor["num_layers"]
        if not all(type(count) is int for count in (self.num_layers, self.predictor_layers)):
            raise TypeError("num_layers is no integer")

    def build(self) -> nn.Module:
        """The network, its weights drawn from PyTorch's random state."""
        arguments = dict(self.arguments)
        if isinstance(arguments.get("wiring"), dict):
            wiring = arguments["wiring"]
            arguments["wiring"] = Wiring(**{**wiring, "concatenate": tuple(wiring["concatenate"])})
        if issubclass(self.network, LinkModel):
            arguments |= {"gnn": LinkGNN(**arguments["gnn"]), "predictor": LinkPredictor(**arguments["predictor"])}
        return self.network(**arguments)


def _check_as_built(model: nn.Module, config: Mapping[str, Any]) -> None:
    """Refuses a model that was changed since its constructor, as by ``augment``: it could not be built again."""
    with torch.device("meta"):
        twin = _Described(config, NETWORKS[config["class"]]).build()
    found, built = ({(name, tensor.shape) for name, tensor in net.state_dict().items()} for net in (model, twin))
    if odd := sorted(found ^ built):
        remedy = "save the weights of a model that was changed with safetensors.torch.save_model(model, path)"
        raise OptionError(f"a {config['class']} as its constructor makes it", f"a change of {odd[0][0]}", remedy)
