"""Whether two versions of lrga train the same weights, to the last bit, by the paper's protocol on a CPU.

    python benchmarks/same_weights.py --baseline SRC [--source SRC] [--graphs 24]

``SRC`` is the ``src`` folder of a version; ``--source`` is this one by default. Each version trains every network of
Table 1 for one epoch on a few graphs of PATTERN and CLUSTER, in a process of its own with one thread; then checksums
of the weights are compared. Exit code 1 if any network differs. A difference in rounding is a difference.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import torch

MODELS = ("gcn", "gat", "gatedgcn")


def checksums(graphs: int, datasets: Sequence[str] = ("PATTERN", "CLUSTER")) -> dict[str, str]:
    """SHA-256 of the weights after one epoch, by the name of the run."""
    from lrga.training import train
    from lrga.training.presets import make_config

    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for dataset in datasets:
            for model in MODELS:
                for lrga in (False, True):
                    config = make_config(
                        dataset, model=model, lrga=lrga, budget="100k", max_epochs=1, batch_size=8, device="cpu",
                        root=f"{folder}/data", data_options={"sizes": (graphs, 4, 4)},
                    )  # fmt: skip
                    name = f"{dataset}, {'LRGA + ' * lrga}{model}"
                    weights = train(config, f"{folder}/{len(found)}").model.state_dict()
                    digest = hashlib.sha256()
                    for key in sorted(weights):
                        digest.update(key.encode() + weights[key].contiguous().view(-1).view(torch.uint8).numpy().data)
                    found[name] = digest.hexdigest()
    return found


def trained_by(source: Path, graphs: int) -> dict[str, str]:
    """The checksums of the version below ``source``."""
    if not (source / "lrga").is_dir():
        raise SystemExit(f"expected the src folder of a version of lrga, got {source}")
    path = os.pathsep.join([str(source.resolve()), str(Path(__file__).parent)])
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    code = f"import json, same_weights; print(json.dumps(same_weights.checksums({graphs})))"
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"training with {source} failed:\n{done.stderr}")
    found: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--baseline", type=Path, required=True, help="src folder of the version to compare with")
    parser.add_argument("--source", type=Path, default=SOURCE, help="src folder of the version to check")
    parser.add_argument("--graphs", type=int, default=24, help="graphs to train on")
    options = parser.parse_args(arguments)
    ours, theirs = (trained_by(source, options.graphs) for source in (options.source, options.baseline))
    for name, digest in ours.items():
        print(f"{name:28} {'equal' if theirs[name] == digest else 'DIFFERS'}")
    return int(ours != theirs)


SOURCE = Path(__file__).resolve().parent.parent / "src"

if __name__ == "__main__":
    sys.exit(main())
