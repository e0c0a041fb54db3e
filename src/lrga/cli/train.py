"""``lrga train``: one run, from the data to a result next to the published one."""

import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lrga.cli import options as o
from lrga.errors import visible

if TYPE_CHECKING:
    from lrga.experiments.published import Reference
    from lrga.training import TrainingConfig, TrainingResult

_RUN = "Runs"


@o.with_options(o.MODEL, o.PROTOCOL, o.DATA, o.RUN, o.PUBLISHED, o.RARE)
def train(
    context: typer.Context,
    given: dict[str, Any],
    name: Annotated[str | None, o.NAME] = None,
    seed: Annotated[
        int | None, typer.Option(help="Seed of weights, order and dropout.", rich_help_panel="Protocol")
    ] = None,
    run_name: Annotated[str | None, typer.Option(help="Name of the run's folder.", rich_help_panel=_RUN)] = None,
    resume: Annotated[
        Path | None, typer.Option(help="Resume the run in this folder.", metavar="RUN", rich_help_panel=_RUN)
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="JSON file; other options override it.", rich_help_panel=_RUN)
    ] = None,
    trust: Annotated[
        bool, typer.Option("--trust", help="Allow its module:factory and data root.", rich_help_panel=_RUN)
    ] = False,
) -> None:
    """Train a model and print the test result next to the published one.

    A run can be killed at any moment and resumed with --resume. With --trust, the
    module:factory and data root named in a run folder or file are used.

    Exit codes: 0 finished, 1 failed, 2 usage, 3 paused, 128 + N signal N.

    Examples:
    [bold]lrga train ZINC --model gatedgcn --budget 100k[/]
    [bold]lrga train CLUSTER --no-lrga --sizes 1500,250,250 --recalibrate-norm 20[/]
    [bold]lrga train CLUSTER --recipe modern --device cuda[/]
    [bold]lrga train my_graphs/ --model gin --hidden 64 --layers 4[/]
    [bold]lrga train ogbl-ddi --model gcn --source ~/ogbl_ddi[/]
    [bold]lrga train ./edges.csv --task link --split-by time[/]
    [bold]lrga train PATTERN --budget 500k --device cuda --seeds 41 95 12 35[/]
    [bold]lrga train --resume runs/zinc-lrga-gatedgcn-100k-seed41[/]
    """
    from lrga.cli.printing import facts_table, plan_facts, print_json, stdout
    from lrga.distributed.launch.process_group import is_leader
    from lrga.errors import OptionError
    from lrga.experiments.options import parse_seeds
    from lrga.training import Interrupted, TrainingConfig, continue_run, new_folder
    from lrga.training import train as train_run
    from lrga.training.callbacks.terminal import ProgressDisplay
    from lrga.training.presets import make_config
    from lrga.training.problems.data import plan_run
    from lrga.training.runs.folder import RunFolder
    from lrga.training.runs.trust import data_from_file

    output, time_limit, quiet, as_json = given["output"], given["time_limit"], given["quiet"], given["as_json"]
    reference = o.reference(given)
    for flag in ("output", "run_name") if resume is not None else ():
        source_of_flag = context.get_parameter_source(flag)
        if source_of_flag is not None and source_of_flag.name == "COMMANDLINE":
            got = f"--{flag.replace('_', '-')} with --resume"
            raise OptionError("only options that this run uses", got, "remove it")
    more, seeds = list(context.args), given["seeds"]
    if seeds and name is not None and name.isdecimal() and not Path(name).exists():  # of --config FILE --seeds 41 95
        more.insert(0, name)
        name = None
    several = parse_seeds(seeds, more)
    if several is not None and (seed is not None or resume is not None):
        raise OptionError("--seeds without --seed and --resume", "both", "give the seeds once")
    callbacks = [] if quiet or several else [ProgressDisplay()]
    written = (
        RunFolder(resume).config() if resume is not None and (name is None or RunFolder(resume).holds_a_run) else None
    )
    base = TrainingConfig.load(config, trust=True) if config is not None else written
    if base is not None:
        origin, option = (resume, "--resume") if config is None else (config, "--config")
        command = f"lrga train {base.data.name} {option} {shlex.quote(str(origin))}"
        places = {"root": given["data_root"], "source": given["source"]}
        data = data_from_file(base.data, str(origin), trust=trust, name=name, command=command, **places)
        base = replace(base, data=data)
    elif trust:
        raise OptionError("--trust with --resume or --config", "neither of them", "leave it out")
    settled = make_config(name, base, data_options=o.data_options(given), **o.training_options(given, seed=seed))
    if given["dry_run"]:
        plan = plan_run(settled)
        if as_json:
            print_json(plan)
            return
        for note in plan["data"].get("notes", []):
            print(visible(f"data: {note}"), file=sys.stderr)
        stdout().print(facts_table(plan_facts(plan)))
        return
    if several is not None:
        _train_several(settled, several, run_name, reference, given)
        return
    try:
        if resume is not None and written is not None:
            more_options = {"max_epochs": given["epochs"], "device": given["device"]}
            result = continue_run(resume, settled, callbacks=callbacks, time_limit=time_limit, **more_options)
        else:
            folder = resume or (new_folder(settled, output) if run_name is None else output / run_name)
            result = train_run(settled, folder, callbacks=callbacks, time_limit=time_limit)
    except Interrupted as stop:
        print(visible(f"\n{stop}"), file=sys.stderr)
        raise typer.Exit(stop.exit_code) from None
    if is_leader():
        _print_result(result, settled, reference, as_json=as_json)
    if not result.finished:
        raise typer.Exit(o.INCOMPLETE)


