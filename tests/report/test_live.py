"""The curves while a run trains, as the page fetches them."""

import json
import socket
import struct
import threading
import time
import urllib.error
import urllib.request

import pytest

from lrga.errors import OptionError
from lrga.report import live
from lrga.report.live import LiveView
from lrga.training import Listener, train
from lrga.training.runs.folder import RunFolder


def fetch(address, **headers):
    with urllib.request.urlopen(urllib.request.Request(address, headers=headers), timeout=10) as answer:
        return answer.read().decode()


@pytest.fixture(autouse=True)
def short_wait(monkeypatch):
    monkeypatch.setattr(live, "_LAST_LOOK", 0.3)


class Looker(Listener):
    """Looks at the page from within the training, at every epoch."""

    def __init__(self, view):
        self.view, self.seen, self.page = view, [], ""

    def epoch_done(self, record):
        self.page = fetch(self.view.address)
        self.seen.append(json.loads(fetch(self.view.address + "state?after=0")))


def test_every_epoch_is_on_the_page_as_soon_as_it_is_done(trained, tmp_path):
    said = []
    view = LiveView(say=said.append)
    looker = Looker(view)
    result = train(RunFolder(trained).config().changed(seed=3), tmp_path / "run", listeners=[view, looker])
    assert said == [f"curves at {said[0].split()[-1]}"]
    assert "LRGA + GCN on CLUSTER" in looker.page
    assert [len(state["epochs"]) for state in looker.seen] == [1, 2]
    assert looker.seen[-1]["epochs"] == [record.to_json() for record in result.history]
    assert looker.seen[0]["status"] == "training"
    assert view.address is None
    with pytest.raises(urllib.error.URLError):
        fetch(said[0].split()[-1])  # gone with the run


def test_a_run_that_is_continued_shows_its_past(trained, tmp_path):
    config = RunFolder(trained).config()
    train(config, tmp_path / "run", time_limit=1e-9)
    view = LiveView(say=lambda text: None)
    looker = Looker(view)
    train(config, tmp_path / "run", listeners=[view, looker])
    assert [epoch["epoch"] for epoch in looker.seen[-1]["epochs"]] == [1, 2]


def test_a_page_that_looks_on_sees_the_end(trained, tmp_path):
    states = []

    def look(text):
        def ask():
            while not states or not states[-1].get("over"):
                states.append(json.loads(fetch(text.split()[-1] + "state?after=1")))
                time.sleep(0.02)

        threading.Thread(target=ask, daemon=True).start()

    train(RunFolder(trained).config().changed(seed=5), tmp_path / "run", listeners=[LiveView(say=look)])
    deadline = time.monotonic() + 10
    while not states[-1].get("over") and time.monotonic() < deadline:
        time.sleep(0.02)
    assert states[-1]["status"] == "stopped: max_epochs"
    assert [epoch["epoch"] for epoch in states[-1]["epochs"]] == [2]


def test_only_this_machine_is_answered_and_only_what_there_is(trained, tmp_path):
    answers = []

    class Asker(Listener):
        def started(self, facts):
            for path, headers in (("other", {}), ("", {"Host": "evil.example"}), ("state?after=x", {})):
                try:
                    fetch(view.address + path, **headers)
                    answers.append(200)
                except urllib.error.HTTPError as error:
                    answers.append(error.code)
                    error.close()

    view = LiveView(say=lambda text: None)
    train(RunFolder(trained).config().changed(seed=6), tmp_path / "run", listeners=[view, Asker()])
    assert answers == [404, 404, 200]


def test_a_port_that_is_taken_is_refused_before_training(trained, tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(OptionError, match="--live-port"):
            train(RunFolder(trained).config().changed(seed=8), tmp_path / "run", listeners=[LiveView(port)])
    with pytest.raises(OptionError, match="65535"):
        LiveView(70_000)


def test_a_reader_who_leaves_while_the_page_is_sent_is_no_error(trained, tmp_path, capfd):
    class Leaver(Listener):
        def epoch_done(self, record):
            for _ in range(3):
                with socket.create_connection(("127.0.0.1", int(view.address.rsplit(":", 1)[1].strip("/")))) as one:
                    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a hard end
                    one.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
                    one.recv(100)
            assert json.loads(fetch(view.address + "state?after=%C2%B2"))["epochs"]

    view = LiveView(say=lambda text: None)
    train(RunFolder(trained).config().changed(seed=3), tmp_path / "run", listeners=[view, Leaver()])
    assert "Traceback" not in capfd.readouterr().err


def test_a_taken_port_is_told_before_there_is_a_run():
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        with pytest.raises(OptionError, match="to be free"):
            LiveView(other.getsockname()[1])
