"""Writes the generated parts of pages (``make reproduction-docs``); ``--check`` only reports differences.

A part between ``<!-- begin COMMAND -->`` and ``<!-- end -->`` holds the output of that command.
A word before the command selects another layout of its JSON table: ``grid`` has one column per data set,
``best`` compares our networks with the best published ones, ``pairs`` plots each network without and with LRGA,
``variants`` plots and lists each network with each variant. A figure is followed by checksums of its sources and of
its file. The tables are also written as CSV next to the pages.
"""

import hashlib
import io
import json
import os
import re
import shlex
import sys
import tempfile
from contextlib import chdir, redirect_stdout
from pathlib import Path
from typing import Any

from lrga.cli.main import app
from lrga.errors import DataError
from lrga.experiments.loading import load_runs
from lrga.explain.style import COLOURS, MARKERS, colour, save_figure
from reproduction.past_the_paper import BEST_PUBLISHED

ROOT = Path(__file__).resolve().parent.parent
PAST = ROOT / "reproduction" / "results" / "past"
PAGES = (
    *(f"docs/results/{name}.md" for name in ("index", "where-it-differs", "ablations")),
    "docs/how-to/choosing-the-rank.md",
    "docs/reference/data-sets.md",
    "README.md",
)
CSV = {
    f"docs/tables/{name}.csv": ["reproduce", "table", *options.split(), "reproduction/results", "--format", "csv"]
    for name, options in {
        "table1": "table1",
        "table1-2022": "table1 --preset 2022",
        "table2": "table2",
        "table3": "table3",
        "table3-2022": "table3 --preset 2022",
        "table3-own-features": "table3 --plain",
        "rank-2022": "rank --preset 2022",
        "ablation": "ablation",
        "past": "reproduction/past_the_paper.py",
    }.items()
}
_PART = re.compile(
    r"(<!-- begin (?P<form>grid |best |pairs |variants )?(?P<command>lrga [^\n]*?) -->\n)"
    r"(?P<content>.*?)(<!-- end -->)",
    re.DOTALL,
)


def refreshed(text: str, page: Path, *, draw: bool) -> str:
    """The page with every part generated again; figures are written only with ``draw``."""

    def part(found: re.Match[str]) -> str:
        command = shlex.split(found["command"])[1:]
        if found["form"] == "grid ":
            content = grid(json.loads(printed(command))["rows"])
        elif found["form"] == "best ":
            content = best(json.loads(printed(command))["rows"])
        elif found["form"] == "pairs ":
            content = pairs(command, page, draw=draw)
        elif found["form"] == "variants ":
            content = variants(command, page, draw=draw)
        else:
            content = picture(command, page, draw=draw) if command[0] == "plot" else printed(command)
        return f"{found[1]}\n{content.strip()}\n\n{found[5]}"

    return _PART.sub(part, text)


def printed(command: list[str]) -> str:
    """The output of an lrga command."""
    out = io.StringIO()
    with chdir(ROOT), redirect_stdout(out):
        app(command, standalone_mode=False)
    return out.getvalue()


def picture(command: list[str], page: Path, *, draw: bool) -> str:
    """A link to the figure of ``lrga plot KIND FOLDERS -o FILE``; if there are too few runs, the reason."""
    place = command.index("-o")
    folders, target = command[2:place], ROOT / command[place + 1]
    with chdir(ROOT), tempfile.TemporaryDirectory() as temporary:
        landed = load_runs(folders)
        drawn = target if draw else Path(temporary) / target.name
        try:
            printed([*command[:place], "-o", str(drawn), *command[place + 2 :]])
        except DataError as error:
            return f"No figure yet: it needs {error.expected}."
    digest = hashlib.sha256()
    for path in sorted(entry.place for entry in landed):
        digest.update((ROOT / path).read_bytes())
    return linked(command[1], target, page, f"{len(landed)} records, sha256 {digest.hexdigest()[:16]}")


