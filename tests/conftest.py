"""What all tests share: a fixed random state and a fixed number of threads."""

import os

# Before torch is loaded: threads that spin while they wait for each other are many times slower on a busy machine.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
# `make test` runs two processes of tests side by side (pytest-xdist): together as many threads as one process has.
# In the environment, so that processes started by tests add in the same order and end bit-equal.
THREADS = 1 if "PYTEST_XDIST_WORKER" in os.environ else 2
os.environ["OMP_NUM_THREADS"] = str(THREADS)

import pytest
import torch

from tests.helpers.browser import browser  # noqa: F401 - one for all tests: a process cannot start a second


def patch_language_once_per_launch():
    """Triton's interpreter patches its language anew at every call of a function within a kernel, a quarter of its
    time; once in a launch is enough for the functions of a module."""
    try:
        from triton.runtime import interpreter
    except ImportError:
        return
    if not (hasattr(interpreter, "_patch_lang") and hasattr(interpreter, "GridExecutor")):
        return  # another version of Triton: slower, no more
    patch, launch, patched = interpreter._patch_lang, interpreter.GridExecutor.__call__, set()

    def patch_once(function):
        if id(function.__globals__) in patched:
            return None
        patched.add(id(function.__globals__))
        return patch(function)

    def launch_anew(self, *args, **options):
        patched.clear()
        return launch(self, *args, **options)

    interpreter._patch_lang, interpreter.GridExecutor.__call__ = patch_once, launch_anew


# Before Triton is loaded: without a GPU its kernels are tried in its interpreter.
if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")
    patch_language_once_per_launch()

torch.set_num_threads(THREADS)
os.fsync = lambda file: None  # no test cuts the power: waiting for the disk is an eighth of a short run


@pytest.fixture(autouse=True)
def seed_everything():
    torch.manual_seed(0)


def switches():
    """Global settings that change how PyTorch rounds, with what the next test would see of the environment."""
    environment = {name: os.environ.get(name) for name in ("OMP_NUM_THREADS", "TRITON_INTERPRET")}
    return environment | {
        "threads": torch.get_num_threads(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "dtype": torch.get_default_dtype(),
        "gradients": torch.is_grad_enabled(),
        "denormals": bool(torch.tensor(1e-40) * 1 > 0),
        "oneDNN": torch.backends.mkldnn.enabled,
        "precision": torch.get_float32_matmul_precision(),
    }


@pytest.fixture(autouse=True)
def switches_are_left_alone():
    before = switches()
    yield
    assert switches() == before


@pytest.fixture
def one_thread():
    """For small matrices, where threads would only wait for each other, and for processes that are forked."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
