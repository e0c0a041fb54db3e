"""Writes the tables and figures of three documents from the records in reproduction/results/.

    python benchmarks/tables.py          # refresh the documents and draw the figures
    python benchmarks/tables.py --check  # exit code 1 if a document differs from the records

In the documents every table or figure is between two comments, ``<!-- table: NAME -->`` and ``<!-- end -->``; the text
between them is replaced. Below a figure is a checksum of the numbers that it shows.
"""

import argparse
import hashlib
import json
import math
import re
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from lrga.explain.style import COLOURS, save_figure
from lrga.speed.record import problem_of

ROOT = Path(__file__).resolve().parents[1]
RECORDS = ROOT / "reproduction" / "results"
IMAGES = ROOT / "docs" / "images"
DOCUMENTS = (
    ROOT / "README.md",
    *(ROOT / "docs" / "results" / f"{name}.md" for name in ("performance", "scale")),
)
BLOCK = re.compile(r"(<!-- table: (?P<name>[\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
QUIET = 0.5  # load average of the minute before a benchmark started
COMMAND = "python benchmarks/gpu.py --out reproduction/results/speed/gpu-h200.json"


def markdown(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table with text in the first column and numbers in the others."""
    line = "|".join(["---", *["---:"] * (len(headings) - 1)])
    return "\n".join(f"| {' | '.join(row)} |" if row is not None else f"|{line}|" for row in [headings, None, *rows])


def number(value: float | None, digits: int = 3) -> str:
    """A number with some significant digits; ``–`` for ``None``."""
    if value is None:
        return "–"
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.{digits}g}" if value < 1 else f"{value:.2f}"


def read(name: str, folder: Path) -> dict[str, Any] | None:
    """A record, in the form of lrga.speed.record; or ``None``."""
    path = folder / "speed" / f"{name}.json"
    if not path.is_file():
        return None
    record = json.loads(path.read_text(encoding="utf-8"))
    if (problem := problem_of(record)) is not None:
        raise SystemExit(f"{path} is not a valid benchmark record: {problem}")
    if name == "gpu-h200" and (steps := read("gpu-steps-h200", folder)) is not None:  # of another run
        return {**record, "rows": [*record["rows"], *steps["rows"]], "steps": steps}
    return record


def method_name(row: Mapping[str, Any]) -> str:
    return f"{row['case'].removeprefix('step ')}: {row['method']}" if row["case"].startswith("step") else row["method"]


def gpu_rows(record: Mapping[str, Any], cases: Callable[[str], bool], first: str) -> str:
    headings = [first, "precision", "launch", "fwd + bwd ms", "floor ms", "workspace MB", "times faster"]
    rows = [
        [
            method_name(row),
            row["precision"],
            row["launch"],
            number(row["both_ms"]),
            number(row["floor_ms"]),
            "–" if row.get("workspace_mb") is None else f"{row['workspace_mb']:.0f}",
            number(row.get("ratio")),
        ]
        for row in record["rows"]
        if cases(row["case"]) and row["precision"] != "float32"
    ]
    return markdown(headings, rows) if rows else "This case is not in the record."


def gpu_short(record: Mapping[str, Any]) -> str:
    """Our times and those of the named baselines, eager and replayed, for the README."""
    launches = [f"{name}, {launch}" for name in ("baseline", "lrga") for launch in ("eager", "replayed")]
    headings = ["", "baseline", *launches, "times faster"]
    cases = [
        ["training step on PATTERN, LRGA + GCN", "plain PyTorch and PyG", "step LRGA + GCN", "PyG"],
        ["training step on PATTERN, LRGA + GatedGCN", "plain PyTorch and PyG", "step LRGA + GatedGCN", "PyG"],
        ["attention, 128 graphs, 14,384 nodes in total", "padded LRGA", "small", "padded LRGA"],
        ["attention, one graph, 576,289 nodes", "authors' arithmetic", "large", "authors' arithmetic"],
        ["attention, one graph, 576,289 nodes", "PyG SGFormer", "large", "PyG SGFormer"],
    ]
    rows = []
    for what, beside, case, method in cases:
        times = times_of(record, case)
        theirs, ours = ([times.get((name, launch)) for launch in ("eager", "replay")] for name in (method, "lrga"))
        faster = [f"{theirs[0] / ours[i]:.1f}× {name}" for i, name in enumerate(("eager", "replayed")) if ours[i]]
        rows.append([what, beside, *map(number, (*theirs, *ours)), ", ".join(faster)])
    facts = (
        f"{record['device']}, TF32, forward + backward in ms (`benchmarks/gpu.py`, which checks values first). "
        "*Eager*: ordinary PyTorch execution. *Replayed*: a captured CUDA graph, as in `lrga train`. –: not measured. "
        f"*Times faster*: eager time of the baseline divided by the time of lrga.\n{conditions(record)}"
    )
    if "steps" in record:
        facts += f" Training steps: {conditions(record['steps']).removeprefix('Record: ')}"
    return f"{facts}\n\n{markdown(headings, rows)}"


def gpu_steps(record: Mapping[str, Any]) -> str:
    table = gpu_rows(record, lambda case: case.startswith("step "), "a training step")
    return f"{conditions(record['steps'])}\n\n{table}" if "steps" in record else table


def times_of(record: Mapping[str, Any], case: str) -> dict[tuple[str, str], float]:
    """Method and launch → forward + backward in ms, of one case in TF32."""
    rows = [row for row in record["rows"] if row["case"] == case and row["precision"] == "tf32"]
    return {(row["method"], row["launch"]): row["both_ms"] for row in rows}


def speed_points(record: Mapping[str, Any]) -> dict[str, Any]:
    """The numbers of the figure of the performance page: times with baseline, and growth with the nodes."""
    cases = {
        "training step\nLRGA + GCN": ("step LRGA + GCN", "PyG"),
        "training step\nLRGA + GatedGCN": ("step LRGA + GatedGCN", "PyG"),
        "attention\n128 graphs": ("small", "padded LRGA"),
        "attention\none large graph": ("large", "authors' arithmetic"),
    }
    shown = {}
    for name, (case, method) in cases.items():
        times = times_of(record, case)
        shown[name] = [times.get(key) for key in ((method, "eager"), ("lrga", "eager"), ("lrga", "replay"))]
    rows = [row for row in record["rows"] if row["case"] == "linear"]
    growth = {
        launch: [(row["nodes"], row["both_ms"]) for row in rows if row["launch"] == launch]
        for launch in ("eager", "replay")
    }
    return {"times": shown, "growth": growth}


def draw_speed(points: Mapping[str, Any], figure: Any) -> None:
    dots, growth = figure.subplots(1, 2, width_ratios=(3, 2))
    styles = (("baseline, eager", "#999999"), ("lrga, eager", "#9ecae1"), ("lrga, replayed", COLOURS[0]))
    for number, (label, colour) in enumerate(styles):
        found = [(i + 0.2 * (number - 1), times[number]) for i, times in enumerate(points["times"].values())]
        heights, found_ms = zip(*((height, ms) for height, ms in found if ms is not None), strict=True)
        dots.scatter(found_ms, heights, s=60, color=colour, label=label)
    dots.set_yticks(range(len(points["times"])), list(points["times"]))
    dots.invert_yaxis()
    dots.set(xscale="log", xlabel="forward + backward, ms (lower is better)")
    dots.legend()
    for values, (label, colour) in zip(points["growth"].values(), styles[1:], strict=True):
        growth.plot(*zip(*values, strict=True), marker="o", color=colour, label=f"{label}, one graph")
    growth.set(xscale="log", yscale="log", xlabel="nodes", ylabel="ms")
    growth.legend()


def scale_points(record: Mapping[str, Any]) -> dict[str, Any]:
    """The numbers of the figure of the scale page: method → nodes, seconds, MB."""
    found: dict[str, list[tuple[int, float, float]]] = {}
    for row in record["rows"]:
        if "seconds" in row:
            found.setdefault(row["method"], []).append((row["nodes"], row["seconds"], row["peak_bytes"] / 2**20))
    return found


def draw_scale(points: Mapping[str, Any], figure: Any) -> None:
    for ax, column, label in zip(figure.subplots(1, 2), (1, 2), ("seconds per step", "memory, MB"), strict=True):
        for (method, values), colour in zip(points.items(), COLOURS, strict=False):
            ax.plot([v[0] for v in values], [v[column] for v in values], marker="o", color=colour, label=method)
        ax.set(xscale="log", yscale="log", xlabel="nodes", ylabel=label)
    ax.legend()


def of_figure(name: str) -> Callable[[Path], str]:
    """The link to a figure, with a checksum of the numbers that it shows."""

    def link(folder: Path) -> str:
        source, points, _, text = FIGURES[name]
        record = read(source, folder)
        if record is None:
            return "No record yet."
        digest = hashlib.sha256(json.dumps(points(record)).encode()).hexdigest()[:16]
        return f"![{text}](../images/{name}.svg)\n\n<!-- drawn from numbers of sha256 {digest} -->"

    return link


def conditions(record: Mapping[str, Any]) -> str:
    """Commit, date and load of a record, if known."""
    known = {"commit": record["commit"], "date": (record["date"] or "")[:10], "load": _load(record)}
    parts = [f"{name} {value}" for name, value in known.items() if value]
    parts += ["nothing else running"] * is_quiet(record)
    missing = [name for name, value in known.items() if not value]
    sentences = {"Record": parts, "Not recorded": missing}
    return " ".join(f"{name}: {', '.join(values)}." for name, values in sentences.items() if values)


def _load(record: Mapping[str, Any]) -> str:
    load = record["load"] or {"average": None, "gpu": None}
    said = "" if load["average"] is None else f"average {load['average']:.2f}"
    if load["gpu"] is not None:
        said += f", GPU load {load['gpu']['utilization_percent']} %, other GPU processes: {load['gpu']['processes']}"
    return said.removeprefix(", ")


def is_quiet(record: Mapping[str, Any]) -> bool:
    """Whether the record shows that nothing else was running at its start."""
    load = record["load"]
    if load is None or load["cores"] is None or load["average"] is None or load["average"] >= QUIET:
        return False
    return load["gpu"] is None or (load["gpu"]["processes"] == 0 and load["gpu"]["utilization_percent"] <= 5)


def gpu_facts(record: Mapping[str, Any]) -> str:
    known = record["settings"]
    memory, cache = (known[f"copy through {name}, TB/s"] for name in ("memory", "cache"))
    lines = [
        f"{record['device']}, torch {record['torch']}, Triton {known['triton']}, PyG {known['torch_geometric']}. "
        f"Measured copy bandwidth: {memory:.2f} TB/s (memory), {cache:.1f} TB/s (cache)."
    ]
    if "three products, ms" in known:
        products = {name: value for name, value in known.items() if name.endswith(", TFLOP/s")}
        speeds = ", ".join(f"{name.removesuffix(', TFLOP/s')} {value:.0f}" for name, value in products.items())
        lines.append(
            f"cuBLAS products in TF32 with the shapes of the large graph, in TFLOP/s: {speeds}. Together they take "
            f"{known['three products, ms']:.2f} ms."
        )
    return "\n".join([*lines, conditions(record)])


def eager_table(folder: Path) -> str:
    """Times of an ordinary training loop, compared with an earlier version."""
    record = read("eager-h200", folder)
    if record is None:
        return "No record yet: `python benchmarks/eager.py --baseline SRC` makes it."
    rows = [
        [row["case"], *map(number, (row["ms"], row["baseline_ms"], row["ratio"]))]
        for row in record["rows"]
        if row["launch"] == "eager" and not (row["case"].startswith("4 x") or "forward only" in row["case"])
    ]
    before = record["rows"][0]["baseline"].removeprefix("commit ")[:7]
    return f"{conditions(record)}\n\n" + markdown(["eager, TF32", "ms", f"commit {before}, ms", "times faster"], rows)


def cells_table(folder: Path) -> str:
    """A step of every network of Table 3, in both loops."""
    record = read("cells-h200", folder)
    if record is None:
        return "No record yet."
    rows = [
        [row["case"], f"{row['width']} × {row['layers']}", str(row["batch_size"])]
        + [number(row[key]) for key in ("ms", "baseline_ms", "ratio", "epoch_seconds")]
        for row in record["rows"]
    ]
    facts = f"{record['device']}, torch {record['torch']}, PATTERN at {record['settings']['budget'].upper()}, TF32. "
    facts += conditions(record) + _beside_before(folder, record["commit"]) + "\n\n"
    headings = ["", "width × layers", "batch", "captured, ms", "plain, ms", "times faster", "s / epoch"]
    return facts + markdown(headings, rows)


def _beside_before(folder: Path, commit_of_table: str) -> str:
    """How captured steps compare with those of version 0.1."""
    record = read("cells-before-h200", folder)
    if record is None:
        return ""
    commit = record["rows"][0]["baseline"].removeprefix("commit ")[:7]
    run = "the same run" if record["commit"] == commit_of_table else f"another run, of commit {record['commit'][:7]}"
    times = ", ".join(f"{row['case']} {number(row['baseline_ms'])} ({1 / row['ratio']:.2f})" for row in record["rows"])
    return (
        f"\n\nA captured step of version 0.1 (commit {commit}) in {run}, in ms, and in brackets how many times as long "
        f"the step takes now: {times}."
    )


def attention_table(folder: Path) -> str:
    """The attention compared with others on a CPU."""
    record = read("attention-cpu", folder)
    if record is None:
        return "No record yet."
    rows = [
        [f"{r['case']}: {r['method']}", *map(number, (r["forward_ms"], r["both_ms"], r["mb"], 1 / r["ratio"]))]
        for r in record["rows"]
        if "skipped" not in r
    ]
    shape = record["settings"]
    facts = f"{record['device']}, torch {record['torch']}, width {shape['width']}, rank {shape['rank']}. "
    facts += f"{conditions(record)}\n\n"
    return facts + markdown(["", "forward ms", "fwd + bwd ms", "memory MB", "time / ours"], rows)


def training_table(folder: Path) -> str:
    record = read("training-cpu", folder)
    if record is None:
        return "No record yet."
    rows = [
        [r["case"], number(r["ms"]), number(r["baseline_ms"]), f"{r['ratio']:.2f}"] for r in record["rows"]
    ]  # fmt: skip
    known = record["settings"]
    facts = (
        f"{record['device']}, {known['threads']} threads, batch {known['batch_size']}, "
        f"{known['layers']} layers of width {known['width']}. {conditions(record)}\n\n"
    )
    return facts + markdown(["", "ours, ms", "PyG, ms", "times faster"], rows)


def slope(record: Mapping[str, Any], method: str, key: str, least: int) -> float | None:
    """The exponent of growth with the nodes, from ``least`` nodes on; ``None`` for fewer than two sizes."""
    rows = [row for row in record["rows"] if row["method"] == method and key in row and row["nodes"] >= least]
    points = [(math.log(row["nodes"]), math.log(row[key])) for row in rows]
    return statistics.linear_regression(*zip(*points, strict=True)).slope if len(points) > 1 else None


def scale_table(name: str, command: str) -> Callable[[Path], str]:
    """How a training step grows with the graph (benchmarks/scale.py)."""

    def table(folder: Path) -> str:
        record = read(name, folder)
        if record is None:
            return f"No record yet: `{command}` makes it."
        sizes = sorted({row["nodes"] for row in record["rows"]})
        found = {(row["nodes"], row["method"]): row for row in record["rows"]}
        methods = list(dict.fromkeys(row["method"] for row in record["rows"]))
        rows = []
        for size in sizes:
            here = [found.get((size, method), {}) for method in methods]
            times = [number(1e3 * row["seconds"]) if "seconds" in row else "–" for row in here]
            memory = [number(row["peak_bytes"] / 2**20) if "peak_bytes" in row else "–" for row in here]
            share = found.get((size, "LRGA + GCN"), {}).get("attention_share")
            rows.append([f"{size:,}", *times, *memory, "–" if share is None else f"{share:.0%}"])
        headings = ["nodes", *(f"{m}, ms" for m in methods), *(f"{m}, MB" for m in methods), "LRGA's share"]
        least = 1_000_000 if sizes[-1] >= 10_000_000 else 100_000  # below, a GPU waits for its launches
        growth = [
            f"{method} {slope(record, method, 'seconds', least):.2f} (memory "
            f"{slope(record, method, 'peak_bytes', least):.2f})"
            for method in methods
            if slope(record, method, "seconds", least) is not None
        ]
        known = record["settings"]
        facts = f"{record['device']}, torch {record['torch']}, {known['layers']} layers of width "
        facts += f"{known['width']}, rank {known['rank']}, {known['edges_per_node']} edges per node"
        facts += f", TF32 {'on' if record['precision'] == 'tf32' else 'off'}. {conditions(record)}"
        exponents = f"Exponents of growth from {least:,} nodes on: {', '.join(growth)}."
        return f"{facts}\n\n{markdown(headings, rows)}\n\n{exponents}"

    return table


def pipeline_table(folder: Path) -> str:
    found = [record for place in ("cpu", "h200") if (record := read(f"ogb-pipeline-{place}", folder)) is not None]
    if not found:
        command = "python benchmarks/ogb_pipeline.py --out reproduction/results/speed/ogb-pipeline-h200.json"
        return f"No record yet: `{command}` makes it."
    return "\n\n".join(_pipeline(record) for record in found)


def _pipeline(record: dict[str, Any]) -> str:
    known = record["settings"]
    rows = [
        [
            f"`{row['case']}`" if row["case"].startswith("lrga") else f"{row['case']} (epochs: {known['epochs']})",
            number(row["seconds"]),
            *(gibibytes(row, key) for key in ("peak_bytes", "gpu_peak_bytes")),
        ]
        for row in record["rows"]
    ]
    facts = f"{record['device']}, torch {record['torch']}: {known['nodes']:,} nodes, {known['directed_edges']:,} "
    facts += f"directed edges, LRGA + GCN of {known['parameters']:,} parameters"
    for name, value in known.items():
        if name.startswith("--"):
            facts += f", `{name}`" if value is True else f", `{name} {value}`"
    return f"{facts}. {conditions(record)}\n\n" + markdown(["", "seconds", "memory, GiB", "GPU memory, GiB"], rows)


def gibibytes(row: Mapping[str, Any], key: str) -> str:
    return "–" if row.get(key) is None else number(row[key] / 2**30)


def of_gpu(make: Callable[[Mapping[str, Any]], str]) -> Callable[[Path], str]:
    """A table of the record of benchmarks/gpu.py."""

    def table(folder: Path) -> str:
        record = read("gpu-h200", folder)
        return f"No record yet: `{COMMAND}` makes it." if record is None else make(record)

    return table


# Name of the file → record, its numbers, how they are drawn, alternative text.
FIGURES: dict[str, tuple[str, Callable[..., Any], Callable[..., None], str]] = {
    "speed": ("gpu-h200", speed_points, draw_speed, "Times of lrga and of the baselines, and growth with the nodes"),
    "scale": ("scale-h200", scale_points, draw_scale, "Time and memory of a training step over the number of nodes"),
}
TABLES: dict[str, Callable[[Path], str]] = {
    **{f"figure-{name}": of_figure(name) for name in FIGURES},
    "gpu-short": of_gpu(gpu_short),
    "gpu-facts": of_gpu(gpu_facts),
    "gpu-large": of_gpu(lambda r: gpu_rows(r, lambda case: case == "large", "one graph of 576,289 nodes")),
    "gpu-small": of_gpu(lambda r: gpu_rows(r, lambda case: case == "small", "128 graphs, 14,384 nodes")),
    "gpu-steps": of_gpu(gpu_steps),
    "eager": eager_table,
    "gpu-cells": cells_table,
    "attention-cpu": attention_table,
    "training-cpu": training_table,
    "scale-cpu": scale_table("scale-cpu", "python benchmarks/scale.py --out reproduction/results/speed/scale-cpu.json"),
    "scale-h200": scale_table(
        "scale-h200",
        "python benchmarks/scale.py --device cuda --max-nodes 10000000 "
        "--out reproduction/results/speed/scale-h200.json",
    ),
    "ppa": pipeline_table,
}


def refreshed(text: str, folder: Path = RECORDS) -> str:
    """The document with its tables generated again; an unknown name is an error."""

    def table(match: re.Match[str]) -> str:
        if match["name"] not in TABLES:
            raise SystemExit(f"expected one of the tables {', '.join(TABLES)}, got {match['name']!r}")
        return f"{match[1]}\n{TABLES[match['name']](folder)}\n\n{match[3]}"

    return BLOCK.sub(table, text)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing; exit code 1 if a document would change")
    options = parser.parse_args(arguments)
    for name, (source, points, draw, _) in FIGURES.items():
        record = read(source, RECORDS)
        if record is not None and not options.check:
            save_figure(IMAGES / f"{name}.svg", partial(draw, points(record)), width=9.0, height=3.6)
    for document in DOCUMENTS:
        before = document.read_text(encoding="utf-8")
        after = refreshed(before)
        if options.check and before != after:
            sys.exit(f"{document.name} differs from the records: run benchmarks/tables.py")
        if not options.check:
            document.write_text(after, encoding="utf-8")
            print(f"{document.name} " + ("is unchanged" if before == after else "was updated"), file=sys.stderr)


if __name__ == "__main__":
    main()
