"""The Low-Rank Global Attention module of the paper (its equations 2 and 3)."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.nn.dense.linear import Linear
from torch_geometric.nn.inits import reset

from lrga.checks import (
    check_choice,
    check_count,
    check_features,
    check_flag,
    check_fraction,
    check_same_device,
    check_same_dtype,
)
from lrga.errors import OptionError, ShapeError, UnsupportedError
from lrga.nn.linear import apply_linear, is_linear, weight_of
from lrga.ops.attention import BACKENDS, attend, attend_projected, check_normalization
from lrga.ops.attention.reference import attention_factors, rms_normalized
from lrga.ops.attention.segments import Segments

Maps = tuple[nn.Module, nn.Module, nn.Module, nn.Module]
OPTIONS = ("normalize", "qk_norm", "gate", "eps")  # not in the paper; networks pass them to every layer


class LowRankGlobalAttention(nn.Module):
    r"""Global attention over all nodes of a graph, of rank κ, in linear time and memory.

    .. math::
        \mathrm{LRGA}(X) = \left[ \frac{1}{\eta(X)} \, m_1(X) \left( m_2(X)^\top m_3(X) \right), \; m_4(X) \right],
        \qquad \eta(X) = \frac{1}{n} \left( \mathbf 1^\top m_1(X) \right) \left( m_2(X)^\top \mathbf 1 \right)

    where each :math:`m_i` is a linear map followed by ReLU. In a batch, every graph attends to its own nodes only and
    has its own η, so its result does not depend on the rest of the batch.

    Args:
        in_channels: Width of x, or ``-1`` to take it from the first call.
        rank: The paper's κ, per head. With rank 0 the output has no columns.
        heads: Number of independent attentions; their outputs are concatenated.
        dropout: Dropout on the output, as in the authors' code.
        normalize: ``"graph"`` divides by η as in the paper, ``"row"`` makes each row of the attention matrix sum to
            one, ``"rms"`` divides each row of the result by its root mean square, ``None`` does not normalise.
        qk_norm: Whether each node's rows of :math:`m_1` and :math:`m_2` are divided by their root mean square.
        gate: Whether each head has a learned gate that can turn its attention off.
        maps: Modules ``(m1, m2, m3, m4)`` instead of the linear maps with ReLU; with several heads a list of such
            tuples, one per head. m1 and m2 must have the same output width; ``rank`` is then not used.
        eps: Added to η to avoid a division by zero; with ``"row"``, rows with a smaller sum are set to zero. Also added
            to mean squares and to the divisor of the gate.
        backend: ``"auto"``, ``"segmented"``, ``"triton"`` or ``"dense"``; all compute the same function with the same
            parameters.

    Three options go beyond the paper. :math:`u_i, v_i, z_i` are the rows of node i in one head of
    :math:`m_1, m_2, m_3`, and :math:`a_i` is its attended row. They are exact for batches, in every backend:

    ``qk_norm=True`` replaces, before η,

    .. math::
        u_i \leftarrow \frac{u_i}{\sqrt{\frac{1}{\kappa} \sum_k u_{ik}^2 + \epsilon}}, \qquad
        v_i \leftarrow \frac{v_i}{\sqrt{\frac{1}{\kappa} \sum_k v_{ik}^2 + \epsilon}}

    so that no node dominates the attention.

    ``normalize="rms"`` replaces the paper's :math:`a_i` by
    :math:`a_i / \sqrt{\frac{1}{\kappa} \sum_c a_{ic}^2 + \epsilon}`. η scales all rows of a graph by the same
    factor and cancels, except that it makes the effect of ε independent of the size of the graph.

    ``gate=True`` replaces :math:`a_i` by a weighted mean of the node's own :math:`z_i` and what it attends to,

    .. math::
        \frac{(1 - g) \, z_i + g \, a_i}{(1 - g) + g \, r_i}, \qquad g = \mathrm{sigmoid}(s),

    where :math:`r_i = u_i \cdot \sum_j v_j / \eta` is the row sum of the attention matrix, 1 on average, and s is the
    parameter ``gate``, one number for each head. As g goes to 0 the head becomes local; a node with :math:`u_i = 0` is
    local for any g. The result is bounded by the largest z of the graph. Initially s = 0, where the node itself and the
    graph have equal weight on average and the gradient of s is largest; with η = n this is SGFormer's
    :math:`(n z_i + u_i V^\top Z) / (n + u_i V^\top \mathbf 1)`. Only with ``"graph"`` and ``"row"``.

    Shapes:
        - x: ``[N, in_channels]``, batch: ``[N]``
        - result: ``[N, heads * 2 * rank]``, head after head, each ``[attended, m4]``

    Example:
        >>> import torch, lrga
        >>> attention = lrga.LowRankGlobalAttention(16, rank=4, heads=2)
        >>> attention(torch.randn(10, 16), batch=torch.tensor([0] * 4 + [1] * 6)).shape
        torch.Size([10, 16])
    """

    gate: nn.Parameter | None
    is_partitioned = False  # True in the class of lrga.distributed whose nodes are partitioned across ranks

    def __init__(
        self,
        in_channels: int,
        rank: int,
        *,
        heads: int = 1,
        dropout: float = 0.0,
        normalize: str | None = "graph",
        qk_norm: bool = False,
        gate: bool = False,
        maps: Maps | Sequence[Maps] | None = None,
        eps: float = 1e-6,
        backend: str = "auto",
    ) -> None:
        super().__init__()
        check_count("in_channels", in_channels, minimum=-1)
        check_count("rank", rank)
        check_count("heads", heads, minimum=1)
        check_fraction("dropout", dropout)
        check_flag("qk_norm", qk_norm)
        check_flag("gate", gate)
        check_normalization(normalize, eps, qk_norm=qk_norm, gate=gate)
        check_choice("backend", backend, BACKENDS)
        self._in_channels, self.rank, self.heads = in_channels, rank, heads
        self.dropout, self.normalize, self.eps, self.backend = float(dropout), normalize, eps, backend
        self.qk_norm = qk_norm
        self.maps = None if maps is None else nn.ModuleList(nn.ModuleList(m) for m in _maps_of_heads(maps, heads))
        # One product for all maps of all heads; rows are ordered by head, then m1, m2, m3, m4.
        self.project = Linear(in_channels, heads * 4 * rank) if rank and maps is None else None
        has_gate = gate and (self.project is not None or maps is not None)
        self.register_parameter("gate", nn.Parameter(torch.zeros(heads)) if has_gate else None)

    @property
    def in_channels(self) -> int:
        """Width of x; ``-1`` before the first call."""
        if not isinstance(self.project, Linear):  # it may have been replaced by another module
            return int(getattr(self.project, "in_features", self._in_channels))
        return int(self.project.in_channels)

    @property
    def out_channels(self) -> int | None:
        """Width of the output; ``None`` with custom maps."""
        return self.heads * 2 * self.rank if self.maps is None else None

    def reset_parameters(self) -> None:
        """Reinitialises all parameters."""
        reset(self.project)
        reset(self.maps)
        if self.gate is not None:
            nn.init.zeros_(self.gate)

    def forward(self, x: Tensor, batch: Tensor | Segments | None = None, num_graphs: int | None = None) -> Tensor:
        """Attends within each graph.

        Args:
            x: Node features.
            batch: Graph of each node, sorted or not. ``None``, the default, is one graph.
            num_graphs: Number of graphs, if known (needed for empty graphs at the end; avoids a GPU synchronisation).
        """
        segments = self._check(x, batch, num_graphs)
        if self.maps is None:
            if self.project is None:
                return x.new_zeros(x.size(0), 0)
            out = self._attend_projected(x, segments)
        else:
            parts = []
            for head, gate in zip(self._heads(), self._gates(), strict=True):
                u, v, z, m4 = (_as_head(m(x), i, x) for i, m in enumerate(head, start=1))
                _check_shared_width(u, v)
                parts += [self._attend(u, v, z, segments, gate).squeeze(1), m4.squeeze(1)]
            out = torch.cat(parts, dim=-1)
        return F.dropout(out, self.dropout, self.training) if self.dropout else out

    def factors(
        self, x: Tensor, batch: Tensor | Segments | None = None, num_graphs: int | None = None
    ) -> tuple[Tensor, Tensor]:
        """``(u, v)`` such that the attention matrix of graph g is ``u_g @ v_g.T``, normalisation and gate included.

        With a gate, one minus the sum of row i is the weight of the node's own z.

        Shapes:
            - u, v: ``[N, rank]``, with several heads ``[N, heads, rank]``; float32 for half precision
        """
        segments = self._check(x, batch, num_graphs)
        if self.maps is not None:
            pairs = []
            for head, gate in zip(self._heads(), self._gates(), strict=True):
                u, v = _as_head(head[0](x), 1, x), _as_head(head[1](x), 2, x)
                _check_shared_width(u, v)
                z = _as_head(head[2](x), 3, x) if self.normalize == "rms" else None
                pairs.append(self._factors(u, v, z, segments, gate))
            if len({u.size(-1) for u, _ in pairs}) > 1:
                raise ShapeError(
                    "the same output width for m1 of all heads",
                    f"widths {[u.size(-1) for u, _ in pairs]}",
                    "use one module per head and call factors on each",
                )
            u, v = torch.cat([u for u, _ in pairs], 1), torch.cat([v for _, v in pairs], 1)
        elif self.project is None:
            u = v = x.new_zeros(x.size(0), self.heads, 0)
        else:
            u, v, z, _ = self._project(x).unbind(2)
            u, v = self._factors(u, v, z, segments, self.gate)
        return (u.squeeze(1), v.squeeze(1)) if self.heads == 1 else (u, v)

    def values(self, x: Tensor) -> Tensor:
        """``z``: the attended features are the attention matrix times z, before any normalisation of the result.

        Shapes:
            - z: ``[N, rank]``, with several heads ``[N, heads, rank]``
        """
        if self.maps is not None:
            remedy = "apply m3 of your maps to x"
            raise UnsupportedError("the linear maps of the paper", "custom maps", remedy)
        self._check(x, None, None)
        z = x.new_zeros(x.size(0), self.heads, 0) if self.project is None else self._project(x)[:, :, 2]
        return z.squeeze(1) if self.heads == 1 else z

    def _factors(
        self, u: Tensor, v: Tensor, z: Tensor | None, segments: Segments, gate: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        u, v = self._normalized(u, v)
        return attention_factors(u, v, segments, self.normalize, self.eps, z=z, gate=gate)

    def _check(self, x: Tensor, batch: Tensor | Segments | None, num_graphs: int | None) -> Segments:
        width = self.in_channels
        check_features("x", x, width if width >= 0 else None)
        if not torch.compiler.is_compiling() and torch.is_inference_mode_enabled() and isinstance(self.project, Linear):
            self._initialize_outside_inference(x)
        weight = weight_of(self.project)
        check_same_device(x=x, batch=batch if isinstance(batch, Tensor) else None, parameters=weight)
        check_same_dtype(x, weight)
        if isinstance(batch, Segments):  # a model computes them once for all its layers
            return batch
        return Segments.from_batch(batch, x.size(0), num_graphs)

    def _initialize_outside_inference(self, x: Tensor) -> None:
        """Initialises lazy parameters outside inference mode, so that they can be trained later."""
        assert isinstance(self.project, Linear)
        if isinstance(self.project.weight, nn.UninitializedParameter):
            with torch.inference_mode(False):
                self.project.initialize_parameters(self.project, (x,))

    def _project(self, x: Tensor) -> Tensor:
        assert self.project is not None
        out = apply_linear(self.project, x)
        if tuple(out.shape) != (x.size(0), self.heads * 4 * self.rank):  # from a replaced module
            wanted = f"project to return features [{x.size(0)}, {self.heads * 4 * self.rank}]"
            raise ShapeError(wanted, f"shape {list(out.shape)}", "use a module with heads * 4 * rank outputs")
        # A hook, or a module that replaces the linear map, may have kept a reference to the output.
        out = F.relu(out, inplace=is_linear(self.project))
        return out.view(-1, self.heads, 4, self.rank)  # [N, H, 4, K]

    def _attend_projected(self, x: Tensor, segments: Segments) -> Tensor:
        project = self.project
        if not is_linear(project):  # only its output is known
            u, v, z, m4 = self._project(x).unbind(2)  # each [N, H, K]
            attended = self._attend(u, v, z, segments, self.gate)
            return torch.cat([attended, m4.to(attended.dtype)], dim=-1).flatten(1)
        return attend_projected(
            x,
            project.weight,
            project.bias,
            segments,
            project=self._project,
            heads=self.heads,
            rank=self.rank,
            normalize=self.normalize,
            qk_norm=self.qk_norm,
            gate=self.gate,
            eps=self.eps,
            backend=self.backend,
        )

    def _heads(self) -> Iterator[list[nn.Module]]:
        """The custom maps of each head."""
        for head in self.maps or ():
            assert isinstance(head, nn.ModuleList)
            yield list(head)

    def _gates(self) -> list[Tensor | None]:
        """The gate of each head, ``[1]``."""
        return [None if self.gate is None else self.gate[head : head + 1] for head in range(self.heads)]

    def _normalized(self, u: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """u and v, after ``qk_norm`` if it is on."""
        return (rms_normalized(u, self.eps), rms_normalized(v, self.eps)) if self.qk_norm else (u, v)

    def _attend(self, u: Tensor, v: Tensor, z: Tensor, segments: Segments, gate: Tensor | None) -> Tensor:
        options: dict[str, Any] = {"normalize": self.normalize, "qk_norm": self.qk_norm, "eps": self.eps}
        return attend(u, v, z, segments, gate=gate, backend=self.backend, **options)

    def __repr__(self) -> str:
        parts = [f"{self.in_channels}, rank={self.rank}, heads={self.heads}", *self.changed_options()]
        parts += [] if self.maps is None else ["maps=custom"]
        return f"{type(self).__name__}({', '.join(parts)})"

    def changed_options(self) -> list[str]:
        """The options that differ from the paper, as ``name=value``."""
        normalize = [] if self.normalize == "graph" else [f"normalize={self.normalize!r}"]
        return normalize + ["qk_norm=True"] * self.qk_norm + ["gate=True"] * (self.gate is not None)


def check_attention_options(options: Mapping[str, Any] | None) -> dict[str, Any]:
    """Checks the ``attention_options`` of a network: options of :class:`LowRankGlobalAttention`; ``None`` is ``{}``.

    Example:
        >>> check_attention_options({"qk_norm": True})
        {'qk_norm': True}
    """
    if options is not None and not isinstance(options, Mapping):
        raise OptionError("attention_options to be a dict", repr(options), "pass for example {'qk_norm': True}")
    if unknown := [name for name in options or {} if name not in OPTIONS]:
        raise OptionError(f"attention_options among {', '.join(OPTIONS)}", repr(unknown[0]), "choose one of these")
    return dict(options or {})


def _maps_of_heads(maps: Maps | Sequence[Maps], heads: int) -> list[list[nn.Module]]:
    given: list[Any] = list(maps)
    if given and all(isinstance(m, nn.Module) and not isinstance(m, nn.ModuleList) for m in given):
        given = [given]
    tuples = [list(t) if isinstance(t, tuple | list | nn.ModuleList) else [t] for t in given]
    if len(tuples) != heads or any(len(t) != 4 or not all(isinstance(m, nn.Module) for m in t) for t in tuples):
        raise OptionError(
            "maps to be a tuple of four modules (m1, m2, m3, m4)" + (f" for each of {heads} heads" * (heads > 1)),
            f"{len(tuples)} entries: {given!r}",
            "wrap plain functions in a module; with several heads pass a list of one tuple per head",
        )
    return tuples


def _as_head(out: Tensor, number: int, x: Tensor) -> Tensor:
    if not isinstance(out, Tensor) or out.dim() != 2 or out.size(0) != x.size(0):
        got = f"shape {list(out.shape)}" if isinstance(out, Tensor) else type(out).__name__
        raise ShapeError(f"m{number} to return a matrix of {x.size(0)} rows", got, "return one row for each node")
    return out.unsqueeze(1)


def _check_shared_width(u: Tensor, v: Tensor) -> None:
    if u.size(-1) != v.size(-1):
        raise ShapeError(
            "m1 and m2 to return matrices of the same width",
            f"{u.size(-1)} and {v.size(-1)} columns",
            "give m1 and m2 the same number of outputs (the rank); m3 and m4 may differ",
        )
