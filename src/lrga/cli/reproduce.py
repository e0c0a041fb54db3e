"""``lrga reproduce``: the paper's experiments, or a campaign of your own, compared with published numbers."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from lrga.cli import options as o
from lrga.errors import visible

_ABLATION = "ablation"


class _OldSpellings(TyperGroup):
    """Prints the new command for a command of version 0.1 (``lrga reproduce table1 …``)."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        word = "".join(c for c in args[0].lower() if c.isalnum())
        if word in ("table1", "table2", "table3", "rank", "claims"):
            new = {"claims": _ABLATION}.get(word, f"run {word}")
            new = f"table {new.split()[-1]} FOLDER" if "--from-records" in args else new
            new = "verify RECORD" if "--verify" in args else new
            print(f"lrga reproduce {args[0]} is now: lrga reproduce {new} (options stay the same)", file=sys.stderr)
            raise typer.Exit(2)
        return super().resolve_command(ctx, args)


app = typer.Typer(
    cls=_OldSpellings,
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="Run the paper's tables or a campaign of your own, and print the results next to published numbers.\n\n"
    "Example: [bold]lrga reproduce run table1 --dataset ZINC --dry-run[/]",
)

Experiment = Annotated[
    str,
    typer.Argument(
        help="table1, table2 (links), table3 (random features) or rank; or a campaign of your own, .toml, .json or .py."
    ),
]
CELLS = o.panel(
    "Which cells",
    dataset=(str, "Only this data set."),
    model=(str, "Only this network."),
    budget=(str, "Only 100k or 500k."),
    lrga=(bool, "Only with LRGA, or only without.", "--lrga/--no-lrga"),
)
RANK = o.panel(
    "Which cells",
    rank=(int, "With rank: only this κ; with table2: another κ."),
    plain=(bool, "With table3: use the original node features.", "--plain"),
)
_PARTS = "heads, attention, features, presets, wirings, shapes, edges, norm, draws, walks or epochs"
ONLY = o.panel("Which cells", only=(str, f"Only this part: {_PARTS}."))
SHAPE = o.panel(  # as those of train; not shown in the help
    "Model",
    hidden=(int, ""),
    layers=(int, ""),
    encoding=(list[str], ""),
    random_features=(bool, "", "--random-features"),
)
PRESET = o.panel("Protocol", preset=(str, "Layers: paper (default), 2022 or 2020."))
Folders = Annotated[
    list[str] | None,
    typer.Argument(
        help="Folders of records and runs, searched recursively; default: runs or, in a clone without it, "
        "reproduction/results.",
        metavar="[FOLDERS]",
    ),
]
Form = Annotated[str, typer.Option("--format", help="text, markdown, latex, csv or json.")]
Markdown = Annotated[bool, typer.Option("--markdown", help="As --format markdown.")]
AsJson = Annotated[bool, typer.Option("--json", help="As --format json.")]


def _studies(experiment: str, given: dict[str, Any], seeds: tuple[int, ...] | None) -> list[Any]:
    """The studies to run: one, or for ablations one per part."""
    filters = {key: given.get(key) for key in (*CELLS, *RANK, *ONLY)}
    others = {key: value for key, value in given.items() if key not in filters}
    path, own = Path(experiment), Path(experiment).suffix in (".toml", ".json", ".py")
    options = o.training_options(others, elsewhere=("model", "budget", "lrga", *(() if own else ("rank",))))
    if own:
        from lrga.experiments.files import read_study

        unused = {key: filters.pop(key) for key in (*RANK, *ONLY)}
        remedy = "leave it out; --set rank=10 changes the rank of all cells"
        _refuse("--dataset, --model, --budget or --lrga with a campaign of your own", unused, remedy)
        options["data_options"] = o.data_options(given)
        return [read_study(path, seeds=seeds, published=given.get("published"), filters=filters, **options)]
    only, rank, plain = (filters.pop(key) for key in ("only", "rank", "plain"))
    filters |= {"seeds": seeds, "data_options": o.data_options(given)} | options
    if experiment == _ABLATION:
        from lrga.cli.clone import from_clone

        _refuse("ablations with dataset, model, budget or lrga", {"rank": rank, "plain": plain}, "leave it out")
        return list(from_clone("ablations", "lrga reproduce ablation").ablations(only, **filters))
    from lrga.paper.reproduction import reproduction

    _refuse("no option only, except with ablation", {"only": only}, "leave it out")
    reference = o.reference(given) if given.get("published") is not None else None
    return [reproduction(experiment, rank=rank, plain=bool(plain), reference=reference, **filters)]


