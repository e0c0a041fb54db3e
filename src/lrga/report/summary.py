"""The summary at the top of the page: what was run, the best result, and the effect of LRGA."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from lrga.experiments.cell import model_label
from lrga.experiments.loading import Collection
from lrga.experiments.table import CONFIDENCE, Difference, Pair, Row, lrga_pairs

MAX_NAMES = 6


def best_rows(rows: Sequence[Row]) -> list[Row]:
    """The row with the best mean, for each data set and metric."""
    groups: dict[tuple[str, str], list[tuple[float, Row]]] = {}
    for row in rows:
        if (spread := row.spread()) is not None:
            sign = 1 if row.metric.higher_is_better else -1
            groups.setdefault((row.cell.labels["dataset"], row.metric.name), []).append((sign * spread.mean, row))
    return [max(group, key=lambda entry: entry[0])[1] for group in groups.values()]


def summary_of(found: Collection, rows: Sequence[Row]) -> dict[str, Any]:
    """The texts of the page's first section."""
    pairs = lrga_pairs(rows)
    configs = [run.config for run in found.runs]
    counts = {
        "finished": sum(run.finished for run in found.runs),
        "failed or diverged": len(found.failed),
        "unfinished": len(found.unfinished),
    }
    return {
        "status": ", ".join(f"{count:,} {word}" for word, count in counts.items() if count),
        "datasets": _some(config.data.name for config in configs),
        "networks": _some(model_label(config) for config in configs),
        "seeds": _some(str(seed) for seed in sorted({run.record.seed for run in found.runs})),
        "best": [_best(row) for row in best_rows(rows)],
        "pairs": [_pair(pair) for pair in pairs],
        "verdict": _verdict(pairs),
        "confidence": f"{CONFIDENCE * 100:.0f} %",
    }


def _best(row: Row) -> dict[str, str]:
    ours, decimals, published = row.spread(), row.metric.decimals, row.cell.published
    assert ours is not None
    return {
        **row.cell.labels,
        "metric": row.metric.name,
        "value": ours.text(decimals),
        "seeds": f"{ours.n} seed{'s' * (ours.n != 1)}",
        "published": "" if published is None else published.text(decimals),
    }


def _pair(pair: Pair) -> dict[str, Any]:
    decimals, difference = pair.augmented.metric.decimals, pair.difference
    plain, augmented = pair.plain.spread(), pair.augmented.spread()
    assert plain is not None
    assert augmented is not None
    return {
        **pair.augmented.cell.labels,
        "metric": pair.augmented.metric.name,
        "without": (plain.text(decimals), plain.mean),
        "with": (augmented.text(decimals), augmented.mean),
        "change": ("", None) if difference is None else (f"{difference.mean:+.{decimals}f}", difference.mean),
        "interval": ""
        if difference is None or difference.low is None
        else f"{difference.low:+.{decimals}f} to {difference.high:+.{decimals}f}",
        "n": 0 if difference is None else difference.n,
        "verdict": _word(difference),
    }


def _word(difference: Difference | None) -> str:
    if difference is None:
        return "no seed in common"
    return "one pair of seeds: no interval" if difference.n == 1 else difference.verdict


def _verdict(pairs: Sequence[Pair]) -> dict[str, str] | None:
    """A short text on the difference that LRGA makes; ``None`` if no pair of runs shares a seed."""
    found = [pair for pair in pairs if pair.difference is not None]
    if not found:
        return None
    if len(found) == 1:
        (pair,) = found
        assert pair.difference is not None
        metric, labels = pair.augmented.metric, pair.augmented.cell.labels
        return {
            "value": f"{pair.difference.mean:+.{metric.decimals}f}",
            "word": _word(pair.difference),
            "text": f"{metric.name}, {labels['model']} on {labels['dataset']}",
        }
    counts = Counter(pair.difference.verdict for pair in found if pair.difference is not None)
    several, single = len(found) - counts["one pair"], counts["one pair"]
    if not several:
        return {"value": f"{single} pairs", "word": "", "text": "of a single seed each: no interval"}
    text = f"pairs clearly better, {counts['worse']} clearly worse, {counts['no clear difference']} without a clear "
    text += "difference" + (f"; {single} more of a single seed" if single else "")
    return {"value": f"{counts['better']} of {several}", "word": "", "text": text}


def _some(values: Iterable[str]) -> str:
    different = list(dict.fromkeys(values))
    more = f" and {len(different) - MAX_NAMES} more" if len(different) > MAX_NAMES else ""
    return ", ".join(different[:MAX_NAMES]) + more
