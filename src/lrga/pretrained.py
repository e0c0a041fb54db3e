"""Trained networks in a folder for sharing: ``model.safetensors`` and ``config.json``, without pickles.

::

    model.safetensors   the state dict
    config.json         class and arguments of the network, the scale of its output, the record, a checksum
"""

from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from lrga.errors import CheckpointError, ChecksumError, DataMissingError, DTypeError, OptionError, optional_module
from lrga.io.documents import read_json, write_json
from lrga.io.files import sha256_of
from lrga.io.limits import first_line
from lrga.io.safetensors import load_tensors, save_tensors
from lrga.models.budget import checked_size
from lrga.models.embeddings import DeepWalk, MatrixFactorization, Node2Vec
from lrga.models.gnn import GNN
from lrga.models.link import LinkGNN, LinkModel, LinkPredictor
from lrga.nn.layers.lrga import Wiring
from lrga.training.determinism import choose_device
from lrga.training.runs.checkpoint import damage_explained
from lrga.training.runs.folder import RunFolder
from lrga.training.runs.run import load_run
from lrga.version import __version__

FORMAT = 1
WEIGHTS, CONFIG = "model.safetensors", "config.json"
NETWORKS: dict[str, type[nn.Module]] = {
    kind.__name__: kind for kind in (GNN, LinkModel, MatrixFactorization, Node2Vec, DeepWalk)
}
NAMED = Path(__file__).resolve().parents[2] / "pretrained"  # of a clone; not in the wheel
HUB = "hf://"


def save_pretrained(model: nn.Module, folder: str | Path, *, record: Mapping[str, Any] | None = None) -> Path:
    """Saves a network for :func:`load_pretrained`.

    Args:
        model: A :class:`lrga.GNN` (as :func:`lrga.build_model` returns it), a link model or an embedding of
            :mod:`lrga.models`.
        folder: Folder for ``model.safetensors`` and ``config.json``.
        record: JSON values to store in ``config.json``: data set, metrics, seed.

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
    """:func:`save_pretrained` for a model of class ``kind`` in :data:`NETWORKS`."""
    config: dict[str, Any] = {"format": FORMAT, "lrga": __version__, "class": kind, "arguments": _arguments(model)}
    with torch.device("meta"):
        twin = _build(NETWORKS[kind], config["arguments"])
    found, built = ({(name, tensor.shape) for name, tensor in net.state_dict().items()} for net in (model, twin))
    if odd := sorted(found ^ built):  # changed after construction, e.g. by augment: it could not be rebuilt
        remedy = "save the weights of a modified model with safetensors.torch.save_model(model, path)"
        raise OptionError(f"an unmodified {kind}", f"a change of {odd[0][0]}", remedy)
    if isinstance(model, GNN) and model.output_mean is not None and model.output_std is not None:
        config["output_scale"] = {"mean": model.output_mean.tolist(), "std": model.output_std.tolist()}
    save_tensors(folder / WEIGHTS, model.state_dict(), metadata={"format": "pt"})
    config |= {"sha256": sha256_of(folder / WEIGHTS), "record": dict(record or {})}
    try:
        write_json(folder / CONFIG, config)
    except (TypeError, ValueError) as error:
        raise OptionError("a record of JSON values", str(error), "pass numbers, text, lists and dicts") from error
    return folder


def load_pretrained(source: str | Path, *, which: str | None = None, device: str = "cpu") -> nn.Module:
    """Loads a trained network, in evaluation mode.

    Args:
        source: A folder that :func:`save_pretrained` wrote; the folder of a run of ``lrga train``; the name of a model
            in the folder ``pretrained/`` of a clone; or ``"hf://owner/name"`` (``"hf://owner/name@revision"``) on the
            Hugging Face Hub, which needs ``pip install 'lrga[hub]'``. Only the Hub needs a network connection.
        which: For a run: weights of the ``"last"`` epoch or of the ``"best"`` epoch in validation; by default the epoch
            whose result the run reports.
        device: Device of the network; ``"auto"`` uses a GPU if there is one.

    Returns:
        The network. If the run standardised the targets, predictions are in the units of the data.

    Raises:
        DataMissingError: There is no such folder or name; the message lists the names available.
        CheckpointError: The folder contains no such model, or the weights do not fit.
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
        raise OptionError("which only with the folder of a run", f"{which!r} with {source}", "omit it")
    return read_network(folder).to(choose_device(device))


