"""The live page in a real browser, while a run trains."""

from lrga.report.live import LiveView
from lrga.training import Listener, train
from lrga.training.runs.folder import RunFolder


def test_curves_appear_while_the_run_trains(trained, tmp_path, open_page, keep_screenshot):
    pages = []
    view = LiveView(say=lambda text: None)

    class Watcher(Listener):
        def started(self, facts):
            pages.append(open_page(view.address))

        def epoch_done(self, record):
            pages[0].wait_for_function(
                "(n) => (document.getElementById('metric').data || [{x: []}])[0].x.length >= n", arg=record.epoch
            )

    result = train(RunFolder(trained).config().changed(seed=9), tmp_path / "run", listeners=[view, Watcher()])
    page = pages[0]
    shown = page.evaluate("document.getElementById('metric').data.map((t) => [t.name, t.y])")
    assert dict(shown)["validation"] == [record.val_metric for record in result.history]
    keep_screenshot(page, "live")
    assert page.complaints == [] or all("ERR_CONNECTION_REFUSED" in text for text in page.complaints)
