"""Detects that another rank has stopped, and names it.

Twice a second every rank increments a heartbeat counter in torch.distributed's store and reads those of the others. A
rank that fails stores its error there too. A broken connection can then be attributed to a rank. If a rank hangs, or
dies without breaking a connection (as with NCCL), the others end instead of waiting.
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

INTERVAL = 0.5  # seconds between two heartbeats
SUSPECT = 4.0  # seconds without a heartbeat, after a broken connection
PATIENCE = 20.0  # seconds without a heartbeat, otherwise
HOST_WAIT = 3.0  # seconds for which the process that hosts the store stays, so that others can read its report
STORE_SECONDS = 20.0  # time limit for an answer of the store


class Monitor:
    """While the block runs, this rank sends heartbeats and watches those of the others.

    Args:
        rank: Rank of this process.
        world: Number of ranks.
        host: Host of the store (``MASTER_ADDR``).
        port: Port of the store (``MASTER_PORT``).
        attempt: Number of restarts so far; restarts share a store.
        patience: Seconds without a heartbeat after which a rank counts as lost; this process then reports it and ends.
    """

    def __init__(
        self, rank: int, world: int, *, host: str, port: int, attempt: str = "0", patience: float = PATIENCE
    ) -> None:
        self.rank, self.world, self.patience = rank, world, patience
        # A separate connection: heartbeats could not pass one that the main thread waits on.
        self._store = dist.PrefixStore(
            f"lrga/{attempt}", dist.TCPStore(host, port, is_master=False, timeout=timedelta(seconds=STORE_SECONDS))
        )
        self._others = [other for other in range(world) if other != rank]
        self._seen: dict[int, tuple[str, float]] = {}
        self._lock, self._stop = threading.Lock(), threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True, name="lrga-monitor")
        self._who: dict[int, str] = {}
        self._gone = False  # whether the store is lost; it is then not queried again
        self._query_start: float | None = None  # start time of a pending query to the store

    def __enter__(self) -> "Monitor":
        try:
            self._store.set(f"who/{self.rank}", f"process {os.getpid()} on {socket.gethostname()}")
            self._store.set(f"alive/{self.rank}", "0")
            for other in self._others:  # waits until every rank has joined
                self._who[other] = self._store.get(f"who/{other}").decode()
                self._seen[other] = ("", time.monotonic())
        except dist.DistNetworkError as error:
            raise lost_error(self.world, self._store_gone()) from error
        self._thread.start()
        threading.Thread(target=self._watch_store, daemon=True, name="lrga-store").start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stop.set()
        # A thread that returns from the store during interpreter shutdown would abort the process.
        self._thread.join(timeout=STORE_SECONDS + 2 * INTERVAL)

    def report(self, message: str) -> None:
        """Tells the others why this rank ends."""
        self._leave(f"failed/{self.rank}", message)

    def conclude(self, found: str) -> None:
        """Tells the others which rank was lost, before this one ends too."""
        self._leave("lost", found)

    def _leave(self, key: str, message: str) -> None:
        with suppress(RuntimeError), self._querying():
            if self._gone:  # the process that hosts the store has ended; nobody can read
                return
            self._store.set(key, message)
            if self.rank == 0 and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
                time.sleep(HOST_WAIT)

    def lost(self, silence: float) -> str | None:
        """A text naming a rank that has failed or has sent no heartbeat for this time; ``None`` if there is none."""
        try:
            with self._querying():
                return self._store_gone() if self._gone else self._failed() or self._silent(silence)
        except RuntimeError:
            return self._store_gone()

    @contextmanager
    def _querying(self) -> Iterator[None]:
        """One query to the store at a time."""
        with self._lock:
            self._query_start = time.monotonic()
            try:
                yield
            finally:
                self._query_start = None

    def wait_for_lost(self, seconds: float) -> str | None:
        """Like :meth:`lost`, but waits for the explanation of a broken connection."""
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
                why = self._store.get(f"failed/{other}").decode().rstrip(".")  # the message adds its own full stop
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
                with self._querying():
                    self._store.set(f"alive/{self.rank}", str(count))
                    found = self._silent(self.patience)
            except RuntimeError:
                found = self._store_gone()
            if found is not None:
                self._end(found)

    def _watch_store(self) -> None:
        """Checks for a store that does not answer: its own time limit has no effect if its host process is stopped."""
        while not self._stop.wait(INTERVAL):
            start = self._query_start
            if start is not None and time.monotonic() - start > self.patience + HOST_WAIT:
                self._end(self._store_gone())

    def _end(self, found: str) -> None:
        """Ends the process: the main thread waits in a collective that never returns and cannot be interrupted."""
        if self._stop.is_set():
            return
        print(f"Error: {lost_error(self.world, found)}", file=sys.stderr, flush=True)
        if not self._gone:
            self.conclude(found)
        os._exit(1)


def lost_error(world: int, found: str) -> RankLostError:
    """The error for the text that :meth:`Monitor.lost` returned."""
    remedy = "check the log of that rank; torchrun --max-restarts 3 … resumes from the last checkpoint automatically"
    return RankLostError(f"all {world} ranks to keep running", found, remedy)
