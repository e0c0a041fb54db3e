"""Screenshots of the report and of the explorer for the README: ``make screenshots``.

Trains two small networks on a CPU (a few minutes, kept below ``build/screenshots``), adds them to the records in
``results``, opens both pages in a headless Chromium and writes ``report.png`` and ``explorer.png`` to ``docs/images``.
"""

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, sync_playwright

from lrga.explain import write_explorer
from lrga.report import write_report

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs" / "images"
SHAPE = [
    "--sizes",
    "600,100,100",
    "--epochs",
    "25",
    "--batch-size",
    "16",
    "--recalibrate-norm",
    "10",
    "--device",
    "cpu",
]
RUNS = {"cluster-lrga": ["--attention-heads", "2"], "cluster-plain": ["--no-lrga"]}
MAX_BYTES = 400_000


def train(work: Path) -> None:
    """Trains the missing runs."""
    for name, options in RUNS.items():
        if not (work / "runs" / name / "result.json").is_file():
            place = [
                "--device",
                "cpu",
                "--data-root",
                str(work / "data"),
                "--output",
                str(work / "runs"),
                "--run-name",
                name,
            ]
            subprocess.run([sys.executable, "-m", "lrga", "train", "CLUSTER", *SHAPE, *options, *place], check=True)


def save(page: Page, path: Path) -> None:
    """Takes a screenshot with few colours, so that the file is small."""
    page.screenshot(path=path)
    with Image.open(path) as picture:
        picture.convert("RGB").quantize(192, dither=Image.Dither.NONE).save(path, optimize=True)
    if path.stat().st_size > MAX_BYTES:
        raise SystemExit(f"{path} has {path.stat().st_size:,} bytes, more than {MAX_BYTES:,}")
    print(path.relative_to(ROOT))


def main() -> None:
    """Takes both screenshots."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "screenshots", help="folder of the runs")
    work = parser.parse_args().work.resolve()
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if browser is None:
        raise SystemExit("expected the browser chromium, found none; install it")
    train(work)
    IMAGES.mkdir(parents=True, exist_ok=True)
    write_report(
        [ROOT / "reproduction" / "results" / "table1", ROOT / "reproduction" / "results" / "speed", work / "runs"],
        work / "report.html",
    )
    write_explorer(work / "runs" / "cluster-lrga", work / "explorer.html", graph=2, root=work / "data")
    with sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        page = chromium.new_page(viewport={"width": 1240, "height": 1180})
        page.goto((work / "report.html").as_uri())
        page.wait_for_timeout(1500)
        save(page, IMAGES / "report.png")
        page.goto((work / "explorer.html").as_uri())
        page.fill("#node", "31")
        page.press("#node", "Enter")
        page.select_option("#order", "prediction")
        page.wait_for_timeout(1500)
        save(page, IMAGES / "explorer.png")
        chromium.close()


if __name__ == "__main__":
    main()
