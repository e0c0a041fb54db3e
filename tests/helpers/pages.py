"""Records, a small trained run, and a browser for the tests of pages."""

import json
from pathlib import Path

import pytest
import torch

from lrga.data.datasets.spec import dataset_specs
from lrga.experiments.recording import recorded_options
from lrga.experiments.records import RunRecord
from lrga.training import DataConfig, ModelConfig, OptimizerConfig, RunConfig, TrainingConfig, train
from lrga.training.callbacks.base import EpochRecord
from lrga.training.presets import make_config

ARTEFACTS = Path(__file__).resolve().parents[1] / "artefacts"


def epoch(number, value, **more):
    numbers = {"epoch": number, "lr": 1e-3, "seconds": 1.0, "elapsed": float(number)}
    for split in ("train", "val", "test"):
        numbers |= {f"{split}_loss": 1 / number, f"{split}_metric": value}
    return EpochRecord(**(numbers | more))


@pytest.fixture(scope="session")
def make_record():
    """``make_record(**what)``: the record of a run that was never made, but might have been."""

    def make(name=None, *, dataset="CLUSTER", test=68.0, seed=41, status="finished", reason="max_epochs", epochs=5,
             metric=None, metric_free=False, environment=None, **options):  # fmt: skip
        config = make_config(dataset, seed=seed).changed(**options)
        metric = metric or (dataset_specs()[dataset].task.metric if dataset in dataset_specs() else "weighted_accuracy")
        history = [epoch(i, test - epochs + i) for i in range(1, epochs + 1)]
        last, when = history[-1].to_json() if history else None, "2026-01-01T00:00:00+0000"
        columns = ("epoch", "lr", "train_loss", "train_metric", "val_loss", "val_metric", "test_metric")
        return RunRecord(
            run=name or f"{dataset.lower()}-{config.model.model}-{config.model.lrga}-{config.model.rank}-{seed}",
            status=status, reason=reason, data={"name": dataset, "options": {}}, model={"parameters": 91_131},
            config=recorded_options(config), seed=seed, metric=None if metric_free else metric, epochs=epochs,
            seconds=float(epochs), last=last, best=last,
            curve={key: [getattr(e, key) for e in history] for key in columns} if history else {},
            environment=environment if environment is not None else [{"started": when, "lrga": "0.1.0"}],
            published=None, time=when,
        )  # fmt: skip

    return make


@pytest.fixture
def write_records(tmp_path):
    """``write_records(*records)``: a folder with them."""

    def write(*records, folder="records"):
        place = tmp_path / folder
        place.mkdir(exist_ok=True)
        for number, record in enumerate(records):
            (place / f"{number:03d}.json").write_text(json.dumps(record.to_json()), encoding="utf-8")
        return place

    return write


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    """The folder of a run on a few generated graphs, with two heads of attention."""
    root = tmp_path_factory.mktemp("trained")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    config = TrainingConfig(
        data=DataConfig(name="CLUSTER", root=str(root / "data"), options={"sizes": (12, 4, 4)}),
        model=ModelConfig(hidden=12, layers=2, rank=5, attention_heads=2),
        optimizer=OptimizerConfig(max_epochs=2, batch_size=4),
        run=RunConfig(seed=7, device="cpu"),
    )
    train(config, root / "runs" / "cluster-run")
    torch.set_num_threads(threads)
    return root / "runs" / "cluster-run"


@pytest.fixture(scope="module")
def open_page(browser):
    """``open_page(path, **look)``: the page, in a browser that notes everything it complains of or asks for.

    All pages of a module share one tab, or two where some are touched, as a tab of its own takes seconds to read
    Plotly; a page that is shown already, and as was asked, stays as it is.
    """
    tabs = {}

    def open_it(path, *, width=1200, height=900, color_scheme="light", has_touch=False):
        if has_touch not in tabs:
            context = browser.new_context(has_touch=has_touch, permissions=["clipboard-read", "clipboard-write"])
            tab = tabs[has_touch] = context.new_page()
            tab.shown = None
            # A software renderer's remarks on its own speed are no complaint.
            tab.on("console", lambda m: tab.complaints.append(m.text) if m.type in ("error", "warning")
                   and "GL Driver Message" not in m.text else None)  # fmt: skip
            tab.on("pageerror", lambda error: tab.complaints.append(str(error)))
            tab.on("request", lambda request: tab.asked.append(request.url))
        page, look = tabs[has_touch], (path, width, height, color_scheme)
        if page.shown == look:
            return page
        page.shown, page.complaints, page.asked = look, [], []
        page.set_viewport_size({"width": width, "height": height})
        page.emulate_media(media="screen", color_scheme=color_scheme)
        page.goto(path if str(path).startswith("http") else Path(path).resolve().as_uri())
        page.wait_for_function(
            "() => window.LRGA !== undefined && document.querySelector('.js-plotly-plot .main-svg') !== null"
        )
        return page

    yield open_it
    for tab in tabs.values():
        tab.context.close()


@pytest.fixture(scope="session")
def keep_screenshot():
    """``keep_screenshot(page, name)``: kept as an artefact of the tests."""

    def keep(page, name, **options):
        ARTEFACTS.mkdir(exist_ok=True)
        page.screenshot(path=ARTEFACTS / f"{name}.png", **options)

    return keep
