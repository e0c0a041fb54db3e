"""``lrga train``: one run, from data to a number beside the published one."""

import json
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lrga.errors import visible

if TYPE_CHECKING:
    from lrga.training import TrainingConfig, TrainingResult

from lrga.cli.campaigns import INCOMPLETE

_MODEL, _SCHEDULE, _DATA, _RUN = "Model", "Schedule", "Data", "Run"
_LINK = "Link prediction"


def train(
    context: typer.Context,
    name: Annotated[
        str | None,
        typer.Argument(
            help="A data set (lrga data ls lists them), such as ZINC, Cora or ogbl-ddi; or your own: a folder of CSV "
            "files, a .pt file, module:factory, or an edge list with --task link.",
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(help="gcn, gat, gatedgcn, graphsage or gin; node2vec, deepwalk, mf.", rich_help_panel=_MODEL),
    ] = None,
    budget: Annotated[
        str | None, typer.Option(help="Parameters: 100k, 500k or any number.", rich_help_panel=_MODEL)
    ] = None,
    lrga: Annotated[
        bool | None,
        typer.Option("--lrga/--no-lrga", help="With or without low-rank global attention.", rich_help_panel=_MODEL),
    ] = None,
    hidden: Annotated[int | None, typer.Option(help="Width of the layers.", rich_help_panel=_MODEL)] = None,
    layers: Annotated[int | None, typer.Option(help="Number of layers.", rich_help_panel=_MODEL)] = None,
    heads: Annotated[int | None, typer.Option(help="Heads of GAT.", rich_help_panel=_MODEL)] = None,
    rank: Annotated[int | None, typer.Option(help="The paper's κ, 30 by default.", rich_help_panel=_MODEL)] = None,
    attention_heads: Annotated[
        int | None, typer.Option(help="Heads of the low-rank attention.", rich_help_panel=_MODEL)
    ] = None,
    random_features: Annotated[
        bool | None,
        typer.Option("--random-features", help="Fresh noise in place of node features.", rich_help_panel=_MODEL),
    ] = None,
    edge_features: Annotated[
        bool | None,
        typer.Option("--edge-features/--no-edge-features", help="Whether GatedGCN reads them.", rich_help_panel=_MODEL),
    ] = None,
    preset: Annotated[
        str | None, typer.Option(help="Generation of the benchmark's layers: 2022 or 2020.", rich_help_panel=_MODEL)
    ] = None,
    reading: Annotated[
        str | None, typer.Option(help="Of the augmented layer: A, B, C, D or B-outer.", rich_help_panel=_MODEL)
    ] = None,
    dropout: Annotated[float | None, typer.Option(help="In every layer.", rich_help_panel=_MODEL)] = None,
    readout: Annotated[str | None, typer.Option(help="mean or sum over nodes.", rich_help_panel=_MODEL)] = None,
    epochs: Annotated[int | None, typer.Option(help="At most so many.", rich_help_panel=_SCHEDULE)] = None,
    batch_size: Annotated[int | None, typer.Option(help="Graphs in a batch.", rich_help_panel=_SCHEDULE)] = None,
    eval_batch_size: Annotated[int | None, typer.Option(help="In evaluation.", rich_help_panel=_SCHEDULE)] = None,
    lr: Annotated[float | None, typer.Option(help="Initial learning rate.", rich_help_panel=_SCHEDULE)] = None,
    lr_factor: Annotated[float | None, typer.Option(help="Times this on a plateau.", rich_help_panel=_SCHEDULE)] = None,
    patience: Annotated[int | None, typer.Option(help="Epochs until a plateau.", rich_help_panel=_SCHEDULE)] = None,
    min_lr: Annotated[float | None, typer.Option(help="Ends below this rate.", rich_help_panel=_SCHEDULE)] = None,
    weight_decay: Annotated[float | None, typer.Option(help="Of Adam.", rich_help_panel=_SCHEDULE)] = None,
    clip_gradient: Annotated[float | None, typer.Option(help="Greatest norm.", rich_help_panel=_SCHEDULE)] = None,
    precision: Annotated[
        str | None, typer.Option(help="float32, or bf16 or fp16 (mixed).", rich_help_panel=_SCHEDULE)
    ] = None,
    recalibrate_norm: Annotated[
        int | None,
        typer.Option(
            help="Average BatchNorm statistics afresh over so many batches before each evaluation (20 on CLUSTER).",
            rich_help_panel=_SCHEDULE,
        ),
    ] = None,
    loss: Annotated[
        str | None,
        typer.Option(help="cross_entropy, weighted_cross_entropy, l1 or mse.", rich_help_panel=_SCHEDULE),
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(
            help="accuracy, weighted_accuracy, f1_positive, roc_auc, average_precision, mae, mse or rmse; the ending "
            "_by_batch means over batches.",
            rich_help_panel=_SCHEDULE,
        ),
    ] = None,
    data_root: Annotated[Path | None, typer.Option(help="Where data live.", rich_help_panel=_DATA)] = None,
    source: Annotated[
        Path | None, typer.Option(help="Folder of raw or prepared files of a named set.", rich_help_panel=_DATA)
    ] = None,
    sizes: Annotated[
        str | None, typer.Option(help="Graphs of train,val,test: 1500,250,250.", rich_help_panel=_DATA)
    ] = None,
    data_seed: Annotated[
        int | None, typer.Option(help="Of a generated set, or of the split of your own data.", rich_help_panel=_DATA)
    ] = None,
    level: Annotated[
        str | None, typer.Option(help="Own data: predict for each node, edge or graph.", rich_help_panel=_DATA)
    ] = None,
    task: Annotated[
        str | None,
        typer.Option(
            help="Own data: classification, multilabel or regression; link for an edge list.", rich_help_panel=_DATA
        ),
    ] = None,
    standardize_targets: Annotated[
        bool | None,
        typer.Option(
            "--standardize-targets/--no-standardize-targets",
            help="Own data, regression: standardise the targets with the training split's mean and std (default: yes).",
            rich_help_panel=_DATA,
        ),
    ] = None,
    split: Annotated[
        str | None,
        typer.Option(
            help="Own data: fractions, 0.8,0.1,0.1. A named set: the published split's number.", rich_help_panel=_DATA
        ),
    ] = None,
    split_by: Annotated[
        str | None, typer.Option(help="Edge list: random, time or given (column split).", rich_help_panel=_LINK)
    ] = None,
    directed: Annotated[
        bool | None, typer.Option("--directed", help="Edge list: a,b is another edge than b,a.", rich_help_panel=_LINK)
    ] = None,
    skip: Annotated[
        bool | None,
        typer.Option("--skip/--no-skip", help="Whether x enters an augmented layer's map.", rich_help_panel=_LINK),
    ] = None,
    validation_edges: Annotated[
        bool | None,
        typer.Option(
            "--validation-edges/--no-validation-edges",
            help="Whether messages run along them in the test.",
            rich_help_panel=_LINK,
        ),
    ] = None,
    edge_weights: Annotated[
        bool | None,
        typer.Option("--edge-weights/--no-edge-weights", help="Whether GCN reads them.", rich_help_panel=_LINK),
    ] = None,
    predictor: Annotated[str | None, typer.Option(help="hadamard, dot or concat.", rich_help_panel=_LINK)] = None,
    predictor_layers: Annotated[int | None, typer.Option(help="Its linear maps.", rich_help_panel=_LINK)] = None,
    negatives: Annotated[str | None, typer.Option(help="uniform or no_edge pairs.", rich_help_panel=_LINK)] = None,
    walk_epochs: Annotated[
        int | None, typer.Option(help="Of walks, before the predictor (node2vec, deepwalk).", rich_help_panel=_LINK)
    ] = None,
    walk_length: Annotated[int | None, typer.Option(help="Steps of a walk.", rich_help_panel=_LINK)] = None,
    walk_context: Annotated[int | None, typer.Option(help="Near nodes of a walk.", rich_help_panel=_LINK)] = None,
    walk_p: Annotated[float | None, typer.Option(help="Node2Vec's p.", rich_help_panel=_LINK)] = None,
    walk_q: Annotated[float | None, typer.Option(help="Node2Vec's q.", rich_help_panel=_LINK)] = None,
    seed: Annotated[int | None, typer.Option(help="Of weights, order and dropout.", rich_help_panel=_RUN)] = None,
    seeds: Annotated[
        list[str] | None,
        typer.Option(
            help="Several runs, one for each seed: --seeds 41 95; on a GPU all at once, each in its own folder.",
            rich_help_panel=_RUN,
        ),
    ] = None,
    device: Annotated[str | None, typer.Option(help="auto, cpu, cuda or cuda:1.", rich_help_panel=_RUN)] = None,
    engine: Annotated[
        str | None,
        typer.Option(
            help="captured (steps replayed as CUDA graphs), plain, or auto: captured on a GPU where the model allows.",
            rich_help_panel=_RUN,
        ),
    ] = None,
    deterministic: Annotated[
        bool | None,
        typer.Option(
            "--deterministic", help="On a GPU too, the same numbers to the last bit; slower.", rich_help_panel=_RUN
        ),
    ] = None,
    output: Annotated[
        Path, typer.Option(help="Folder below which the run gets one of its own.", rich_help_panel=_RUN)
    ] = Path("runs"),
    run_name: Annotated[str | None, typer.Option(help="Name of that folder.", rich_help_panel=_RUN)] = None,
    resume: Annotated[
        Path | None,
        typer.Option(
            help="Continue the run in this folder; options beside it must be the run's.",
            metavar="RUN",
            rich_help_panel=_RUN,
        ),
    ] = None,
    time_limit: Annotated[
        float | None,
        typer.Option(help="Pause cleanly after so many minutes.", metavar="MINUTES", rich_help_panel=_RUN),
    ] = None,
    checkpoint_minutes: Annotated[
        float | None, typer.Option(help="Checkpoints within long epochs.", rich_help_panel=_RUN)
    ] = None,
    tensorboard: Annotated[
        bool | None, typer.Option("--tensorboard", help="Log for TensorBoard too.", rich_help_panel=_RUN)
    ] = None,
    recompute_layers: Annotated[
        bool | None,
        typer.Option(
            "--recompute-layers", help="Activation checkpointing: less memory, more time.", rich_help_panel=_RUN
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="Any other option, for example schedule=cosine; repeatable.",
            metavar="KEY=VALUE",
            rich_help_panel=_RUN,
        ),
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="A configuration file; options given beside it win.", rich_help_panel=_RUN)
    ] = None,
    trust: Annotated[
        bool,
        typer.Option(
            "--trust",
            help="Trust --resume or --config: import the module:factory and write to the data root named there.",
            rich_help_panel=_RUN,
        ),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would be trained.", rich_help_panel=_RUN)
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.", rich_help_panel=_RUN)] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.", rich_help_panel=_RUN)] = False,
) -> None:
    """Train a model under the benchmark's protocol; the test result is printed beside the paper's.

    A run can be killed at any moment and continued with [bold]--resume[/]; Ctrl-C writes a checkpoint first.

    Exit codes: 0 finished, 1 failed, 2 wrong usage, 3 paused by --time-limit, 128 + N stopped by signal N.

    Examples:

    [bold]lrga train ZINC --model gatedgcn --budget 100k[/]

    [bold]lrga train CLUSTER --no-lrga --sizes 1500,250,250 --epochs 12 --recalibrate-norm 20[/]

    [bold]lrga train my_graphs/ --model gin --hidden 64 --layers 4[/]

    [bold]lrga train ogbl-ddi --model gcn --source ~/ogbl_ddi[/]

    [bold]lrga train ./edges.csv --task link --split-by time[/]

    [bold]lrga train PATTERN --model gcn --budget 500k --device cuda --seeds 41 95 12 35[/]

    [bold]lrga train --resume runs/zinc-lrga-gatedgcn-100k-seed41[/]

    [bold]lrga train my_module:my_graphs --resume runs/my-run[/]
    """
    from lrga.bench.options import merge_settings, parse_seeds
    from lrga.data.datasets.place import parse_sizes
    from lrga.distributed.launch import is_leader
    from lrga.errors import OptionError
    from lrga.training import Interrupted, TrainingConfig, continue_run, new_folder
    from lrga.training import train as train_run
    from lrga.training.callbacks.terminal import progress_display
    from lrga.training.options import configure, parse_split
    from lrga.training.runs.folder import RunFolder
    from lrga.training.runs.plan import plan_run
    from lrga.training.runs.trust import data_from_file

    options = {
        "model": model, "budget": budget, "lrga": lrga, "hidden": hidden, "layers": layers, "heads": heads,
        "rank": rank, "attention_heads": attention_heads, "random_features": random_features,
        "edge_features": edge_features, "preset": preset, "reading": reading, "dropout": dropout, "readout": readout,
        "batch_size": batch_size, "eval_batch_size": eval_batch_size, "lr": lr, "lr_factor": lr_factor,
        "patience": patience, "min_lr": min_lr, "weight_decay": weight_decay, "clip_gradient": clip_gradient,
        "precision": precision, "recalibrate_norm": recalibrate_norm, "loss": loss, "metric": metric,
        "standardize_targets": standardize_targets,
        "root": None if data_root is None else str(data_root), "source": None if source is None else str(source),
        "recompute_layers": recompute_layers,
        "seed": seed, "checkpoint_minutes": checkpoint_minutes, "tensorboard": tensorboard, "engine": engine,
        "deterministic": deterministic, "skip": skip, "validation_edges": validation_edges,
        "edge_weights": edge_weights, "predictor": predictor, "predictor_layers": predictor_layers,
        "negatives": negatives, "walk_epochs": walk_epochs, "walk_length": walk_length, "walk_context": walk_context,
        "walk_p": walk_p, "walk_q": walk_q,
    }  # fmt: skip
    data_options = {
        "sizes": None if sizes is None else parse_sizes(sizes),
        "seed": data_seed,
        "level": level,
        "task": task,
        "split": None if split is None else parse_split(split),
        "split_by": split_by,
        "directed": directed,
    }
    for flag in ("output", "run_name") if resume is not None else ():
        source_of_flag = context.get_parameter_source(flag)
        if source_of_flag is not None and source_of_flag.name == "COMMANDLINE":
            got = f"--{flag.replace('_', '-')} beside --resume"
            raise OptionError("only options that this run uses", got, "remove it")
    more = list(context.args)
    if seeds and name is not None and name.isdecimal() and not Path(name).exists():  # --config FILE --seeds 41 95
        more.insert(0, name)
        name = None
    several = parse_seeds(seeds, more)
    if several is not None and (seed is not None or resume is not None):
        raise OptionError("--seeds without --seed and --resume", "both", "name the seeds once")
    listeners = [] if quiet or several else [progress_display()]
    written = (
        RunFolder(resume).config() if resume is not None and (name is None or RunFolder(resume).holds_a_run) else None
    )
    base = TrainingConfig.load(config, trust=True) if config is not None else written
    if base is not None:
        origin, option = (resume, "--resume") if config is None else (config, "--config")
        command = f"lrga train {base.data.name} {option} {shlex.quote(str(origin))}"
        data = data_from_file(
            base.data, str(origin), trust=trust, name=name, root=data_root, source=source, command=command
        )
        base = replace(base, data=data)
    elif trust:
        raise OptionError("--trust beside --resume or --config", "neither", "leave it out")
    elsewhere = ("name", "options", "seed")
    named = merge_settings({**options, "max_epochs": epochs, "device": device}, settings or (), elsewhere=elsewhere)
    settled = configure(name, base, data_options=data_options, **named)
    if dry_run:
        _print_plan(plan_run(settled), as_json=as_json)
        return
    if several is not None:
        _train_several(settled, several, output, run_name, time_limit=time_limit, quiet=quiet, as_json=as_json)
        return
    try:
        if resume is not None and written is not None:
            result = continue_run(
                resume, settled, listeners=listeners, time_limit=time_limit, max_epochs=epochs, device=device
            )
        else:
            folder = resume or (new_folder(settled, output) if run_name is None else output / run_name)
            result = train_run(settled, folder, listeners=listeners, time_limit=time_limit)
    except Interrupted as stop:
        print(visible(f"\n{stop}"), file=sys.stderr)
        raise typer.Exit(stop.exit_code) from None
    if is_leader():
        _print_result(result, settled, as_json=as_json)
    if not result.finished:
        raise typer.Exit(INCOMPLETE)


