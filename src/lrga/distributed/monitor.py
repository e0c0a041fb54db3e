"""Notices that another rank has stopped, and says which.

Every rank counts up a number in torch.distributed's store twice a second and looks at the numbers of the others. A rank
that raised an error leaves it there too. So a broken connection gets a name, and a rank that hangs, or dies without a
connection breaking (as under NCCL), ends the others instead of making them wait.
"""

import os
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from types import TracebackType

import torch.distributed as dist

from lrga.errors import RankLostError

INTERVAL = 0.5  # seconds between two signs of life
SUSPECT = 4.0  # seconds of silence, where a connection broke
PATIENCE = 20.0  # seconds of silence, where none did
LINGER = 3.0  # seconds in which others can read what the process that holds the store has found
STORE_SECONDS = 20.0  # that the store may take to answer


class Monitor:
    """While the block runs, this rank gives signs of life and watches for those of the others.

    Args:
        rank: Of this process.
        world: Ranks in all.
        host: Where the store is (``MASTER_ADDR``).
        port: Of the store (``MASTER_PORT``).
        attempt: Which start of the same run this is; restarts share a store.
        patience: Seconds after which a silent rank is given up: this process then says so and ends.
    """

    def __init__(
        self, rank: int, world: int, *, host: str, port: int, attempt: str = "0", patience: float = PATIENCE
    ) -> None:
        self.rank, self.world, self.patience = rank, world, patience
        # A connection of its own: one that the main thread waits on would not let signs of life through.
        self._store = dist.PrefixStore(
            f"lrga/{attempt}", dist.TCPStore(host, port, is_master=False, timeout=timedelta(seconds=STORE_SECONDS))
        )
        self._others = [other for other in range(world) if other != rank]
        self._seen: dict[int, tuple[str, float]] = {}
        self._lock, self._stop = threading.Lock(), threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True, name="lrga-monitor")
        self._who: dict[int, str] = {}
        self._gone = False  # the store, which is then not asked again
        self._asked: float | None = None  # when, while an answer of the store is waited for

    def __enter__(self) -> "Monitor":
        try:
            self._store.set(f"who/{self.rank}", f"process {os.getpid()} on {socket.gethostname()}")
            self._store.set(f"alive/{self.rank}", "0")
            for other in self._others:  # waits for every rank to be there
                self._who[other] = self._store.get(f"who/{other}").decode()
                self._seen[other] = ("", time.monotonic())
        except dist.DistNetworkError as error:
            raise lost_error(self.world, self._store_gone()) from error
        self._thread.start()
        threading.Thread(target=self._watch_store, daemon=True, name="lrga-store").start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stop.set()
        # A thread that comes back from the store while the interpreter ends would abort the process.
        self._thread.join(timeout=STORE_SECONDS + 2 * INTERVAL)

    def report(self, message: str) -> None:
        """Leaves word for the others why this rank ends."""
        self._leave(f"failed/{self.rank}", message)

    def conclude(self, found: str) -> None:
        """Leaves word for the others which rank was lost, before this one ends too."""
        self._leave("lost", found)

    def _leave(self, key: str, message: str) -> None:
        with suppress(RuntimeError), self._asking():
            if self._gone:  # with whoever hosted it; nobody is left to read
                return
            self._store.set(key, message)
            if self.rank == 0 and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
                time.sleep(LINGER)

    def lost(self, silence: float) -> str | None:
        """Which rank has failed or been silent for so many seconds, in words; ``None`` if all are well."""
        try:
            with self._asking():
                return self._store_gone() if self._gone else self._failed() or self._silent(silence)
        except RuntimeError:
            return self._store_gone()

    @contextmanager
    def _asking(self) -> Iterator[None]:
        """One question to the store at a time."""
        with self._lock:
            self._asked = time.monotonic()
            try:
                yield
            finally:
                self._asked = None

    def wait_for_lost(self, seconds: float) -> str | None:
        """As :meth:`lost`, after waiting for a broken connection to be explained."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if (found := self.lost(SUSPECT)) is not None:
                return found
            time.sleep(INTERVAL)
        return None

    def _failed(self) -> str | None:
        if self._store.check(["lost"]):
            return self._store.get("lost").decode()
        for other in self._others:
            if self._store.check([f"failed/{other}"]):
                why = self._store.get(f"failed/{other}").decode().rstrip(".")  # the sentence it becomes part of has one
                return f"rank {other} ({self._who[other]}) failed: {why}"
        return None

    def _silent(self, silence: float) -> str | None:
        if not self._others:
            return None
        now = time.monotonic()
        for other, count in zip(self._others, self._store.multi_get([f"alive/{o}" for o in self._others]), strict=True):
            text = count.decode()
            if self._seen[other][0] != text:
                self._seen[other] = (text, now)
        quiet, other = max((now - self._seen[o][1], o) for o in self._others)
        if quiet < silence:
            return None
        return f"rank {other} ({self._who[other]}) without a heartbeat for {quiet:.0f} seconds"

    def _store_gone(self) -> str:
        self._gone = True
        who = f" ({self._who[0]})" if 0 in self._who else ""
        return f"rank 0{who}, which hosts the distributed store, not responding"

    def _watch(self) -> None:
        count = 0
        while not self._stop.wait(INTERVAL):
            count += 1
            try:
                with self._asking():
                    self._store.set(f"alive/{self.rank}", str(count))
                    found = self._silent(self.patience)
            except RuntimeError:
                found = self._store_gone()
            if found is not None:
                self._end(found)

    def _watch_store(self) -> None:
        """The store's own time limit does not hold where the process that hosts it is stopped and not killed."""
        while not self._stop.wait(INTERVAL):
            asked = self._asked
            if asked is not None and time.monotonic() - asked > self.patience + LINGER:
                self._end(self._store_gone())

    def _end(self, found: str) -> None:
        """The main thread waits inside a collective that never ends; only the whole process can leave it."""
        if self._stop.is_set():
            return
        print(f"Error: {lost_error(self.world, found)}", file=sys.stderr, flush=True)
        if not self._gone:
            self.conclude(found)
        os._exit(1)


def lost_error(world: int, found: str) -> RankLostError:
    """The error for what :meth:`Monitor.lost` found."""
    remedy = "check the log of that rank; torchrun --max-restarts 3 … resumes from the last checkpoint automatically"
    return RankLostError(f"all {world} ranks to keep running", found, remedy)
