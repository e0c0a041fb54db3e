"""What is predicted on a user's own graphs, and which part of them is for training."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from lrga.data.datasets.source import check_seed
from lrga.data.datasets.spec import SPLITS
from lrga.data.links.split import check_fractions
from lrga.data.own.table import LEVELS, GraphTable, Split, Target, is_coarse
from lrga.errors import DataError, OptionError

TASKS = ("classification", "multilabel", "regression")
NO_LABEL = (-1, -100)  # labels that mean that there is none


class Labels(NamedTuple):
    """Targets ready to train on: one of :data:`TASKS`, the level, ``y`` and what the classes are called, if any.

    ``y`` holds [R] int64 classes; float32 [R, T] labels, NaN where one is missing; or float32 [R] or [R, T] values,
    float64 where float32 is too coarse to tell them apart.
    """

    task: str
    level: str
    y: np.ndarray
    classes: tuple[str, ...] | None


def choose_target(table: GraphTable, level: str | None, source: str) -> Target:
    """The only target of ``table``, or the one of ``level``."""
    if level is not None and level not in LEVELS:
        raise OptionError(f"level, one of {', '.join(LEVELS)}", repr(level), "choose one of these, or leave it out")
    found = list(table.targets)
    if not found or (level is not None and level not in found):
        wanted = "a target" if level is None else f"a target for each {level}"
        got = f"targets for each {' and '.join(found)}" if found else "none"
        remedy = "add y: a column of nodes.csv, edges.csv or graphs.csv, or an attribute of the Data objects"
        raise DataError(f"{wanted} (y) in {source}", got, remedy)
    if level is None and len(found) > 1:
        got = " and ".join(table.targets[name].where for name in found)
        raise OptionError(f"one target in {source}, or level= to choose", got, f"pass level={found[0]!r}, for example")
    return table.targets[level or found[0]]


def make_labels(target: Target, task: str | None, rows: np.ndarray, table: GraphTable) -> Labels:
    """Targets of ``task``; where it is ``None``, integers and names are classes and other numbers are values.

    Classes are numbered 0, 1, … in the order of their labels, numeric or alphabetic.

    Args:
        target: As it came.
        task: One of :data:`TASKS`, or ``None``.
        rows: [R] which rows are used in any split; the others may hold anything.
        table: The graphs, to name the one where something is wrong.
    """
    if task not in (None, *TASKS):
        raise OptionError(f"task, one of {', '.join(TASKS)}", repr(task), "choose one of these, or leave it out")
    values = target.values
    kind = values.dtype.kind
    if kind not in "iufU":
        raise DataError(f"numbers or names in {target.where}", str(values.dtype), "write numbers, or names of classes")
    if task == "multilabel":
        return _labels(target, rows)
    if kind == "f":
        finite = np.isfinite(values.reshape(len(values), -1)).all(axis=1) | ~rows
        if not finite.all():
            graph = table.graphs_of(target.level)[np.argmin(finite)]
            remedy = f"leave out the {target.level}s without target"
            raise DataError(f"finite numbers in {target.where}", f"NaN or infinity in graph {graph}", remedy)
    chosen = task or ("regression" if kind == "f" else "classification")
    if chosen == "regression":
        if kind == "U":
            got = f"names such as {values[0]!r}"
            raise DataError(
                f"numbers in {target.where} for regression", got, "write numbers, or ask for classification"
            )
        if kind == "f" and np.abs(values[rows]).max(initial=0) > np.finfo(np.float32).max:
            raise DataError(f"numbers of at most 3.4e38 in {target.where}", "a greater one", "scale the target")
        y = np.where(rows.reshape(-1, *[1] * (values.ndim - 1)), values, 0)
        columns = values[rows].reshape(int(rows.sum()), -1).T
        dtype = np.float64 if any(map(is_coarse, columns)) else np.float32
        return Labels(chosen, target.level, y.astype(dtype), None)
    return _classes(target, rows)


def labelled(target: Target, task: str | None) -> np.ndarray:
    """[R] whether each label is one, where -1 and -100 say that there is none; of numbers to predict all are.

    Example:
        >>> labelled(Target("node", np.array([0, -1, 2, -100]), "y"), None).tolist()
        [True, False, True, False]
    """
    values = target.values
    is_label = values.ndim == 1 and (values.dtype.kind == "i" if task is None else task == "classification")
    if not is_label or values.dtype.kind not in "if":
        return np.ones(len(values), dtype=bool)
    found = np.isin(values, NO_LABEL)
    if found.all():
        got = "none but -1 and -100, which mean no label"
        raise DataError(f"labels in {target.where}", got, f"label some of the {target.level}s")
    if found.any() and (values[~found] < 0).any():
        odd = values[~found].min()
        expected = f"classes numbered from 0 in {target.where}, -1 or -100 where there is no label"
        remedy = "number the classes from 0, or ask for regression (--task regression)"
        raise DataError(expected, f"{int(odd)} and {int(values[found][0])}", remedy)
    return ~found


def _labels(target: Target, rows: np.ndarray) -> Labels:
    expected = f"labels 0 and 1 in {target.where}, NaN where one is missing"
    if target.values.dtype.kind == "U":
        raise DataError(expected, f"names such as {target.values[0]!r}", "write numbers, or ask for classification")
    y = target.values.reshape(len(target.values), -1).astype(np.float32)
    odd = y[rows & ~((y == 0) | (y == 1) | np.isnan(y)).all(axis=1)]
    if odd.size:
        raise DataError(expected, f"a row {odd[0].tolist()}"[:80], "write 0 or 1, or ask for regression")
    return Labels("multilabel", target.level, np.where(rows[:, None], y, np.float32("nan")), None)


def _classes(target: Target, rows: np.ndarray) -> Labels:
    values = target.values
    if values.ndim > 1:
        got = f"{values.shape[1]} values each in {target.where}"
        raise DataError("one class each", got, "give one label, or pass --task multilabel")
    if values.dtype.kind == "f" and (values[rows] != np.round(values[rows])).any():
        bad = values[rows][values[rows] != np.round(values[rows])][0]
        raise DataError(f"whole numbers in {target.where} for classification", f"{bad:g}", "ask for regression")
    used, codes = np.unique(values[rows], return_inverse=True)
    if len(used) < 2:
        got = f"{len(used)} class in {target.where}"
        if values.dtype.kind in "if" and np.isin(values, NO_LABEL).any():
            got += ", besides -1 or -100, which mean no label"
            raise DataError("at least two classes", got, "number the classes from 0, or give them names")
        raise DataError("at least two classes", got, "bring graphs of every class, or ask for regression")
    y = np.zeros(len(values), np.int64)
    y[rows] = codes
    names = tuple(str(name) if values.dtype.kind == "U" else str(int(name)) for name in used)
    return Labels("classification", target.level, y, names)


def make_split(
    table: GraphTable, level: str, fractions: Sequence[float], seed: int, source: str, known: np.ndarray | None = None
) -> Split:
    """The given split, or one drawn from ``seed``: of graphs where there are at least three, else of nodes or edges.

    ``known`` [R] says which of the targets, of ``level``, are there (by default all); the others are in no split.
    """
    known = np.ones(table.rows(level), dtype=bool) if known is None else known
    if table.split is not None:
        split = table.split
        if split.level not in ("graph", level):
            expected = f"a split of graphs or of {level}s, which carry the target"
            raise DataError(expected, f"one of {split.level}s ({split.where})", "move the column to the right file")
    else:
        of = "graph" if level == "graph" or len(table.num_nodes) >= len(SPLITS) else level
        code = np.full(table.rows(of), -1, np.int8)
        drawn = np.flatnonzero(known) if of == level else np.arange(len(code))
        code[drawn] = draw_split(len(drawn), fractions, seed, of)
        split = Split(of, code, "the split drawn")
    if split.level == level and not known.all():
        split = replace(split, code=np.where(known, split.code, -1))
    for name in SPLITS:
        rows = split.rows(name)
        what = f"{split.level}s of {name} in {split.where}"
        if not rows.any():
            raise DataError(
                f"at least one of the {what}", "none", f"mark some of the {split.level}s of {source} {name}"
            )
        if split.level != level and not (rows[table.graphs_of(level)] & known).any():
            raise DataError(
                f"at least one target (y) of a {level} in {name!r} of {source}", "none", "use another split"
            )
    return split


def draw_split(count: int, fractions: Sequence[float], seed: int, what: str = "graph") -> np.ndarray:
    """[count] 0, 1 or 2 for train, val and test, in these ``fractions`` at random, the same for the same ``seed``.

    Example:
        >>> np.bincount(draw_split(10, (0.8, 0.1, 0.1), seed=41)).tolist()
        [8, 1, 1]
    """
    check_fractions(fractions)
    if count < len(SPLITS):
        remedy = f"bring at least {len(SPLITS)} {what}s, or split them yourself"
        raise DataError(f"{what}s to divide between train, val and test", f"{count}", remedy)
    held_out = [max(1, round(count * fraction)) for fraction in fractions[1:]]
    while count - sum(held_out) < 1:  # few rows and rounding up: training keeps at least one
        held_out[int(np.argmax(held_out))] -= 1
    order = np.random.default_rng(check_seed(seed)).permutation(count)
    code = np.zeros(count, np.int8)
    code[order[: held_out[0]]] = 1
    code[order[held_out[0] : sum(held_out)]] = 2
    return code
