import inspect
import pickle

import pytest

from lrga import errors

CLASSES = [c for _, c in inspect.getmembers(errors, inspect.isclass) if issubclass(c, errors.LRGAError)]


@pytest.mark.parametrize("kind", CLASSES)
def test_an_error_says_what_was_expected_what_came_and_what_to_do_in_other_processes_too(kind):
    error = kind("a tree", "a stone", "plant one")
    assert str(error) == "expected a tree, got a stone. To fix: plant one."
    assert (error.expected, error.got, error.remedy) == ("a tree", "a stone", "plant one")
    copy = pickle.loads(pickle.dumps(kind("a tree", "a stone", "plant one")))
    assert type(copy) is kind
    assert str(copy) == "expected a tree, got a stone. To fix: plant one."


def test_errors_are_caught_by_the_builtin_a_caller_would_name():
    assert issubclass(errors.ShapeError, ValueError)
    assert issubclass(errors.DTypeError, TypeError)
    assert issubclass(errors.DataMissingError, FileNotFoundError)
    assert issubclass(errors.MissingDependencyError, ImportError)
