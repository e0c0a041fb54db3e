"""Networks on the Hugging Face Hub; needs ``pip install 'lrga[hub]'``.

The files are those of :func:`lrga.save_pretrained`, and :func:`lrga.load_pretrained` reads them too. Pickled weights
are never loaded.
"""

import os
from pathlib import Path
from typing import Any, Self

from lrga.errors import MissingDependencyError
from lrga.models.gnn import GNN
from lrga.models.link import LinkModel
from lrga.pretrained import CONFIG, WEIGHTS, read_network, write_network

try:
    from huggingface_hub import PyTorchModelHubMixin, snapshot_download
except ImportError as error:
    raise MissingDependencyError("the package huggingface_hub", str(error), "pip install 'lrga[hub]'") from error

__all__ = ["HubGNN", "HubLinkModel"]


class _Files(PyTorchModelHubMixin):
    """``PyTorchModelHubMixin`` that saves and loads the files of :mod:`lrga.pretrained`."""

    kind: str

    def _save_pretrained(self, save_directory: Path) -> None:
        write_network(self, self.kind, Path(save_directory))

    @classmethod
    def _from_pretrained(cls, *, model_id: str, map_location: str = "cpu", **options: Any) -> Self:
        folder = Path(model_id)
        if not os.path.isdir(model_id):
            names = ("revision", "cache_dir", "force_download", "local_files_only", "token")
            where = {name: options[name] for name in names if name in options}
            folder = Path(snapshot_download(model_id, allow_patterns=[CONFIG, WEIGHTS], **where))
        return read_network(folder, cls, kind=cls.kind).to(map_location)  # type: ignore[return-value]


class HubGNN(_Files, GNN, library_name="lrga", tags=["graph-neural-network"]):  # type: ignore[call-arg]
    """:class:`lrga.GNN` with ``from_pretrained``, ``save_pretrained`` and ``push_to_hub`` of ``huggingface_hub``.

    Args:
        *args: Arguments of :class:`lrga.GNN`.
        **kwargs: Keyword arguments of :class:`lrga.GNN`.

    Example:
        >>> import tempfile, lrga
        >>> folder = lrga.save_pretrained(lrga.GNN(5, 16, 2, 2, rank=4), tempfile.mkdtemp())
        >>> model = HubGNN.from_pretrained(folder)  # or "owner/name"; then: model.push_to_hub("owner/name")
        >>> model.rank
        4
    """

    kind = "GNN"


class HubLinkModel(_Files, LinkModel, library_name="lrga", tags=["link-prediction"]):  # type: ignore[call-arg]
    """:class:`lrga.models.LinkModel` with ``from_pretrained``, ``save_pretrained`` and ``push_to_hub``.

    Args:
        *args: Arguments of :class:`lrga.models.LinkModel`.
        **kwargs: Keyword arguments of :class:`lrga.models.LinkModel`.

    Example:
        >>> import tempfile, lrga
        >>> from lrga.models import LinkGNN, LinkModel, LinkPredictor
        >>> model = LinkModel(LinkGNN(8, 16, 2, rank=4), LinkPredictor(16, 16, 2))
        >>> HubLinkModel.from_pretrained(lrga.save_pretrained(model, tempfile.mkdtemp())).gnn.rank
        4
    """

    kind = "LinkModel"