def _refuse(expected: str, options: dict[str, Any], remedy: str) -> None:
    """Raises an error for options that would be ignored."""
    from lrga.errors import OptionError

    if found := ", ".join(f"--{key}" for key, value in options.items() if value is not None):
        raise OptionError(expected, found, remedy)


@app.command(context_settings=o.EXTRA_ARGUMENTS)
@o.with_options(CELLS, RANK, PRESET, o.PROTOCOL, o.DATA, o.RUN, o.CAMPAIGN, o.RARE, SHAPE)
def run(context: typer.Context, experiment: Experiment, given: dict[str, Any]) -> None:
    """Run an experiment of the paper, or some of its cells, and print the results next to the paper's.

    Without options this follows the paper's protocol with its number of seeds
    (four; ten in table2). Changes are listed below the table. Runs that have a
    record are skipped; interrupted runs are resumed.

    Exit codes: 0 all runs finished, 1 a run failed, 2 wrong usage, 3 runs remain
    (--time-limit or SIGUSR1, or in progress in another process), 128 + N stopped
    by signal N.

    Examples:
    [bold]lrga reproduce run table1 --dataset ZINC --model gatedgcn --budget 100k[/]
    [bold]lrga reproduce run table2 --dataset ogbl-ddi --seeds 0 1 2 --source ~/ogbl_ddi[/]
    [bold]lrga reproduce run rank --dry-run[/]
    [bold]lrga reproduce run table1 --shard 2/8[/]
    [bold]lrga reproduce run my_campaign.toml --dataset Cora --published my_numbers.toml[/]
    """
    from lrga.experiments.options import parse_seeds

    (study,) = _studies(experiment, given, parse_seeds(given["seeds"], context.args))
    o.carry_out(study, given)


@app.command(context_settings=o.EXTRA_ARGUMENTS)
@o.with_options(ONLY, CELLS, PRESET, o.PROTOCOL, o.DATA, o.RUN, o.CAMPAIGN, o.RARE, SHAPE)
def ablation(context: typer.Context, given: dict[str, Any]) -> None:
    """Run cells of the paper's tables with one option changed (needs a clone of the repository).

    Example: [bold]lrga reproduce ablation --only heads --seeds 41 95[/]
    """
    from dataclasses import replace

    from lrga.experiments.options import parse_seeds

    studies = _studies(_ABLATION, given, parse_seeds(given["seeds"], context.args))
    title = studies[0].title if len(studies) == 1 else "Ablations"
    o.carry_out(replace(studies[0], title=title, cells=tuple(c for study in studies for c in study.cells)), given)


@app.command(context_settings=o.EXTRA_ARGUMENTS)
@o.with_options(CELLS, RANK, ONLY, PRESET, o.PROTOCOL, o.DATA, o.PUBLISHED, o.RARE, SHAPE)
def table(
    experiment: Annotated[
        str, typer.Argument(help="table1, table2, table3, rank, a campaign file, or ablation (in a clone).")
    ],
    given: dict[str, Any],
    folders: Folders = None,
    done: Annotated[bool, typer.Option("--done", help="Only cells that have finished runs.")] = False,
    form: Form = "text", markdown: Markdown = False, as_json: AsJson = False,
) -> None:  # fmt: skip
    """Print the table of an experiment from records and run folders; nothing is trained.

    Examples:
    [bold]lrga reproduce table table1 runs[/]
    [bold]lrga reproduce table table3 reproduction/results --markdown[/]
    [bold]lrga reproduce table table1 runs --dataset ZINC --done --format latex[/]
    """
    from lrga.cli.clone import folders_of_runs
    from lrga.cli.printing import check_form, show
    from lrga.experiments.loading import load_runs, table_of_runs
    from lrga.experiments.options import parse_seeds

    form = "json" if as_json else "markdown" if markdown else form
    check_form(form)
    words = folders or []
    more = [word for word in words if word.isdecimal() and not Path(word).exists()]  # of --seeds 41 95
    seeds = parse_seeds(given["seeds"], more)
    studies = _studies(experiment, given, seeds)
    places = folders_of_runs([word for word in words if word not in more])
    options: dict[str, Any] = {"detailed": experiment == _ABLATION, "done": done, "seeds": seeds}
    runs = load_runs(places)
    show(*(table_of_runs(study.title, study.cells, runs, **options) for study in studies), form=form)


