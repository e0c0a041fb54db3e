"""Copies weights of finished runs to ``pretrained/``, where ``lrga.load_pretrained`` finds them by name.

    python reproduction/keep_weights.py RUN_FOLDER …

Each run must have its record under ``reproduction/results/table1``. It writes the weights that the record reports
(those of the last epoch, by the paper's protocol), the arguments of the network, and the result
from the record. The files contain nothing of a data set.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import lrga

ROOT = Path(__file__).resolve().parents[1]
RECORDS, PRETRAINED = ROOT / "reproduction" / "results" / "table1", ROOT / "pretrained"
MAX_BYTES = 2_500_000


def keep(folder: Path) -> Path:
    """Saves the network of a run into ``pretrained/`` and returns its folder."""
    path = RECORDS / f"{folder.name}.json"
    if not path.is_file():
        raise SystemExit(f"expected the record {path.relative_to(ROOT)} of a finished run; land it first")
    record = json.loads(path.read_text(encoding="utf-8"))
    name = folder.name.split("-seed")[0]
    facts = {
        "run": folder.name,
        "dataset": record["data"]["name"],
        "seed": record["seed"],
        "metric": record["metric"],
        "test": record["last"]["test_metric"],
        "epochs": record["epochs"],
        "commit": record["environment"][-1]["commit"],
        "licence": "MIT, as the library",
    }
    target = lrga.save_pretrained(lrga.load_pretrained(folder), PRETRAINED / name, record=facts)
    size = sum(file.stat().st_size for file in target.iterdir())
    if size > MAX_BYTES:
        raise SystemExit(f"expected at most {MAX_BYTES:,} bytes in {target}, got {size:,}; do not commit it")
    return target


def main(arguments: Sequence[str] | None = None) -> None:
    folders = sys.argv[1:] if arguments is None else arguments
    if not folders:
        raise SystemExit(__doc__)
    for folder in folders:
        print(f"{keep(Path(folder)).relative_to(ROOT)}: written")


if __name__ == "__main__":
    main()