def _train_several(
    config: "TrainingConfig",
    seeds: tuple[int, ...],
    output: Path,
    name: str | None,
    *,
    time_limit: float | None,
    quiet: bool,
    as_json: bool,
) -> None:
    from rich.table import Table

    from lrga.cli.tables import stdout
    from lrga.training import Interrupted
    from lrga.training.callbacks.terminal_many import progress_displays
    from lrga.training.runs.seeds import train_seeds

    displays = [] if quiet else progress_displays([f"seed {seed}" for seed in seeds])
    try:
        done = train_seeds(config, seeds, output, name, listeners=[[one] for one in displays], time_limit=time_limit)
    except Interrupted as stop:
        print(visible(f"\n{stop}"), file=sys.stderr)
        raise typer.Exit(stop.exit_code) from None
    if as_json:
        print(json.dumps(done.to_json(), indent=2, ensure_ascii=False))
    else:
        table = Table(title=done.title)
        for column in ("seed", "test", "at best val", "epochs", "seconds", "ended by"):
            table.add_column(column, justify="left" if column == "ended by" else "right", overflow="fold")
        for row in done.rows():
            table.add_row(*row)
        console = stdout()
        console.print(table)
        for note in done.notes():
            console.print(note, markup=False, soft_wrap=True)
    if done.failed:
        raise typer.Exit(1)
    if not all(result.finished for result in done.results):
        raise typer.Exit(INCOMPLETE)


