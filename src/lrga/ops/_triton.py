"""Whether the Triton kernels support given tensors, and why not; properties of the device; kernel launches."""

import importlib.util
import os
import sys
from functools import cache
from typing import Any

import torch
from torch import Tensor

HAS_TRITON = importlib.util.find_spec("triton") is not None
TRITON_DTYPES = (torch.float32, torch.bfloat16, torch.float16)


def why_not_triton(*tensors: Tensor | None) -> str | None:
    """Why the Triton kernels cannot be used for these tensors; ``None`` if they can.

    They run on a CUDA GPU of compute capability 8 or higher in float32, bfloat16 and float16; on a CPU only in Triton's
    interpreter (``TRITON_INTERPRET=1``), which is for tests. Forward-mode derivatives and
    ``torch.func`` work only with PyTorch operations.

    Example:
        >>> import torch
        >>> why_not_triton(torch.zeros(2, dtype=torch.float64))
        'float64 is computed by PyTorch'
    """
    present = [tensor for tensor in tensors if tensor is not None]
    for tensor in present:
        if tensor.is_floating_point() and tensor.dtype not in TRITON_DTYPES:
            return f"{str(tensor.dtype).removeprefix('torch.')} is computed by PyTorch"
    if not HAS_TRITON:
        return "Triton is not installed"
    if differentiates_otherwise():
        return "torch.func and forward-mode derivatives are computed by PyTorch"
    devices = {tensor.device for tensor in present}
    if len(devices) > 1:
        return f"the tensors are on {len(devices)} devices"
    return _why_not_device(next(iter(devices))) if devices else "there is no tensor"


def runs_on_gpu(*tensors: Tensor | None) -> bool:
    """Whether ``"auto"`` selects the Triton kernels: on a GPU that supports them, never in the interpreter."""
    return all(t is None or t.device.type == "cuda" for t in tensors) and why_not_triton(*tensors) is None


def differentiates_otherwise() -> bool:
    """Whether a transformation of :mod:`torch.func` or forward-mode differentiation is active.

    Our operators have backward derivatives only: PyTorch would silently treat their results as constants.

    Example:
        >>> seen = []
        >>> torch.func.grad(lambda x: seen.append(differentiates_otherwise()) or x)(torch.ones(()))
        tensor(1.)
        >>> seen, differentiates_otherwise()
        ([True], False)
    """
    return torch._C._are_functorch_transforms_active() or torch.autograd.forward_ad._current_level >= 0


def interpreted() -> bool:
    """Whether Triton kernels run in its interpreter, on the CPU."""
    return os.environ.get("TRITON_INTERPRET", "0") == "1"


def launch(kernel: Any, grid: tuple[int, ...], *args: Any, **constants: Any) -> None:
    """Runs a Triton kernel on the device of its tensors, in the current stream of that device.

    Triton alone would use the current device, which may be another one. All kernels are launched here. Triton takes
    longer to find a compiled kernel than to launch it, so it is looked up here first, by all values that Triton
    specialises it for.

    Args:
        kernel: A function decorated with :func:`triton.jit`; its ``tl.constexpr`` parameters come last.
        grid: Number of programs along each axis.
        *args: The other arguments: tensors on one device, numbers and ``None``.
        **constants: The ``tl.constexpr`` parameters, and options of Triton (``num_warps``, …).
    """
    device = next(arg for arg in args if isinstance(arg, Tensor)).get_device()  # -1 on a CPU
    if device >= 0 and device != torch.cuda.current_device():
        with torch.cuda.device(device):
            launch(kernel, grid, *args, **constants)
        return
    kinds = [(arg.dtype, arg.data_ptr() % 16) if isinstance(arg, Tensor) else _kind(arg) for arg in args]
    key = (kernel.fn, device, *kinds, *constants, *constants.values())
    if (compiled := _compiled.get(key)) is not None:
        compiled[(*grid, 1, 1)](*args, *[constants[name] for name in kernel.arg_names[len(args) :]])
        return
    assert {*kernel.arg_names[len(args) :]} == {*kernel.fn.__annotations__}, "arguments by position, constants by name"
    compiled = kernel[grid](*args, **constants)  # None in the interpreter
    if compiled is not None:
        _compiled[key] = compiled


_compiled: dict[tuple[Any, ...], Any] = {}


def _kind(number: float | None) -> object:
    """The key for which Triton specialises a kernel: 1, multiples of 16, 32 or 64 bits; else only the type."""
    return (number == 1, number % 16 == 0, number >> 31) if type(number) is int else type(number)


def compute_type(dtype: torch.dtype) -> Any:
    """The dtype of products in kernels. Triton's interpreter cannot multiply bfloat16; float32 represents it exactly.

    Example:
        >>> print(compute_type(torch.float16))
        fp16
    """
    import triton.language as tl

    exact = {torch.float32: tl.float32, torch.bfloat16: tl.bfloat16, torch.float16: tl.float16}[dtype]
    return tl.float32 if dtype == torch.bfloat16 and interpreted() else exact


def block(size: int) -> int:
    """The power of two of at least ``size`` columns; Triton's products need 16."""
    return max(16, next_power_of_2(size))


def dense(tensor: Tensor | None) -> Tensor | None:
    """The tensor in contiguous memory, or ``None``."""
    return None if tensor is None else tensor.contiguous()


def cdiv(a: int, b: int) -> int:
    """a / b, rounded up."""
    return -(-a // b)


def next_power_of_2(n: int) -> int:
    """The smallest power of two of at least ``n``, which is positive."""
    return 1 << (n - 1).bit_length()


def dot_precision(dtype: torch.dtype) -> str:
    """The precision of products in Triton: for float32 ``"tf32"`` if PyTorch's switch allows it.

    Otherwise ``"tf32x3"``: three TF32 products with the accuracy of float32. Plain float32 arithmetic would
    not use the tensor cores and is about twenty times slower. For half precision, where it has no effect, ``"tf32"``.
    """
    return "tf32" if dtype.itemsize == 2 or (dtype == torch.float32 and allows_tf32()) else "tf32x3"


def allows_tf32() -> bool:
    """Whether PyTorch multiplies float32 matrices in TF32 on a GPU, by any of its switches."""
    return torch.backends.cuda.matmul.fp32_precision == "tf32"


@cache
def shared_memory(device: torch.device) -> int:
    """Bytes of shared memory available to one program; no limit in the interpreter, 0 if PyTorch does not report it.

    An H100 has 232448, an A100 166912, consumer GPUs 101376: kernels use smaller tiles there.

    Example:
        >>> shared_memory(torch.device("cpu")) > 1 << 20
        True
    """
    if device.type != "cuda":
        return sys.maxsize
    return getattr(torch.cuda.get_device_properties(device), "shared_memory_per_block_optin", 0)


def _why_not_device(device: torch.device) -> str | None:
    if device.type == "cpu":
        return None if interpreted() else "the tensors are on the CPU"
    if device.type != "cuda":
        return f"the tensors are on {device.type}"
    if torch.compiler.is_compiling():  # caches cause warnings there
        return _why_not_gpu(device)
    return _remembered(device)


def _why_not_gpu(device: torch.device) -> str | None:
    if torch.version.hip is not None:
        return "the kernels are not tested on AMD GPUs"
    major, minor = torch.cuda.get_device_capability(device)
    return None if major >= 8 else f"the GPU has compute capability {major}.{minor}, 8.0 is needed"


_remembered = cache(_why_not_gpu)
