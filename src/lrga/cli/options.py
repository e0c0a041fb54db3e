"""Options that ``train``, ``compare``, ``sweep`` and ``reproduce`` share, each declared once.

A group maps the name of an option to its type, help and default. :func:`with_options` adds the
options of some groups to a command, which receives them as one dictionary ``given``.
"""

import inspect
import signal
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from lrga.experiments.published import Reference
    from lrga.experiments.study import Study

INCOMPLETE = 3  # exit code if runs remain: the time limit was reached, or another process is working on them
Group = dict[str, tuple[Any, Any]]


def panel(title: str, **options: tuple[Any, ...]) -> Group:
    """A group of options: name → type, help, then optionally flags, a default other than ``None``, a metavar."""
    group: Group = {}
    for name, (kind, text, *more) in options.items():
        flags = [word for word in more if isinstance(word, str) and word.startswith("--")]
        metavar = next((word for word in more if isinstance(word, str) and not word.startswith("--")), None)
        default = next((word for word in more if not isinstance(word, str)), None)
        kind = kind if default is not None else kind | None
        option = typer.Option(*flags, help=text, rich_help_panel=title, metavar=metavar, hidden=not text)
        group[name] = Annotated[kind, option], default
    return group


MODEL = panel(
    "Model",
    model=(str, "gcn, gat, gatedgcn, graphsage, gin, gine; links: node2vec, deepwalk, mf."),
    budget=(str, "Number of parameters, e.g. 100k."),
    lrga=(bool, "With or without global attention.", "--lrga/--no-lrga"),
    hidden=(int, "Width of the layers (channels)."),
    layers=(int, "Number of layers."),
    rank=(int, "Rank κ of the attention."),
    encoding=(list[str], "Positional: rwse:20, lappe:8, …", "NAME:K"),
    random_features=(bool, "Noise as node features.", "--random-features"),
    preset=(str, "Benchmark layers: 2022 or 2020."),
    recipe=(str, "modern: settings of recent papers."),
)
PROTOCOL = panel(
    "Protocol",
    seeds=(list[str], "One run per seed: --seeds 41 95."),
    epochs=(int, "Maximum number of epochs."),
    batch_size=(int, "Graphs per batch."),
    lr=(float, "Initial learning rate."),
    dropout=(float, "Dropout in every layer."),
    precision=(str, "float32, or mixed: bf16, fp16."),
    recalibrate_norm=(int, "Batches for BatchNorm statistics."),
    metric=(str, "accuracy, mae, roc_auc, hits@20, …"),
    settings=(list[str], "Any other option: schedule=cosine.", "--set", "NAME=VALUE"),
)
DATA = panel(
    "Data",
    data_root=(Path, "Folder of the data sets."),
    source=(Path, "Folder with the files of a data set."),
    sizes=(str, "Graphs in train,val,test: 1500,250,250."),
    data_seed=(int, "Seed of a generated data set or a random split."),
    level=(str, "Own data, what to predict: node, edge or graph."),
    task=(str, "classification, multilabel, regression or link."),
    split=(str, "Own data: 0.8,0.1,0.1; data set: split number."),
    split_by=(str, "Edge list: random, time or given (column split)."),
    directed=(bool, "Edge list: edges are directed.", "--directed"),
)
RUN = panel(
    "Runs",
    device=(str, "auto, cpu, cuda or cuda:1."),
    output=(Path, "Folder for the runs.", Path("runs")),
    time_limit=(float, "Pause after this time; rerun to resume.", "MINUTES"),
    recompute_layers=(bool, "Activation checkpointing.", "--recompute-layers"),
    dry_run=(bool, "Only show what would run.", "--dry-run", False),
    quiet=(bool, "Hide progress.", "--quiet", False),
    as_json=(bool, "Print JSON.", "--json", False),
)
PUBLISHED = panel("Runs", published=(Path, "Published numbers, TOML or JSON.", "FILE"))
CAMPAIGN = PUBLISHED | panel(
    "Runs",
    retry=(bool, "Repeat diverged runs.", "--retry", False),
    parallel=(int, "Runs at a time on the device.", 1),
    shard=(str, "Part i of n, for job arrays: 2/8.", "i/n"),
)
# Accepted by name and by --set; not shown in the help.
RARE = panel(
    "Model",
    heads=(int, ""), attention_heads=(int, ""), wiring=(str, ""), readout=(str, ""), patience=(int, ""),
    edge_features=(bool, "", "--edge-features/--no-edge-features"), eval_batch_size=(int, ""), lr_factor=(float, ""),
    min_lr=(float, ""), weight_decay=(float, ""), clip_gradient=(float, ""), loss=(str, ""), engine=(str, ""),
    standardize_targets=(bool, "", "--standardize-targets/--no-standardize-targets"), walk_q=(float, ""),
    tensorboard=(bool, "", "--tensorboard"),
    checkpoint_minutes=(float, ""), deterministic=(bool, "", "--deterministic"), skip=(bool, "", "--skip/--no-skip"),
    validation_edges=(bool, "", "--validation-edges/--no-validation-edges"), predictor=(str, ""),
    edge_weights=(bool, "", "--edge-weights/--no-edge-weights"), predictor_layers=(int, ""), negatives=(str, ""),
    walk_epochs=(int, ""), walk_length=(int, ""), walk_context=(int, ""), walk_p=(float, ""),
)  # fmt: skip
_TRAINING = {**MODEL, **PROTOCOL, **RARE, "device": None, "recompute_layers": None}
_DATA_OPTIONS = ("sizes", "level", "task", "split", "split_by", "directed")