def _print_plan(plan: dict[str, Any], *, as_json: bool) -> None:
    from lrga.cli.tables import facts_table, link_plan, stdout

    if as_json:
        print(json.dumps(plan, indent=2, ensure_ascii=False))
        return
    graphs = ", ".join(f"{split} {count:,}" for split, count in plan["data"]["graphs"].items())
    for note in plan["data"].get("notes", []):
        print(visible(f"data: {note}"), file=sys.stderr)
    if "link" in plan:
        stdout().print(facts_table(link_plan(plan)))
        return
    network, schedule, task = plan["model"], plan["optimizer"], plan["task"]
    attention = "plain" if network["rank"] is None else f"with LRGA of rank {network['rank']}"
    unit = "graphs" if schedule["fanouts"] is None else "seed nodes"
    rows = {
        "data": f"{plan['data']['name']}: {graphs} graphs" + ("" if plan["data"]["built"] else " (to be built first)"),
        "task": f"{task['level']} {task['kind']}, loss {task['loss']}, metric {task['metric']}",
        "model": f"{network['conv']} {attention}, width {network['hidden_channels']}, {network['num_layers']} layers",
        "parameters": f"{plan['parameters']:,}",
        "schedule": f"Adam, lr {schedule['lr']:g} times {schedule['lr_factor']:g} after {schedule['patience']} epochs "
        f"without a better validation loss, until below {schedule['min_lr']:g} or {schedule['max_epochs']} epochs",
        "batches": f"{plan['batches_per_epoch']:,} of {schedule['batch_size']} {unit} in an epoch",
        "precision": schedule["precision"],
        "BatchNorm": f"statistics averaged afresh over {schedule['recalibrate_norm']} batches before evaluation"
        if schedule["recalibrate_norm"]
        else "running statistics",
        "seed, device": f"{plan['seed']}, {plan['device']}",
    }
    stdout().print(facts_table(rows))