def linked(name: str, target: Path, page: Path, source: str) -> str:
    """The figure in Markdown, with its sources and the checksum of its file."""
    own = hashlib.sha256(target.read_bytes()).hexdigest() if target.is_file() else "missing"
    link = Path(os.path.relpath(target, page.parent)).as_posix()
    return f"![{name}]({link})\n\n<!-- drawn from {source}, into a file of sha256 {own[:16]} -->"


def grid(rows: list[dict[str, Any]]) -> str:
    """Networks as rows, data sets as columns, cells as :func:`cell` prints them; below, how many cells are close."""
    datasets = list(dict.fromkeys(row["dataset"] for row in rows))
    networks = list(dict.fromkeys((row["budget"], row["labels"]["model"]) for row in rows))
    networks.sort(key=lambda network: network[0])  # 100K before 500K, otherwise in the order of the table
    cells = {(row["budget"], row["labels"]["model"], row["dataset"]): cell(row) for row in rows}
    lines = [f"| | {' | '.join(datasets)} |", f"|---|{'---:|' * len(datasets)}"]
    for budget, model in networks:
        found = (cells.get((budget, model, dataset), "") for dataset in datasets)
        lines.append(f"| {model}, {budget} | {' | '.join(found)} |")
    near, better, worse = (
        sum(f'class="{kind}"' in text for text in cells.values()) for kind in ("near", "better", "worse")
    )
    compared = f"{near} of {near + better + worse} cells are within two pooled standard errors of the paper"
    return "\n".join([*lines, "", f"{compared}, {better} are better and {worse} worse."])


def cell(row: dict[str, Any]) -> str:
    """Our mean, the number of seeds, and the published mean; the class of the span sets the colour."""
    published = row["published"]
    digits = 3 if published["mean"] < 1 else 2
    theirs = f"{published['mean']:.{digits}f}"
    if row["mean"] is None:
        return f'<span class="missing">– ({theirs})</span>'
    distance = row["standard_errors"]
    better = (row["difference"] > 0) != ("MAE" in row["metric"])
    kind = "near" if abs(distance) <= 2 else "better" if better else "worse"
    sign = {"near": "", "better": " ▲", "worse": " ▼"}[kind]
    return f'<span class="{kind}">{row["mean"]:.{digits}f}{sign}</span> ({theirs})'


def best(rows: list[dict[str, Any]]) -> str:
    """One row per data set with finished runs: published numbers, then ours without and with LRGA."""
    names = ("data set", "network", "paper's best", "best published", "without LRGA", "with LRGA", "LRGA",
             "parameters", "epochs", "minutes")  # fmt: skip
    lines = [f"| {' | '.join(names)} |", f"|---|---|{'---:|' * 4}---|{'---:|' * 3}"]
    waiting = []
    for dataset in dict.fromkeys(row["dataset"] for row in rows):
        plain, augmented = sorted((row for row in rows if row["dataset"] == dataset), key=lambda row: row["lrga"])
        if plain["mean"] is None and augmented["mean"] is None:
            waiting.append(dataset)
            continue
        digits = 3 if (plain["mean"] or augmented["mean"]) < 1 else 2
        published = plain["published"]
        value, source, seen = BEST_PUBLISHED.get(dataset, (None, "", True))
        lines.append(
            f"| {dataset}, {plain['metric']} | {plain['model']} "
            f"| {'–' if published is None else format(published['mean'], f'.{digits}f')} "
            f"| {'–' if value is None else f'{value:.{digits}f} ({source})'}{'' if seen else ' †'} "
            f"| {' | '.join(_spread(row, digits) for row in (plain, augmented))} | {_verdict(augmented, digits)} "
            f"| {' | '.join(_both(plain, augmented, key) for key in ('parameters', 'epochs', 'seconds'))} |"
        )
    if waiting:
        lines += ["", f"Not run yet: {', '.join(waiting)}."]
    return "\n".join(lines)


