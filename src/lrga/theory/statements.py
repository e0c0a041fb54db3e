"""The statements of the paper that need no training, nearly in its order.

More statements can be put on a tour beside these: :func:`lrga.theory.tour.run_tour` takes any list of them.
"""

from lrga.errors import OptionError
from lrga.theory.fwl_statements import FWL_STATEMENTS
from lrga.theory.random_statements import RANDOM_STATEMENTS
from lrga.theory.tour import Statement

STATEMENTS: tuple[Statement, ...] = (*RANDOM_STATEMENTS, *FWL_STATEMENTS)


def choose(keys: list[str], statements: tuple[Statement, ...] = STATEMENTS) -> list[Statement]:
    """The statements with these keys, in the paper's order; all for an empty list.

    Example:
        >>> [s.place for s in choose(["alignment"])]
        ['Theorem 1']
    """
    known = [s.key for s in statements]
    for key in keys:
        if key not in known:
            raise OptionError(f"a statement of {', '.join(known)}", repr(key), "choose one of them")
    return [s for s in statements if not keys or s.key in keys]