def _print_result(result: "TrainingResult", config: "TrainingConfig", *, as_json: bool) -> None:
    from lrga.bench.beside import published_for
    from lrga.cli.tables import facts_table, stdout
    from lrga.tasks import METRICS

    cell = published_for(config)
    if as_json:
        paper = None if cell is None else {"mean": cell.mean, "std": cell.std}
        print(json.dumps(result.to_json() | {"folder": str(result.folder), "published": paper}, indent=2))
        return
    rows: dict[str, str] = {}
    if result.last is not None and result.best is not None:
        name = METRICS[result.metric].name
        last = f"{result.format_metric(result.last.test_metric)} (last epoch, {result.epochs})"
        best = f"{result.format_metric(result.best.test_metric)} (epoch {result.best.epoch})"
        if result.reported == "best":
            rows |= {f"test {name}": f"{best}, best in validation", "at the end": last}
        else:
            rows |= {f"test {name}": last, "at best validation": best}
    if cell is not None:
        seeds = "ten" if cell.table == 2 else "four"
        rows["paper"] = f"{cell.mean:g} ± {cell.std:g} (Table {cell.table}, full data, {seeds} seeds)"
    rows["parameters"] = f"{result.parameters:,}"
    rows["time"] = (
        f"{result.seconds:,.1f} s, {result.epochs} epoch{'s' * (result.epochs != 1)}, stopped by {result.stopped_by}"
    )
    rows["run folder"] = str(result.folder)
    if not result.finished:
        rows["continue"] = f"lrga train --resume {result.folder}"
    stdout().print(facts_table(rows))
