"""Ablations: experiments on claims in the paper's text and on choices that change a cell of its tables.

Each is a small table: cells of Tables 1 to 3, and the same cells with one change.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Any

from lrga.data.datasets.spec import spec_of
from lrga.errors import OptionError
from lrga.experiments.cell import Cell
from lrga.experiments.study import Study
from lrga.models.budget import count_of, solve_width
from lrga.models.embeddings import EMBEDDINGS
from lrga.models.zoo import BUDGETS, RANK, model_name
from lrga.paper.link_protocols import LINK_SEEDS, table2
from lrga.paper.preset import LATER
from lrga.paper.protocols import plain_counterpart, table1, table3
from lrga.training.config import LinkConfig, ModelConfig
from lrga.training.presets import runs_of_a_table
from lrga.training.problems.architecture import resolve
from lrga.training.problems.protocols import idle_options

SBM = ("PATTERN", "CLUSTER")
_PRESETS = (LATER, "2020")
Seeds = Iterable[int] | None
Options = dict[str, Any]


@dataclass(frozen=True)
class Part:
    """One experiment: its question, and its cells for given seeds and options."""

    question: str
    cells: Callable[[Seeds, Options], list[Cell]]


def _later(cells: Callable[[Seeds, Options], list[Cell]]) -> Callable[[Seeds, Options], list[Cell]]:
    """The same cells with the later layers by default, so that experiments change one option of a common base."""
    return lambda seeds, options: cells(seeds, {"preset": LATER} | options)


def _variant(cell: Cell, text: str, base: Cell | None = None, **purpose: Any) -> Cell:
    """The cell with the label of its variant; the intended changes are not reported as deviations.

    If the paper leaves the changes open, the number of its cell ``base`` is also compared with this variant.
    """
    protocol = None if cell.protocol is None else cell.protocol.changed(**purpose)
    published = (base or cell).published
    return replace(cell, labels={**cell.labels, "variant": text}, protocol=protocol, published=published)


def _pairs(sets: Iterable[str], model: str, budget: str) -> list[dict[str, Any]]:
    return [
        {"dataset": name, "model": model, "budget": budget, "lrga": lrga} for name in sets for lrga in (False, True)
    ]


_TYPICAL = [*_pairs(SBM, "gcn", "500K"), *_pairs(("ZINC",), "gatedgcn", "100K")]
_SBM_GAT = [*_pairs(SBM, "gat", "500K"), *_pairs(("CLUSTER",), "gat", "100K")]
_ZINC_GCN, _ZINC_GAT = (_pairs(("ZINC",), model, "100K") for model in ("gcn", "gat"))  # far from the published numbers
_PATTERN_GATED = _pairs(("PATTERN",), "gatedgcn", "100K")


def _noisy(model: str, lrga: bool = True) -> dict[str, Any]:
    """A cell of Table 3, random features on PATTERN; far from the published numbers."""
    return {"model": model, "lrga": lrga, "noise": True}


def _cell(which: dict[str, Any], seeds: Seeds, options: Options) -> Cell:
    """The cell of Table 1, or with random features that of Table 3; its label then says so."""
    if "noise" not in which:
        return table1(**which, seeds=seeds, **options)
    cell = table3(which["model"], lrga=which["lrga"], seeds=seeds, **options)
    return replace(cell, labels={**cell.labels, "model": f"{cell.labels['model']}, random features"})


def _presets(seeds: Seeds, options: Options) -> list[Cell]:
    far = [*_pairs(("PATTERN",), "gcn", "100K"), *_PATTERN_GATED, *_ZINC_GCN, *_ZINC_GAT]
    cluster = [*_pairs(("CLUSTER",), "gat", "100K"), *_pairs(("CLUSTER",), "gatedgcn", "500K")]
    plain = [which for which in cluster if not which["lrga"]]
    zinc = [which for model in ("gcn", "gat", "gatedgcn") for which in _pairs(("ZINC",), model, "500K")]
    large = [which for which in zinc if which["lrga"] or which["model"] == "gcn"]  # others match the paper
    augmented = [_noisy(model) for model in ("gat", "graphsage", "gin")]
    noisy = [*(_noisy(model, False) for model in ("gcn", "gatedgcn", "gin")), *augmented]
    cells = []
    for which in [*_TYPICAL, *far, *large, *plain, *noisy]:
        cells += [_variant(_cell(which, seeds, options | {"preset": year}), f"preset {year}") for year in _PRESETS]
        if which.get("dataset") == "ZINC" and which["budget"] == "100K":  # another patience in 2020, too: two changes
            layers: Options = {"preset": "2020", "patience": cells[-2].config.optimizer.patience}
            text = f"preset 2020, patience {layers['patience']}"
            cells.append(_variant(_cell(which, seeds, options | layers), text, patience=layers["patience"]))
    return cells


def _wirings(seeds: Seeds, options: Options) -> list[Cell]:
    augmented = [which for which in [*_TYPICAL, *_PATTERN_GATED, *_ZINC_GCN, *_ZINC_GAT] if which["lrga"]]
    four = ["norm-first", "authors-code", "outer-residual", "two-residuals"]
    asked = [(which, four) for which in [*augmented, *map(_noisy, ("gat", "gin"))]]
    asked += [(_noisy("graphsage"), four[1:3]), *((which, four[1:2]) for which in _SBM_GAT if which["lrga"])]
    cells = []
    for which, names in asked:
        variants = [(name, {"wiring": name}) for name in names]
        if which["model"] == "gat":  # one norm per layer, inside (two names of one network) or after m5
            outer = {"wiring": "outer-norm"}
            variants.append(("outer-norm", outer))
            if which.get("budget") == "100K":
                variants.append(("outer-norm, preset 2020", outer | {"preset": "2020"}))
        for text, changed in variants:
            cells.append(_variant(_cell(which, seeds, options | changed), text, wiring=changed["wiring"]))
    return cells


def _edges(seeds: Seeds, options: Options) -> list[Cell]:
    cells = []
    for which in _pairs(("ZINC",), "gatedgcn", "100K"):
        base = table1(**which, seeds=seeds, **options)
        ones = table1(**which, seeds=seeds, **(options | {"edge_features": False}))
        cells.append(_variant(base, "with edge features"))
        cells.append(_variant(ones, "edge features set to 1", base, edge_features=False))
    return cells


def _norm(seeds: Seeds, options: Options) -> list[Cell]:
    return [
        _variant(_cell(which, seeds, options | {"recalibrate_norm": batches}), text, recalibrate_norm=batches)
        for which in [*_pairs(SBM, "gcn", "500K"), _noisy("gat"), _noisy("gatedgcn")]
        for batches, text in ((0, "running statistics"), (20, "statistics of 20 batches"))
    ]


def _draws(seeds: Seeds, options: Options) -> list[Cell]:
    plain = [which for which in _pairs(SBM, "gat", "100K") if not which["lrga"]]
    cells = []
    for which in [*_pairs(SBM, "gcn", "100K"), *_pairs(SBM, "gatedgcn", "100K"), *plain]:
        for draw in (41, 42, 43):  # 41 is the default seed of generated data sets
            seed = {} if draw == 41 else {"seed": draw}
            data = {"data_options": dict(options.get("data_options") or {}) | seed}
            cells.append(_variant(table1(**which, seeds=seeds, **(options | data)), f"data seed {draw}", options=seed))
    return cells


@cache
def width_of_heads(dataset: str, heads: int, rank: int = RANK) -> int:
    """Width at which LRGA + GCN with several heads has as many parameters as the cell of Table 1 (500K) with one.

    Example:
        >>> width_of_heads("CLUSTER", 4) < width_of_heads("CLUSTER", 2) < width_of_heads("CLUSTER", 1) == 100
        True
    """
    one = resolve(ModelConfig(model="gcn", budget="500K"), spec_of(dataset).inputs, dataset=dataset)

    def of_width(width: int) -> Any:
        return replace(one, hidden_channels=width, attention_heads=heads, rank=rank).build()

    return solve_width(count_of(one.build), of_width)


def _heads(seeds: Seeds, options: Options) -> list[Cell]:
    cells = []
    for name in SBM:
        one: Options = {"dataset": name, "model": "gcn", "budget": "500K", "seeds": seeds}
        cells.append(_variant(table1(**one, **options), "1 head of rank 30"))
        for heads in (2, 5):  # the same attention width, split into heads: equal parameters
            cut: Options = {"attention_heads": heads, "rank": RANK // heads}
            several = table1(**one, **(options | cut))
            cells.append(_variant(several, f"{heads} heads of rank {RANK // heads}", **cut))
        for heads in (2, 4):  # each of full width, in a narrower network
            width: Options = {"attention_heads": heads, "hidden": width_of_heads(name, heads)}
            narrow = table1(**one, **(width | options))
            cells.append(_variant(narrow, f"{heads} heads of rank 30, d = {narrow.config.model.hidden}", **width))
    return cells


def _features(seeds: Seeds, options: Options) -> list[Cell]:
    cells = []
    for model in ("gcn", "gin"):
        for lrga in (False, True):
            cells.append(_variant(table3(model, lrga=lrga, seeds=seeds, **options), "random, drawn in every pass"))
            held: Options = {"resample_features": False}
            fixed = table3(model, lrga=lrga, seeds=seeds, **(options | held))
            cells.append(_variant(fixed, "random, drawn once", **held))
            cells.append(_variant(plain_counterpart(model, lrga=lrga, seeds=seeds, **options), "original features"))
    return cells


_ATTENTION: dict[str, Options] = {
    "as in the paper": {},
    "qk_norm": {"qk_norm": True},
    "rms": {"normalize": "rms"},
    "gate": {"gate": True},
    "qk_norm and gate": {"qk_norm": True, "gate": True},
}


def _attention(seeds: Seeds, options: Options) -> list[Cell]:
    cells = []
    for which in _TYPICAL:
        if not which["lrga"]:
            cells.append(_variant(_cell(which, seeds, options), "without LRGA"))
            continue
        for text, changed in _ATTENTION.items():
            cells.append(_variant(_cell(which, seeds, options | changed), text, **changed))
    return cells


def _shapes(seeds: Seeds, options: Options) -> list[Cell]:
    cells = []
    for model in ("graphsage", "gin"):  # Table 3: the paper does not print their shapes with LRGA
        base = _cell(_noisy(model), seeds, options)
        for layers in (None, 4, 16):
            changed: Options = {} if layers is None else {"layers": layers}
            cell = _cell(_noisy(model), seeds, options | changed)
            shape = resolve(cell.config.model, spec_of("PATTERN").inputs, dataset="PATTERN")
            text = f"{shape.num_layers} layers, d = {shape.hidden_channels}"
            cells.append(_variant(cell, text, base, **changed))
    return cells


def _walks(seeds: Seeds, options: Options) -> list[Cell]:
    cells = []
    for model, several in (("node2vec", (30, 100, 300)), ("deepwalk", (1, 5, 20))):  # the protocol: middle value
        for epochs in several:
            changed: Options = {"walk_epochs": epochs}
            given = {"seeds": LINK_SEEDS[:3] if seeds is None else seeds, **options}
            text = f"{epochs} epoch{'s' if epochs > 1 else ''} of walks"
            cell, base = table2("ogbl-ddi", model, **(given | changed)), table2("ogbl-ddi", model, **given)
            cells.append(_variant(cell, text, base, **changed))
    return cells


def _epochs(seeds: Seeds, options: Options) -> list[Cell]:
    return [
        table1(**which, seeds=seeds, **options)
        for name in (*SBM, "ZINC")
        for budget in ("100K", "500K")
        for model in ("gcn", "gat", "gatedgcn")
        for which in _pairs((name,), model, budget)
    ]


PARTS: dict[str, Part] = {
    "heads": Part("One head or several, with the same number of parameters", _later(_heads)),
    "attention": Part("Options of the attention beyond the paper: qk_norm, RMS norm, gate", _later(_attention)),
    "features": Part("Random features, drawn in every pass or once, and the original node features", _later(_features)),
    "presets": Part("The benchmark's layers of 2022 and 2020", _later(_presets)),
    "wirings": Part("Wirings of the augmented layer", _later(_wirings)),
    "shapes": Part("Depth and width at 500K (not stated in the paper)", _later(_shapes)),
    "edges": Part("With edge features, or with all edge features set to 1", _later(_edges)),
    "norm": Part("BatchNorm statistics: running, or re-estimated before each evaluation", _later(_norm)),
    "draws": Part("Other seeds of the generated data sets", _later(_draws)),
    "walks": Part("Number of epochs of random walks before the predictor is trained", _walks),
    "epochs": Part("The last epoch, as in the paper, or the one with the best validation result", _later(_epochs)),
}


def part_name(name: str) -> str:
    """Returns a part by name; the error lists the names."""
    plain = str(name).strip().lower()
    if plain not in PARTS:
        raise OptionError(f"a part of the ablations, one of {', '.join(PARTS)}", repr(name), "choose one of these")
    return plain


def _parts_that_read(options: Options) -> list[str]:
    """The parts to which the options apply: without walks for options of graphs, only walks for options of links."""
    given = {key: value for key, value in options.items() if value is not None}
    if any(field.name in given for field in fields(LinkConfig)):
        return ["walks"]
    others = [name for name in PARTS if name != "walks"]
    if any(value is not None for value in given.pop("data_options", {}).values()):
        return others
    return others if idle_options(given, "node2vec") else list(PARTS)


@runs_of_a_table()
def ablation_cells(
    only: str | None = None,
    *,
    dataset: str | None = None,
    model: str | None = None,
    budget: str | None = None,
    lrga: bool | None = None,
    seeds: Seeds = None,
    **options: Any,
) -> list[Cell]:
    """The cells of all parts, or of one; runs shared by several parts are made once.

    An option applies to the parts that use it.

    Example:
        >>> [cell.labels["variant"] for cell in ablation_cells("norm", dataset="CLUSTER", lrga=True)]
        ['running statistics', 'statistics of 20 batches']
    """
    names = _parts_that_read(options) if only is None else [part_name(only)]
    chosen = tuple(seeds) if seeds is not None else None
    found = [
        replace(cell, labels={"part": name, **cell.labels}) if only is None else cell
        for name in names
        for cell in PARTS[name].cells(chosen, options)
    ]
    data_set = None if dataset is None else spec_of(dataset).name
    conv = None if model is None else model.lower() if model.lower() in EMBEDDINGS else model_name(model)
    size = None if budget is None else str(budget).upper()
    if size is not None and size not in BUDGETS:
        raise OptionError(f"one of the budgets {', '.join(BUDGETS)}", repr(budget), "choose one of these")
    wanted = [
        cell
        for cell in found
        if data_set in (None, cell.config.data.name)
        and conv in (None, cell.config.model.model)
        and size in (None, cell.labels.get("budget"))
        and lrga in (None, cell.config.model.lrga)
    ]
    if not wanted:
        asked = {"dataset": dataset, "model": model, "budget": budget, "lrga": lrga}
        got = ", ".join(f"{key}={value}" for key, value in asked.items() if value is not None)
        there = ", ".join(dict.fromkeys(f"{c.config.data.name} {c.config.model.model}" for c in found))
        raise OptionError(f"cells of {', '.join(names)}: {there}", f"none with {got}", "choose one of these")
    return wanted


def ablations(only: str | None = None, **filters: Any) -> list[Study]:
    """One study for each part with cells that match; the arguments are those of :func:`ablation_cells`."""
    cells = ablation_cells(only, **filters)
    if only is not None:
        return [Study(title=PARTS[part_name(only)].question, cells=tuple(cells))]
    studies = []
    for part in dict.fromkeys(cell.labels["part"] for cell in cells):
        own = [cell for cell in cells if cell.labels["part"] == part]
        plain = [replace(cell, labels={k: v for k, v in cell.labels.items() if k != "part"}) for cell in own]
        studies.append(Study(title=PARTS[part].question, cells=tuple(plain)))
    return studies