@app.command()
def differences(
    folders: Folders = None, form: Form = "text", markdown: Markdown = False, as_json: AsJson = False
) -> None:
    """List cells that differ from the paper, and the variants that were run. Needs a clone of the repository.

    Example: [bold]lrga reproduce differences reproduction/results[/]
    """
    from lrga.cli.clone import folders_of_runs, from_clone
    from lrga.cli.printing import show

    differences = from_clone("differences", "lrga reproduce differences")
    found = differences.differences_table(folders_of_runs(folders))
    show(found, form="json" if as_json else "markdown" if markdown else form)


@app.command()
def preset(form: Form = "text", markdown: Markdown = False, as_json: AsJson = False) -> None:
    """List the layers and wiring of each network in the preset paper, with reasons.

    Example: [bold]lrga reproduce preset[/]
    """
    from lrga.cli.printing import show
    from lrga.paper.preset import choices

    show(choices(), form="json" if as_json else "markdown" if markdown else form)


@app.command()
def verify(
    record: Annotated[Path, typer.Argument(help="Record of a finished run.", metavar="RECORD")],
    epochs: Annotated[int | None, typer.Option(help="Run only the first epochs, and compare the curves.")] = None,
    data_root: o.DataRoot = None,
    source: Annotated[Path | None, typer.Option(help="Folder of raw or prepared files of a data set.")] = None,
    device: Annotated[str | None, typer.Option(help="auto, cpu, cuda or cuda:1.")] = None,
    output: Annotated[Path, typer.Option(help="Folder for the new run.")] = Path("runs"),
    time_limit: Annotated[float | None, typer.Option(help="Pause after this time.", metavar="MINUTES")] = None,
    trust: o.Trust = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would run.")] = False,
    quiet: o.Quiet = False,
    as_json: o.AsJson = False,
) -> None:
    """Repeat the run of a record and compare the results. Needs a clone of the repository.

    If both runs are deterministic, they must agree to the last bit. Otherwise both
    numbers and the spread over the seeds are printed, without a verdict.

    Example: [bold]lrga reproduce verify reproduction/results/table1/RUN.json --epochs 2[/]
    """
    from lrga.cli.clone import from_clone
    from lrga.cli.printing import print_json

    verification = from_clone("verification", "lrga reproduce verify")
    if dry_run:
        facts = verification.facts_of(record, epochs=epochs)
        if as_json:
            print_json(facts)
        else:
            part = f"{facts['epochs']} of its {facts['recorded_epochs']} epochs"
            print(visible(f"Would repeat {facts['run']}, {part}, and compare."))
            where = facts["recorded_on"] or "an unknown device"
            print(visible(f"All epochs took {facts['recorded_seconds']:,.0f} s on {where}."))
        return
    found = verification.verify(
        record, output=output, epochs=epochs, time_limit=time_limit, progress=not quiet, trust=trust, device=device,
        root=None if data_root is None else str(data_root), source=None if source is None else str(source),
    )  # fmt: skip
    if as_json:
        print_json(found.to_json())
    for line in () if as_json else found.lines:
        print(visible(line))
    if found.equal is False or found.status in ("failed", "diverged"):
        raise typer.Exit(1)
    if found.status != "finished":
        raise typer.Exit(o.INCOMPLETE)
