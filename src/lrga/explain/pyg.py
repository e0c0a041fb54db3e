"""Low-rank global attention in PyG's ``Explainer``: which nodes contribute to a prediction through the attention."""

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.explain import Explanation
from torch_geometric.explain.algorithm import ExplainerAlgorithm
from torch_geometric.explain.config import ExplanationType, MaskType, ModelMode, ModelReturnType, ModelTaskLevel

from lrga.checks import check_choice
from lrga.errors import OptionError, UnsupportedError
from lrga.explain.attention import attention_hooks
from lrga.nn.attention import LowRankGlobalAttention
from lrga.ops.attention.reference import segmented_attention
from lrga.ops.attention.segments import Segments

METHODS = ("gradient", "attention")


@dataclass
class _Call:
    """One call of an attention module: its factors and values, ``[N, H, K]`` each, and its output."""

    u: Tensor
    v: Tensor
    z: Tensor | None
    segments: Segments
    output: Tensor

    def received(self, sent: Tensor) -> Tensor:
        """``[N, H, D]``: for each node j the sum of ``A[i, j] * sent[i]`` over the nodes i of its graph."""
        return segmented_attention(self.v, self.u, sent, self.segments, normalize=None)


class GlobalAttentionExplainer(ExplainerAlgorithm):
    r"""An algorithm for PyG's :class:`~torch_geometric.explain.Explainer` that scores how much each node contributes to
    a prediction through low-rank global attention, at any distance.

    Let :math:`A = u v^\top` be the attention matrix of a head and :math:`o_i = \sum_j A_{ij} z_j` the attended features
    of node i. The score of node j, summed over heads and layers, is

    - ``"gradient"``: :math:`|\sum_i A_{ij} \, z_j \cdot \partial s / \partial o_i|`, the
      first-order change of the explained score s if node j is removed from the attention;
    - ``"attention"``: :math:`\sum_i A_{ij}` over the explained nodes i (all nodes for graph predictions). It ignores
      what the model computes from the attention afterwards.

    Both take time and memory linear in the number of nodes. Scores are divided by the largest one. Nodes of
    other graphs of a batch have score 0. Edges are not explained: use PyG's explainers for them.

    Args:
        method: ``"gradient"`` or ``"attention"``.

    Example:
        >>> import lrga
        >>> from torch_geometric.explain import Explainer
        >>> from torch_geometric.nn import GCN
        >>> explainer = Explainer(
        ...     lrga.augment(GCN(4, 8, num_layers=2, out_channels=3), rank=5, init="paper"),
        ...     GlobalAttentionExplainer(),
        ...     explanation_type="model",
        ...     node_mask_type="object",
        ...     model_config={"mode": "multiclass_classification", "task_level": "node", "return_type": "raw"},
        ... )
        >>> explanation = explainer(torch.randn(6, 4), torch.tensor([[0, 1], [1, 2]]), batch=None, index=0)
        >>> explanation.node_mask.shape
        torch.Size([6, 1])
    """

    def __init__(self, method: str = "gradient") -> None:
        super().__init__()
        check_choice("method", method, METHODS)
        self.method = method

    def supports(self) -> bool:
        """Checks that the explainer asks for one score for each node; otherwise raises an error."""
        config = self.explainer_config
        if config.node_mask_type != MaskType.object or config.edge_mask_type is not None:
            got = f"node_mask_type={_value(config.node_mask_type)}, edge_mask_type={_value(config.edge_mask_type)}"
            raise OptionError("node_mask_type='object' and no edge_mask_type", got, "explain nodes only")
        if self.method == "attention" and config.explanation_type != ExplanationType.model:
            remedy = "pass explanation_type='model', or method='gradient'"
            raise OptionError("a model explanation with method='attention'", "'phenomenon'", remedy)
        return True

    def forward(
        self,
        model: nn.Module,
        x: Any,
        edge_index: Any,
        *,
        target: Tensor,
        index: int | Tensor | None = None,
        **kwargs: Any,
    ) -> Explanation:
        """The explanation, its ``node_mask`` ``[N, 1]`` between 0 and 1; called by the ``Explainer``."""
        if not isinstance(x, Tensor):
            got = f"x as {type(x).__name__}"
            raise UnsupportedError("a homogeneous graph", got, "explain a graph with one node type")
        by_gradient = self.method == "gradient"
        with torch.set_grad_enabled(by_gradient), _recorded(model, with_values=by_gradient) as calls:
            output = model(x, edge_index, **kwargs)
        if not calls or any(call.u.size(0) != x.size(0) for call in calls):
            got = "none" if not calls else f"one over {calls[0].u.size(0)} nodes of {x.size(0)}"
            raise UnsupportedError("a model with low-rank global attention over its nodes", got, "use lrga.augment")
        if by_gradient:
            scores = _by_gradient(calls, self._explained(output, target, index))
        else:
            scores = self._by_attention(calls, index)
        largest = scores.max() if scores.numel() else scores.new_zeros(())
        dtype = x.dtype if x.is_floating_point() else scores.dtype
        return Explanation(node_mask=(scores / largest if largest > 0 else scores).unsqueeze(1).to(dtype))

    def _explained(self, output: Tensor, target: Tensor, index: Any) -> Tensor:
        """The number to differentiate: the log-odds of the target class if the model returns logits."""
        if index is not None:
            output, target = output[index], target[index]
        mode, kind = self.model_config.mode, self.model_config.return_type
        if mode == ModelMode.multiclass_classification:
            classes = target.unsqueeze(-1)
            score = output.gather(-1, classes)
            if kind == ModelReturnType.raw:  # the log of a probability near 1 has no gradient
                score = score - output.scatter(-1, classes, -torch.inf).logsumexp(-1, keepdim=True)
            return score.sum()
        if mode == ModelMode.binary_classification:
            return (output.view_as(target) * (2 * target - 1)).sum()
        return output.sum()

    def _by_attention(self, calls: list[_Call], index: Any) -> Tensor:
        chosen = torch.ones_like(calls[0].u[:, 0, 0])
        if index is not None and self.model_config.task_level == ModelTaskLevel.node:
            chosen = torch.zeros_like(chosen)
            chosen[index] = 1
        elif index is not None and (graph := calls[0].segments.batch) is not None:
            chosen = torch.isin(graph, torch.as_tensor(index, device=graph.device)).to(chosen.dtype)
        return torch.stack(
            [c.received(chosen.view(-1, 1, 1).expand(-1, c.u.size(1), 1)).sum((1, 2)) for c in calls]
        ).sum(0)


