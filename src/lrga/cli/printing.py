"""Printing of tables, facts and progress for all commands."""

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from lrga.errors import OptionError, visible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from lrga.experiments.sheet import Tabular

FORMS = ("text", "markdown", "latex", "csv", "json")


def show(*tables: "Tabular", as_json: bool = False, form: str = "text") -> None:
    """Prints tables with their notes as text, markdown, latex, csv or json."""
    if as_json or form == "json":
        print_json(tables[0].to_json() if len(tables) == 1 else [table.to_json() for table in tables])
        return
    if form != "text":
        check_form(form)
        texts = [getattr(table, f"to_{form}")() for table in tables]
        if form == "markdown" and len(tables) > 1:  # only several tables need titles
            texts = [f"**{table.sheet().title}**\n\n{text}" for table, text in zip(tables, texts, strict=True)]
        sys.stdout.write("\n".join(texts))
        return
    for table in tables:
        stdout(most=100).print(table.sheet())


def check_form(form: str) -> None:
    """Raises an error unless ``form`` is a known table format."""
    if form not in FORMS:
        raise OptionError(f"one of the formats {', '.join(FORMS)}", repr(form), "choose one of these")


def print_json(value: Any) -> None:
    """JSON for people and machines."""
    print(json.dumps(value, indent=2, ensure_ascii=False))


def safe_console(**options: Any) -> "Console":
    """A rich console that escapes control characters in names; takes the options of rich."""
    from rich.console import Console
    from rich.segment import Segment

    class SafeConsole(Console):
        def render(self, *args: Any, **kwargs: Any) -> Iterator[Segment]:
            for segment in super().render(*args, **kwargs):
                yield segment if segment.control else Segment(visible(segment.text), segment.style)

    return SafeConsole(highlight=False, **options)


def stdout(most: int | None = None) -> "Console":
    """The console of results: as wide as the terminal (without one: ``COLUMNS`` or 100), at most ``most``."""
    given = os.environ.get("COLUMNS", "")
    asked = given.isdigit() and int(given) > 0  # rich uses COLUMNS itself then
    console = safe_console()
    width = console.width if console.is_terminal or asked else 100
    console.width = width if most is None else min(width, most)
    return console


@contextmanager
def announced(*, lines: bool = True) -> Iterator[Callable[[str], None]]:
    """Reports progress on stderr: on a terminal in one temporary line, otherwise as lines if ``lines``."""
    from rich.console import Console
    from rich.markup import escape

    errors = Console(stderr=True)
    with errors.status("starting") as status:

        def say(text: str) -> None:
            status.update(escape(text))
            if lines and not errors.is_terminal:
                print(text, file=sys.stderr)

        yield say


def facts_table(rows: Mapping[str, str] | Sequence[tuple[str, str]]) -> "Table":
    """A table of two columns: name and value."""
    from rich.markup import escape
    from rich.table import Table

    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows.items() if isinstance(rows, Mapping) else rows:
        table.add_row(escape(name), escape(value))
    return table


def plan_facts(plan: Mapping[str, Any]) -> dict[str, str]:
    """A planned run, for :func:`facts_table`."""
    from lrga.data.datasets.spec import dataset_specs
    from lrga.tasks import METRICS

    data, task, network, schedule = (plan[key] for key in ("data", "task", "model", "optimizer"))
    link, spec = plan.get("link"), dataset_specs().get(data["name"])
    counted = "edges" if link else "nodes" if spec is not None and spec.one_graph else "graphs"
    batched = counted if schedule["fanouts"] is None else "seed nodes"
    sizes = ", ".join(f"{split} {count:,}" for split, count in data["graphs"].items())
    attention = "plain" if network["rank"] is None else f"with LRGA of rank {network['rank']}"
    if link and network["rank"] is not None:
        reads_input = network["skip"] and not network["linear_layers"]
        attention += f", {'with' if reads_input else 'without'} skip connection"
    model = f"{network['conv']} {attention}, width {network['hidden_channels']}, {network['num_layers']} layers"
    model += ", residual blocks" if network.get("block") == "residual" else ""
    model += f", dropout {network['dropout']:g}" if network["dropout"] else ""
    if link:
        kind = f"link prediction, {task['negatives']} negatives, metric {task['metric']} at the best validation epoch"
        extra = {
            "predictor": f"{network['predictor']}, {network['predictor_layers']} linear maps",
            "validation edges": "used in the test" if link["validation_edges"] else "not used in the test",
        }
    else:
        kind = f"{task['level']} {task['kind']}, loss {task['loss']}, metric {METRICS[task['metric']].name}"
        renewed = f"BatchNorm, statistics re-estimated over {schedule['recalibrate_norm']} batches before evaluation"
        norm = {"batch": "BatchNorm", "layer": "LayerNorm", "rms": "RMSNorm"}[network["norm"]]
        norm = renewed if schedule["recalibrate_norm"] else norm if network["batch_norm"] else "none"
        extra = {"normalisation": norm}
    kind += f"; also logs {', '.join(task['log_metrics'])}" if task.get("log_metrics") else ""
    batches = f"{plan['batches_per_epoch']:,} per epoch, of {schedule['batch_size']:,} {batched}"
    return {
        "data": f"{data['name']}: {sizes} {counted}" + ("" if data["built"] else " (to be built first)"),
        "task": kind,
        "model": model,
        "parameters": f"{plan['parameters']:,}",
        "schedule": _schedule_words(schedule),
        "batches": "the whole graph in every step" if counted == batched == "nodes" else batches,
        "precision": schedule["precision"],
        **extra,
        "seed, device": f"{plan['seed']}, {plan['device']}",
    }


def _schedule_words(schedule: dict[str, Any]) -> str:
    more = "" if schedule["clip_gradient"] is None else f", gradients clipped at {schedule['clip_gradient']:g}"
    more += f", weight decay {schedule['weight_decay']:g}" if schedule["weight_decay"] else ""
    name = {"adam": "Adam", "adamw": "AdamW", "sgd": "SGD"}[schedule["optimizer"]]
    optimizer = f"{name}, lr {schedule['lr']:g}"
    if schedule["schedule"] == "plateau":
        return (
            f"{optimizer}, multiplied by {schedule['lr_factor']:g} after {schedule['patience']} epochs without a lower "
            f"validation loss; ends below {schedule['min_lr']:g} or after {schedule['max_epochs']} epochs{more}"
        )
    warmup = f", {schedule['warmup_epochs']:g} epochs of warm-up" if schedule["warmup_epochs"] else ""
    return f"{optimizer}, {schedule['schedule'].replace('_', ' ')}{warmup}, {schedule['max_epochs']} epochs{more}"