def _train_several(
    config: "TrainingConfig", seeds: tuple[int, ...], name: str | None, reference: "Reference", given: dict[str, Any]
) -> None:
    from lrga.cli.printing import print_json, show
    from lrga.distributed.launch.process_group import is_leader
    from lrga.experiments.loading import table_of_seeds
    from lrga.experiments.notes import notes_of_seeds
    from lrga.training import Interrupted
    from lrga.training.callbacks.terminal import ProgressDisplay
    from lrga.training.runs.seeds import train_seeds

    displays = [] if given["quiet"] else [ProgressDisplay(f"seed {seed}") for seed in seeds]
    try:
        places, limit = (given["output"], name), given["time_limit"]
        done = train_seeds(config, seeds, *places, callbacks=[[one] for one in displays], time_limit=limit)
    except Interrupted as stop:
        print(visible(f"\n{stop}"), file=sys.stderr)
        raise typer.Exit(stop.exit_code) from None
    if is_leader():
        folders = dict(zip(done.seeds, done.folders, strict=True))
        table = table_of_seeds(config, folders, reference, notes_of_seeds(done))
        whole = table.rows[-1].to_json()
        numbers = {key: whole[key] for key in ("mean", "std", "published", "difference")}
        if given["as_json"]:
            print_json({**numbers, "runs": done.to_json()})
        else:
            show(table)
    if done.failed:
        raise typer.Exit(1)
    if not all(result.finished for result in done.results):
        raise typer.Exit(o.INCOMPLETE)


def _print_result(result: "TrainingResult", config: "TrainingConfig", reference: "Reference", *, as_json: bool) -> None:
    from lrga.cli.printing import facts_table, print_json, stdout
    from lrga.tasks import METRICS

    cell = reference.number(config)
    if as_json:
        print_json(result.to_json() | {"folder": str(result.folder), "published": cell and cell.to_json()})
        return
    rows: dict[str, str] = {}
    if result.last is not None and result.best is not None:
        name = METRICS[result.metric].name
        last = f"{result.format_metric(result.last.test_metric)} (last epoch, number {result.epochs})"
        best = f"{result.format_metric(result.best.test_metric)} (epoch {result.best.epoch})"
        if result.reported == "best":
            rows |= {f"test {name}": f"{best}, best in validation", "at the end": last}
        else:
            rows |= {f"test {name}": last, "at best validation": best}
    if cell is not None:
        over = "" if cell.seeds is None else f", {cell.seeds} seeds"
        rows["published"] = f"{cell.text(METRICS[result.metric].decimals)} ({cell.source}{over})"
    rows["parameters"] = f"{result.parameters:,}"
    rows["time"] = (
        f"{result.seconds:,.1f} s, {result.epochs} epoch{'s' * (result.epochs != 1)}, stopped by {result.stopped_by}"
    )
    rows["run folder"] = str(result.folder)
    if not result.finished:
        rows["continue"] = f"lrga train --resume {result.folder}"
    stdout().print(facts_table(rows))