def _by_gradient(calls: list[_Call], score: Tensor) -> Tensor:
    gradients = torch.autograd.grad(score, [call.output for call in calls], allow_unused=True)
    total = torch.zeros_like(calls[0].u[:, 0, 0])
    for call, gradient in zip(calls, gradients, strict=True):
        if gradient is not None and call.z is not None:
            attended = gradient.view(*call.z.shape[:2], 2, -1)[:, :, 0].to(call.u.dtype)  # the other half is m4
            total += (call.received(attended) * call.z).sum((1, 2)).abs()
    return total


@contextmanager
def _recorded(model: nn.Module, *, with_values: bool) -> Iterator[list[_Call]]:
    """Records the calls of every attention module of ``model`` inside the block."""
    calls: list[_Call] = []

    def write_down(module: LowRankGlobalAttention, arguments: Any, options: dict[str, Any], output: Tensor) -> Tensor:
        call = inspect.signature(module.forward).bind(*arguments, **options)
        batch, count = call.arguments.get("batch"), call.arguments.get("num_graphs")
        x = call.arguments["x"]
        segments = batch if isinstance(batch, Segments) else Segments.from_batch(batch, x.size(0), count)
        with torch.no_grad():
            u, v = (factor.view(x.size(0), module.heads, -1) for factor in module.factors(x, segments))
            z = module.values(x).view(x.size(0), module.heads, -1).to(u.dtype) if with_values else None
        if with_values and not output.requires_grad:  # the parameters are frozen
            output = output.detach().requires_grad_()
        calls.append(_Call(u, v, z, segments, output))
        return output

    with attention_hooks(model, write_down):
        yield calls


def _value(kind: Any) -> str:
    return repr(None if kind is None else kind.value)