def _spread(row: dict[str, Any], digits: int) -> str:
    if row["mean"] is None:
        return "not run yet"
    spread = "" if row["std"] is None else f" ± {row['std']:.{digits}f} (n = {row['n']})"
    return f"{row['mean']:.{digits}f}{spread}"


def _verdict(augmented: dict[str, Any], digits: int) -> str:
    """What LRGA changes, by the paired difference over seeds; for one seed the difference itself."""
    found = augmented["lrga_difference"]
    if found is None:
        return "–"
    return f"{found['mean']:+.{digits}f}, one seed" if found["n"] == 1 else str(found["verdict"])


def _both(plain: dict[str, Any], augmented: dict[str, Any], key: str) -> str:
    """A number of both networks; seconds as minutes, with "CPU" if they were trained on one."""
    found = [row[key] for row in (plain, augmented)]
    if key == "seconds":
        marks = (" CPU" * _on_cpu(row) for row in (plain, augmented))
        return " / ".join(
            "–" if value is None else f"{value / 60:.1f}{mark}" for value, mark in zip(found, marks, strict=True)
        )
    return " / ".join(dict.fromkeys("–" if value is None else f"{value:,.0f}" for value in found))


def _on_cpu(row: dict[str, Any]) -> bool:
    """Whether a finished run of the row was trained on a CPU, by its record."""
    names = [run["run"] for run in row.get("runs", ()) if run["status"] == "finished"]
    records = (json.loads((PAST / f"{name}.json").read_text(encoding="utf-8")) for name in names)
    return any(record["environment"][-1]["device"] == "cpu" for record in records)


