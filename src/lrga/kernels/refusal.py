"""Derivatives that the GPU kernels do not have, refused in words."""

from typing import Any

from torch.library import CustomOpDef

from lrga.errors import UnsupportedError


def refuse_derivative(operator: CustomOpDef) -> CustomOpDef:
    """Makes the derivative of ``operator``, itself the derivative of another, an error that says what to do.

    Example:
        >>> import torch
        >>> @torch.library.custom_op("lrga_example::double", mutates_args=())
        ... def double(x: torch.Tensor) -> torch.Tensor:
        ...     return 2 * x
        >>> x = torch.ones(1, requires_grad=True)
        >>> refuse_derivative(double)(x).backward()
        Traceback (most recent call last):
        ...
        lrga.errors.UnsupportedError: expected first derivatives only through the GPU kernel double, got a request ...
    """
    name = operator._opoverload._schema.name.split("::")[1]

    def backward(ctx: Any, *grads: Any) -> Any:  # noqa: ARG001
        raise UnsupportedError(
            f"first derivatives only through the GPU kernel {name}",
            "a request for a second one",
            "compute in float64, which PyTorch's own operations take (or, of the attention, backend='segmented'), or "
            "leave out create_graph=True",
        )

    operator.register_autograd(backward)
    return operator
