"""PyTorch operators with derivatives that cost little in an ordinary (eager) training loop.

:func:`torch.library.custom_op` registers a function with compilers, tracing and dispatch modes, but each call
takes about 0.2 ms in Python, ten times as long as a kernel launch. If none of these is active, an :class:`Operator`
calls the function directly, inside a :class:`torch.autograd.Function` if a gradient is required.
"""

import inspect
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn
from torch.autograd import Function

from lrga.checks import autocast_is_on
from lrga.errors import UnsupportedError
from lrga.ops._triton import differentiates_otherwise

T = TypeVar("T")
PLAIN = {Tensor, nn.Parameter}


class Operator(Generic[T]):
    """A function of tensors that is also the PyTorch operator ``torch.ops.lrga.<name>``; see :func:`operator`."""

    def __init__(
        self, name: str, function: Callable[..., T], fake: Callable[..., Any] | None, *, differentiable: bool
    ) -> None:
        self.name, self.function = name, function
        self.custom_op = torch.library.custom_op(name, function, mutates_args=())
        self._eager: type[Function] | None = None
        if fake is not None:
            self.custom_op.register_fake(fake)
        if not differentiable:
            self.refuse_derivative()

    def register_autograd(self, backward: Callable[..., Any], *, setup_context: Callable[..., None]) -> None:
        """Like :meth:`torch.library.CustomOpDef.register_autograd`, but ``backward`` returns a tuple of gradients of
        the first arguments only. The other arguments, such as numbers and index lists, have no gradient. ``backward``
        is not called if no result has a gradient."""
        function: Any = self.function

        def of_first(ctx: Any, grads: tuple[Any, ...]) -> tuple[Any, ...]:
            return () if all(grad is None for grad in grads) else backward(ctx, *grads)

        def setup(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
            ctx.nothing = [[None] * len(arg) if isinstance(arg, list) else None for arg in inputs]
            setup_context(ctx, inputs, output)

        def with_the_others(ctx: Any, *grads: Any) -> Any:
            found = of_first(ctx, grads)
            return *found, *ctx.nothing[len(found) :]

        self.custom_op.register_autograd(with_the_others, setup_context=setup)

        class Eager(Function):
            @staticmethod
            def forward(ctx: Any, *args: Any) -> Any:
                output = function(*args)
                setup_context(ctx, args, output)
                return output

            @staticmethod
            def backward(ctx: Any, *grads: Any) -> Any:
                found = of_first(ctx, grads)
                return *found, *(None,) * (len(ctx.needs_input_grad) - len(found))

        Eager.__name__ = Eager.__qualname__ = self.name.partition("::")[2]
        self._eager = Eager

    def gives_gradients_of(self, *names: str) -> None:
        """Declares that the results are contiguous, have the shapes and dtypes of these arguments and no derivative."""
        parameters = list(inspect.signature(self.function).parameters)
        places = [parameters.index(name) for name in names]

        def fake(*args: Any) -> Any:
            results = tuple(args[place].new_empty(args[place].shape) for place in places)
            return results if len(results) > 1 else results[0]

        self.custom_op.register_fake(fake)
        self.refuse_derivative()

    def refuse_derivative(self) -> None:
        """Makes differentiation of this operator, which is itself a derivative, an error with a remedy.

        Example:
            >>> @operator("lrga_example::double")
            ... def double(x: Tensor) -> Tensor:
            ...     return 2 * x
            >>> double.refuse_derivative()
            >>> double(torch.ones(1, requires_grad=True)).backward()
            Traceback (most recent call last):
            ...
            lrga.errors.UnsupportedError: expected first derivatives only through the GPU kernel double, got a ...
        """
        name = self.name.partition("::")[2]

        def backward(ctx: Any, *grads: Any) -> Any:  # noqa: ARG001
            raise UnsupportedError(
                f"first derivatives only through the GPU kernel {name}",
                "a second derivative",
                "compute in float64, which uses PyTorch operations (for the attention also backend='segmented'), "
                "or remove create_graph=True",
            )

        self.custom_op.register_autograd(backward)

    def __call__(self, *args: Any) -> T:
        tensors = [arg for arg in args if isinstance(arg, Tensor)]
        if self._eager is None:  # otherwise lists contain indices, next to tensor arguments
            tensors += [part for arg in args if isinstance(arg, list) for part in arg if isinstance(part, Tensor)]
        if _must_dispatch(tensors):
            dispatched: T = self.custom_op(*args)
            return dispatched
        if autocast_is_on(tensors[0].device.type):  # the function sets the dtypes
            with torch.autocast(tensors[0].device.type, enabled=False):
                return self(*args)
        if not torch.is_grad_enabled() or not any(tensor.requires_grad for tensor in tensors):
            return self.function(*args)
        result: T = self.custom_op(*args) if self._eager is None else self._eager.apply(*args)
        return result


def operator(
    name: str, fake: Callable[..., Any] | None = None, *, differentiable: bool = True
) -> Callable[[Callable[..., T]], Operator[T]]:
    """Turns a function of tensors and numbers into an :class:`Operator`; it must not modify its arguments.

    Args:
        name: ``"lrga::…"``.
        fake: Function of the same arguments for compilers; its results need only the right shapes and dtypes.
        differentiable: ``False`` for operators that are derivatives themselves, see :meth:`Operator.refuse_derivative`.

    Example:
        >>> @operator("lrga_example::triple")
        ... def triple(x: Tensor) -> Tensor:
        ...     return 3 * x
        >>> triple(torch.ones(2)).tolist(), torch.ops.lrga_example.triple(torch.ones(2)).tolist()
        ([3.0, 3.0], [3.0, 3.0])
    """
    return lambda function: Operator(name, function, fake, differentiable=differentiable)


def _must_dispatch(tensors: list[Tensor]) -> bool:
    """Whether anything other than eager autograd handles the call: a compiler, tracer, mode or tensor subclass."""
    if torch.compiler.is_compiling() or torch._C._len_torch_dispatch_stack() or torch.jit.is_tracing():
        return True
    return differentiates_otherwise() or not {*map(type, tensors)} <= PLAIN


def is_plain_tensor(x: Tensor) -> bool:
    """Whether a kernel may be launched on x outside of an :class:`Operator`: not on a fake tensor or another subclass,
    which have no memory of their own, nor in a compiler or tracer, which would not see the launch.

    Example:
        >>> is_plain_tensor(torch.ones(2))
        True
    """
    if torch.compiler.is_compiling() or torch.jit.is_tracing() or type(x) not in PLAIN:
        return False
    return torch._C._get_dispatch_mode(torch._C._TorchDispatchModeKey.PROXY) is None
