"""``lrga train --live``: the curves in a browser while a run trains.

A small page served on this machine only, drawn by the same charts as ``lrga report``: it needs nothing that the report
does not, starts at once, and ends with the run. ``--tensorboard`` stays for those who have TensorBoard running.
"""

import json
import sys
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from lrga.errors import OptionError
from lrga.models.zoo import MODELS
from lrga.report.html import plotly_bundle, render
from lrga.report.metrics_file import read_metrics
from lrga.training.callbacks.events import EpochRecord, Listener, RunFacts

HOST = "127.0.0.1"
_LAST_LOOK = 3.0  # seconds that a page which looks on is given to fetch the end
_NAMES = (HOST, "localhost", "[::1]")


class LiveView(Listener):
    """Serves the curves of the run it listens to.

    Args:
        port: Of the page; 0 takes one that is free.
        say: Is told the address.
    """

    def __init__(self, port: int = 0, say: Callable[[str], None] | None = None) -> None:
        if not 0 <= port <= 65535:
            raise OptionError("a port from 0 to 65535", str(port), "leave --live-port out to take a free one")
        plotly_bundle()  # a missing package is told of before the training
        if port:  # and a port that is taken before there is a run folder
            self._bound(port).server_close()
        self._port, self._say = port, say or _to_stderr
        self._server: ThreadingHTTPServer | None = None
        self._lock = threading.Lock()
        self._epochs: list[dict[str, float]] = []
        self._state: dict[str, Any] = {"status": "waiting", "epoch": 0, "batch": 0, "batches": 0}
        self._page = b""
        self._looked = 0.0
        self._seen_end = threading.Event()

    @property
    def address(self) -> str | None:
        """Where the page is, while there is one."""
        return None if self._server is None else f"http://{HOST}:{self._server.server_address[1]}/"

    def started(self, facts: RunFacts) -> None:
        if facts.folder is not None:
            self._epochs, _ = read_metrics(facts.folder / "metrics.jsonl")
        self._update(status="training", epoch=facts.epoch + 1, batch=facts.batch, batches=facts.batches)
        config = facts.config
        network = ("LRGA + " if config.model.lrga else "") + MODELS.get(config.model.model, config.model.model)
        name = config.data.name if facts.folder is None else facts.folder.name
        self._page = render(
            "live.html",
            scripts=("common.js", "live.js"),
            data={"metric": facts.task.metric_facts.name, "max_epochs": config.optimizer.max_epochs},
            title=f"{name}, live",
            about=f"{network} on {config.data.name}, {facts.parameters:,} parameters, {facts.device}",
        ).encode()
        self._serve()

    def batch_done(self, epoch: int, batch: int, batches: int) -> None:
        self._update(epoch=epoch, batch=batch, batches=batches)

    def evaluating(self, epoch: int) -> None:
        self._update(status="evaluating", epoch=epoch)

    def epoch_done(self, record: EpochRecord) -> None:
        with self._lock:
            self._epochs = [epoch for epoch in self._epochs if epoch["epoch"] < record.epoch] + [record.to_json()]
            self._state["status"] = "training"

    def stopped(self, reason: str) -> None:
        self._update(status=f"stopped: {reason}")

    def closed(self) -> None:
        """Lets a page that looks on fetch the end, then closes it."""
        server, self._server = self._server, None
        if server is None:
            return
        with self._lock:
            self._state["over"] = True
        if time.monotonic() - self._looked < 2 * _LAST_LOOK:
            self._seen_end.wait(_LAST_LOOK)
        server.shutdown()
        server.server_close()

    def _update(self, **values: Any) -> None:
        with self._lock:
            self._state.update(values)

    def state(self, after: int = 0) -> dict[str, Any]:
        """How it stands, with the epochs after number ``after``."""
        with self._lock:
            return {**self._state, "epochs": [epoch for epoch in self._epochs if epoch["epoch"] > after]}

    def answer(self, path: str) -> tuple[str, bytes] | None:
        """Type and content of what the page asks for; ``None`` of what there is not."""
        parts = urlsplit(path)
        if parts.path == "/":
            return "text/html; charset=utf-8", self._page
        if parts.path != "/state":
            return None
        after = parse_qs(parts.query).get("after", ["0"])[0]
        told = self.state(int(after) if after.isdecimal() and len(after) < 10 else 0)
        self._looked = time.monotonic()
        if told.get("over"):
            self._seen_end.set()
        return "application/json", json.dumps(told, allow_nan=False).encode()

    def _bound(self, port: int) -> ThreadingHTTPServer:
        try:
            return _Server((HOST, port), _handler(self))
        except OSError as error:
            got = f"{error.strerror or error}"
            raise OptionError(f"port {port} to be free", got, "choose another --live-port, or none") from error

    def _serve(self) -> None:
        self._server = self._bound(self._port)
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True).start()
        self._say(f"curves at {self.address}")


def _to_stderr(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


class _Server(ThreadingHTTPServer):
    """Threads of requests end with the run; a reader who leaves while a page is sent is no error."""

    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


def _handler(view: LiveView) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            # A page elsewhere whose name was pointed at this machine gets nothing.
            host = (self.headers.get("Host") or "").rsplit(":", 1)[0]
            answer = view.answer(self.path) if host in _NAMES else None
            if answer is None:
                self.send_error(404)
                return
            kind, content = answer
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.send_header("Cache-Control", "no-store")
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:
            """Requests are not worth a line in the middle of the progress."""

    return Handler