NAME = typer.Argument(
    help="A data set (lrga data ls), or your own: CSV folder, .pt file, module:factory, edge list with --task link."
)
Name = Annotated[str, NAME]
# Options of commands without the groups above.
RunFolder = Annotated[Path, typer.Argument(help="Folder of a run of lrga train.", metavar="RUN")]
Best = Annotated[bool, typer.Option("--best", help="Use the weights with the best validation result, not the last.")]
Input = Annotated[str | None, typer.Option("--input", help="Explain other graphs: any INPUT of lrga predict.")]
Split = Annotated[str, typer.Option(help="Split of the run's data: train, val or test.")]
Trust = Annotated[bool, typer.Option("--trust", help="Allow the module:factory and data root that the run specifies.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:1.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Hide progress.")]
DataRoot = Annotated[Path | None, typer.Option(help="Folder of the data sets.", metavar="DIR")]
# typer leaves 95 of `--seeds 41 95` over; parse_seeds reads it. Any other argument left over is an error.
EXTRA_ARGUMENTS = {"allow_extra_args": True, "ignore_unknown_options": False}


def with_options(*groups: Group, without: Sequence[str] = ()) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Adds the options of some groups to a command, except its own options and those in ``without``."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own = {key: value for key, value in inspect.signature(command).parameters.items() if key != "given"}
        shared = {
            name: option
            for group in groups
            for name, option in group.items()
            if name not in own and name not in without
        }

        @wraps(command)
        def run(**values: Any) -> None:
            if "time_limit" in shared:
                pause_on_signal()  # before torch is imported, which may take seconds
            command(**{key: values[key] for key in own}, given={key: values[key] for key in shared})

        added = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
            for name, (kind, default) in shared.items()
        ]
        # The help shows groups of options in the order of their first option, the shared ones first.
        parameters = [*added, *(p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own.values())]
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {p.name: p.annotation for p in parameters}
        return run

    return decorate


def training_options(given: Mapping[str, Any], *, elsewhere: Sequence[str] = (), **more: Any) -> dict[str, Any]:
    """The training options, including those of ``--set``; options in ``elsewhere`` are an error in ``--set``."""
    from lrga.experiments.options import merge_settings

    names = {"max_epochs": "epochs", "root": "data_root", "source": "source"}
    words = {key: given.get(key) for key in _TRAINING if key not in ("epochs", "seeds", "settings")}
    words |= {key: given.get(other) for key, other in names.items()} | more
    words = {key: str(value) if isinstance(value, Path) else value for key, value in words.items() if value != []}
    return merge_settings(words, given.get("settings") or (), elsewhere=("name", "options", "seed", *elsewhere))


def parse_sizes(text: str) -> tuple[int, ...]:
    """Sizes as typed on the command line, ``"1500,250,250"``.

    Example:
        >>> parse_sizes("1500, 250, 250")
        (1500, 250, 250)
    """
    from lrga.errors import OptionError

    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError as error:
        raise OptionError("sizes as train,val,test", repr(text), "write for example 1500,250,250") from error


def data_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """The options of the data set, as typed."""
    from lrga.training.presets import parse_split

    options = {key: given.get(key) for key in _DATA_OPTIONS} | {"seed": given.get("data_seed")}
    if options["sizes"] is not None:
        options["sizes"] = parse_sizes(options["sizes"])
    if options["split"] is not None:
        options["split"] = parse_split(options["split"])
    return options


def reference(given: Mapping[str, Any]) -> "Reference":
    """The published numbers: from ``--published``, or the paper's by default."""
    if given.get("published") is not None:
        from lrga.experiments.published import PublishedTable

        return PublishedTable.read(given["published"])
    from lrga.paper.reference import THE_PAPER

    return THE_PAPER


def pause_on_signal() -> None:
    """Makes SIGUSR1 outside of training exit with the code for resumable work; nothing is lost there."""

    def end(*_: Any) -> None:
        raise SystemExit(INCOMPLETE)

    if hasattr(signal, "SIGUSR1") and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGUSR1, end)


def carry_out(study: "Study", given: Mapping[str, Any]) -> None:
    """Lists or runs a campaign and prints it; exit code 1 if a run failed, 3 if runs remain."""
    from lrga.cli.printing import show
    from lrga.experiments.study import CampaignInterrupted, parse_shard

    if given["shard"] is not None:
        study = study.shard(*parse_shard(given["shard"]))
    output, as_json = given["output"], given["as_json"]
    if given.get("published") is not None and not any(cell.published for cell in study.cells):
        print(f"No result of {given['published']} is for a network of these runs.", file=sys.stderr)
    if given["dry_run"]:
        show(study.plan(output), as_json=as_json)
        return
    try:
        table = study.run(
            output, time_limit=given["time_limit"], retry=given["retry"], progress=not given["quiet"],
            parallel=given["parallel"],
        )  # fmt: skip
    except CampaignInterrupted as stop:
        show(stop.table, as_json=as_json)
        print(stop, file=sys.stderr)
        raise typer.Exit(stop.exit_code) from None
    show(table, as_json=as_json)
    if table.failed:
        raise typer.Exit(1)
    if not table.complete:
        raise typer.Exit(INCOMPLETE)
