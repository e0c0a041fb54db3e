"""``lrga compare``: the same network with and without LRGA."""

from typing import Any

import typer

from lrga.cli import options as o


@o.with_options(o.MODEL, o.PROTOCOL, o.DATA, o.RUN, o.CAMPAIGN, o.RARE, without=("lrga",))
def compare(context: typer.Context, name: o.Name, given: dict[str, Any]) -> None:
    """Train the same network with and without LRGA, and compare the results.

    Both networks have the same parameter budget; with --hidden, the same width.

    The difference is paired by seed and, with two or more seeds, has a 95 %
    confidence interval. The table also shows published numbers: the paper's, or
    those of --published. If interrupted, run the same command to resume.

    Exit codes: 0 all runs finished, 1 a run failed, 2 wrong usage, 3 runs remain
    (--time-limit or SIGUSR1, or in progress in another process), 128 + N stopped
    by signal N.

    Examples:
    [bold]lrga compare CLUSTER --sizes 1500,250,250 --recalibrate-norm 20[/]
    [bold]lrga compare ZINC --model gatedgcn --budget 500k --seeds 41 95 12 35[/]
    [bold]lrga compare CLUSTER --recipe modern --device cuda --seeds 41 95[/]
    [bold]lrga compare my_graphs/ --model gin --budget 50k[/]
    """
    from lrga.experiments.comparison import comparison
    from lrga.experiments.options import parse_seeds

    options = o.training_options(given, elsewhere=("model", "budget", "lrga"))
    study = comparison(
        name,
        options.pop("model", None),
        budget=options.pop("budget", None),
        seeds=parse_seeds(given["seeds"], context.args),
        data_options=o.data_options(given),
        reference=o.reference(given),
        **options,
    )
    o.carry_out(study, given)