def read_network(folder: Path, network: type[nn.Module] | None = None, kind: str | None = None) -> nn.Module:
    """Loads a folder of :func:`save_pretrained`, in evaluation mode; ``network`` replaces the class ``kind``."""
    path, remedy = folder / CONFIG, "restore the folder, or save the model again"
    config = read_json(path)
    if not isinstance(config, dict) or config.get("format") != FORMAT or config.get("class") not in NETWORKS:
        got = f"format {config.get('format')} of {config.get('class')}" if isinstance(config, dict) else "no object"
        raise CheckpointError(f"a file of lrga.save_pretrained of this version at {path}", got, remedy)
    if kind is not None and config["class"] != kind:
        raise CheckpointError(f"a {kind} in {folder}", f"a {config['class']}", "load it with lrga.load_pretrained")
    weights = load_tensors(folder / WEIGHTS, remedy=remedy)
    if sha256_of(folder / WEIGHTS) != config.get("sha256"):
        got = "other content (damaged, or from another model)"
        raise ChecksumError(f"{folder / WEIGHTS} with the sha256 of {CONFIG}", got, remedy)
    with damage_explained(f"arguments of a {config['class']} in {path} that fit its weights", remedy):
        build = partial(_build, network or NETWORKS[config["class"]], config["arguments"])
        parts = (config["arguments"], *config["arguments"].values())
        layers = [part["num_layers"] for part in parts if isinstance(part, dict) and "num_layers" in part]
        checked_size(build, max(layers))  # raises an error before memory is exhausted
        with torch.random.fork_rng([]):
            model = build()
        model.load_state_dict(weights)
        dtypes = {tensor.dtype for tensor in weights.values() if tensor.is_floating_point()}
        model = model.to(dtypes.pop()) if len(dtypes) == 1 else model
        if "output_scale" in config and isinstance(model, GNN):
            model.set_output_scale(config["output_scale"]["mean"], config["output_scale"]["std"])
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
    remedy = "pass a folder; names need a clone of the repository, installed with pip install -e ."
    if names:
        remedy = f"choose a name among {', '.join(names)}, or pass a folder"
    raise DataMissingError(f"a pretrained model {str(source)!r}", f"{got}; names available: {len(names)}", remedy)


def _download(source: str) -> Path:
    snapshot_download = optional_module("huggingface_hub", f"for {source}", "hub").snapshot_download
    name, _, revision = source.removeprefix(HUB).partition("@")
    try:
        return Path(snapshot_download(name, revision=revision or None, allow_patterns=[CONFIG, WEIGHTS]))
    except (OSError, ValueError) as error:
        remedy = "check the name and the connection, or download the two files and pass their folder"
        raise DataMissingError(f"the model {source}", first_line(error).removeprefix("Got: "), remedy) from error


def _arguments(model: nn.Module) -> dict[str, Any]:
    """Arguments of the constructor, as JSON values."""
    if isinstance(model, LinkModel):
        nodes = None if model.embedding is None else model.embedding.weight.size(0)
        return {"gnn": model.gnn.arguments, "predictor": model.predictor.arguments, "num_nodes": nodes}
    arguments: Any = model.arguments
    return {key: asdict(value) if isinstance(value, Wiring) else value for key, value in arguments.items()}


def _build(network: type[nn.Module], arguments: Mapping[str, Any]) -> nn.Module:
    """Builds the network from :func:`_arguments`."""
    made = dict(arguments)
    if isinstance(wiring := made.get("wiring"), dict):
        made["wiring"] = Wiring(**{**wiring, "concatenate": tuple(wiring["concatenate"])})
    if issubclass(network, LinkModel):
        made |= {"gnn": LinkGNN(**made["gnn"]), "predictor": LinkPredictor(**made["predictor"])}
    return network(**made)
