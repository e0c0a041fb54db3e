"""What all tests share: a fixed random state and a fixed number of threads."""

import os

# Before torch is loaded: threads that spin while they wait for each other are many times slower on a busy machine.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
# `make test` runs three processes of tests side by side (pytest-xdist; some tests wait): one thread each.
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


LONGEST = (  # files that take longest, handed out first: no process is left alone with one of them at the end
    "integration/test_torchrun", "integration/test_compile", "integration/test_documents", "integration/test_site",
    "explain/test_explorer_in_browser", "training/test_engine", "distributed/test_model", "ops/test_streaming",
    "reproduction/test_pages", "cli/test_train_options", "integration/test_wheel", "integration/test_examples",
    "integration/test_operators", "integration/test_killed_runs", "models/test_gnn", "integration/test_learning",
)  # fmt: skip


def pytest_collection_modifyitems(items):
    order = {f"tests/{name}.py": place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: order.get(item.nodeid.split("::")[0], len(order)))


@pytest.fixture(autouse=True)
def seed_everything():
    torch.manual_seed(0)
