"""Which implementation computes the attention, and the functional interface."""

from collections.abc import Callable

import torch
from torch import Tensor

from lrga.errors import OptionError, ShapeError
from lrga.kernels.checks import autocast_is_on, check_choice, check_features, check_same_device
from lrga.kernels.reference import NORMALIZATIONS, dense_attention, segmented_attention
from lrga.kernels.segments import Segments

Implementation = Callable[[Tensor, Tensor, Tensor, Segments, str | None, float], Tensor]

IMPLEMENTATIONS: dict[str, Implementation] = {"segmented": segmented_attention, "dense": dense_attention}
BACKENDS = ("auto", *IMPLEMENTATIONS)


def low_rank_attention(
    u: Tensor,
    v: Tensor,
    z: Tensor,
    batch: Tensor | None = None,
    num_graphs: int | None = None,
    *,
    eps: float = 1e-6,
    backend: str = "auto",
) -> Tensor:
    r"""Low-rank global attention of the paper, for one graph or a batch of graphs.

    .. math::
        \frac{1}{\eta_g} \, u_g (v_g^\top z_g), \qquad \eta_g = \frac{(\sum_i u_i) \cdot (\sum_i v_i)}{n_g}

    for each graph :math:`g`, in O(NK) memory and O(NK²) time. The result of a graph never depends on the other graphs
    of the batch. Half-precision input is accumulated in float32, also under autocast.

    Args:
        u: The paper's :math:`m_1(X)`.
        v: The paper's :math:`m_2(X)`.
        z: The paper's :math:`m_3(X)`.
        batch: Graph of each node as in PyG, in any order; ``None`` is one graph.
        num_graphs: Number of graphs. Needed for empty graphs at the end; saves a wait for the GPU.
        eps: Added to η (subtracted where signed inputs make η negative).
        backend: ``"auto"``, ``"segmented"`` (linear) or ``"dense"`` (the O(N²) definition, for comparison).

    Shapes:
        - u, v: ``[N, K]``; z: ``[N, Z]``; batch: ``[N]``
        - result: ``[N, Z]``

    Example:
        >>> import torch, lrga
        >>> u, v, z = torch.rand(5, 2), torch.rand(5, 2), torch.rand(5, 3)
        >>> lrga.low_rank_attention(u, v, z, batch=torch.tensor([0, 0, 1, 1, 1])).shape
        torch.Size([5, 3])
    """
    for name, tensor in (("u", u), ("v", v), ("z", z)):
        check_features(name, tensor)
    check_same_device(u=u, v=v, z=z, batch=batch if isinstance(batch, Tensor) else None)
    if not u.size(0) == v.size(0) == z.size(0) or u.size(1) != v.size(1):
        raise ShapeError(
            "u and v of shape [N, K] and z of shape [N, Z]",
            f"u {list(u.shape)}, v {list(v.shape)}, z {list(z.shape)}",
            "give all three one row per node, and u and v the same number of columns",
        )
    segments = Segments.from_batch(batch, u.size(0), num_graphs)
    return attend(u[:, None], v[:, None], z[:, None], segments, eps=eps, backend=backend).squeeze(1)


def attend(
    u: Tensor,
    v: Tensor,
    z: Tensor,
    segments: Segments,
    *,
    normalize: str | None = "graph",
    eps: float = 1e-6,
    backend: str = "auto",
) -> Tensor:
    """The attention of H heads over checked input: ``u, v: [N, H, K]``, ``z: [N, H, Z]`` to ``[N, H, Z]``."""
    check_choice("normalize", normalize, NORMALIZATIONS)
    check_eps(eps)
    dtype = torch.promote_types(torch.promote_types(u.dtype, v.dtype), z.dtype)
    u, v, z = u.to(dtype), v.to(dtype), z.to(dtype)
    implementation = IMPLEMENTATIONS[choose_backend(backend)]
    if not autocast_is_on(u.device.type):
        return implementation(u, v, z, segments, normalize, eps)
    with torch.autocast(u.device.type, enabled=False):  # it would round the sums over nodes to half precision
        return implementation(u, v, z, segments, normalize, eps)


def choose_backend(backend: str) -> str:
    """The implementation that ``backend`` stands for."""
    check_choice("backend", backend, BACKENDS)
    return "segmented" if backend == "auto" else backend


def check_eps(eps: float) -> None:
    """Refuses an eps that would not keep a division by η = 0 finite."""
    if isinstance(eps, bool) or not isinstance(eps, int | float) or not eps >= 0:
        raise OptionError("eps to be a number of at least 0", repr(eps), "leave it at 1e-6")