def pairs(command: list[str], page: Path, *, draw: bool) -> str:
    """A figure of all networks with runs without and with LRGA, one panel per data set."""
    place = command.index("-o")
    target = ROOT / command[place + 1]
    rows = [row for row in json.loads(printed(command[:place]))["rows"] if row["mean"] is not None]
    found: dict[str, list[tuple[str, float, float]]] = {}
    for row in rows:
        for other in rows:
            if row["lrga"] or not other["lrga"] or row["model"] != other["model"]:
                continue
            if (row["dataset"], row["budget"]) == (other["dataset"], other["budget"]):
                panel = found.setdefault(f"{row['dataset']}, {row['metric']}", [])
                panel.append((f"{row['model']}, {row['budget']}", row["mean"], other["mean"]))

    names = list(dict.fromkeys(network for panel in found.values() for network, _, _ in panel))

    def fill(figure: Any) -> None:
        axes = figure.subplots(-(-len(found) // 3), 3, sharey=True, squeeze=False).ravel()
        for ax in axes[len(found) :]:
            ax.axis("off")
        for ax, (name, networks) in zip(axes, found.items(), strict=False):
            for network, without, with_lrga in networks:
                height = names.index(network)
                ax.plot([without, with_lrga], [height, height], color="#bbbbbb", linewidth=2.5, zorder=1)
                ax.scatter([without], [height], color="#777777", zorder=2, label="without LRGA")
                ax.scatter([with_lrga], [height], color=COLOURS[0], zorder=3, label="with LRGA")
            ax.set_yticks(range(len(names)), names)
            ax.set_ylim(len(names) - 0.5, -0.5)
            ax.locator_params(axis="x", nbins=5)
            dataset, metric = name.split(", ", maxsplit=1)
            ax.set_title(dataset)
            ax.set_xlabel(f"{metric}{' (lower is better)' if 'MAE' in metric else ''}")
        handles, labels = axes[0].get_legend_handles_labels()
        figure.legend(handles[:2], labels[:2], loc="outside upper center", ncols=2)

    if draw:
        save_figure(target, fill, width=9.0, height=0.4 + -(-len(found) // 3) * (0.8 + 0.26 * len(names)))
    digest = hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()
    return linked("Results without and with LRGA", target, page, f"{len(rows)} cells, sha256 {digest[:16]}")


def variants(command: list[str], page: Path, *, draw: bool) -> str:
    """A figure with one panel per data set, one line per network and one colour per variant; below it, a table."""
    place = command.index("-o")
    target = ROOT / command[place + 1]
    table = json.loads(printed(command[:place]))
    lines = ["| data set | network | variant | test | n | best epoch | train |", "|---|---|---|---:|---:|---:|---:|"]
    panels: dict[str, list[tuple[str, str, float, float]]] = {}
    for row in (row for row in table["rows"] if row["mean"] is not None):
        labels, digits = row["labels"], 3 if row["mean"] < 1 else 2
        network, best_epoch = (
            f"{labels['model']}, {labels.get('budget', '')}".rstrip(", "),
            row["best_validation_epoch"],
        )
        found = {labels.get("variant", "last epoch"): row}
        if "variant" not in labels:
            found["epoch of the best validation result"] = best_epoch
        points = panels.setdefault(f"{row['dataset']}: {row['metric']}", [])
        points += [(network, variant, one["mean"], one["std"] or 0.0) for variant, one in found.items()]
        spread = "" if row["std"] is None else f" ± {row['std']:.{digits}f}"
        values = f"{row['mean']:.{digits}f}{spread} | {row['n']} | {best_epoch['mean']:.{digits}f}"
        first = f"| {row['dataset']} | {network} | {labels.get('variant', 'last epoch')} "
        lines.append(f"{first}| {values} | {row['train']:.{digits}f} |")
    names = list(dict.fromkeys(variant for points in panels.values() for _, variant, _, _ in points))
    networks = {panel: list(dict.fromkeys(point[0] for point in points)) for panel, points in panels.items()}

    def fill(figure: Any) -> None:
        heights = [len(lines) + 1.5 for lines in networks.values()]
        axes = figure.subplots(len(panels), 1, squeeze=False, height_ratios=heights)[:, 0]
        seen = {}
        for ax, (panel, points) in zip(axes, panels.items(), strict=True):
            for network, variant, mean, std in points:
                height, number = networks[panel].index(network), names.index(variant)
                style = {"color": colour(number), "marker": MARKERS[number % len(MARKERS)], "linestyle": "none"}
                seen[variant] = ax.errorbar(mean, height, xerr=std, **style)
            ax.set_yticks(range(len(networks[panel])), networks[panel])
            ax.set_ylim(len(networks[panel]) - 0.5, -0.5)
            ax.set_title(f"{panel}{', lower is better' if 'MAE' in panel else ''}")
        handles = [seen[name] for name in names]
        figure.legend(handles, names, loc="outside upper center", ncols=min(3, len(names)))

    if draw:
        height = 0.5 + 0.2 * -(-len(names) // 3) + sum(0.65 + 0.24 * len(found) for found in networks.values())
        save_figure(target, fill, width=7.5, height=height)
    source = hashlib.sha256(json.dumps(panels).encode()).hexdigest()
    figure = linked(table["title"], target, page, f"{len(lines) - 2} cells, sha256 {source[:16]}")
    return "\n".join([figure, "", "<details markdown>", "<summary>Table</summary>", "", *lines, "", "</details>"])


def contents(*, draw: bool) -> dict[Path, str]:
    """Every generated page and table with its expected content."""
    made = {ROOT / name: refreshed((ROOT / name).read_text("utf-8"), ROOT / name, draw=draw) for name in PAGES}
    return made | {ROOT / name: printed(command) for name, command in CSV.items()}


def main(arguments: list[str]) -> int:
    """Returns exit code 1 if a page differs and ``--check`` is given."""
    check, differs = "--check" in arguments, False
    for path, new in contents(draw=not check).items():
        if not path.is_file() or path.read_text(encoding="utf-8") != new:
            differs, name = True, path.relative_to(ROOT)
            print(f"{name}: {'differs from the records; run make reproduction-docs' if check else 'written'}")
            if not check:
                path.parent.mkdir(exist_ok=True)
                path.write_text(new, encoding="utf-8")
    return int(check and differs)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
