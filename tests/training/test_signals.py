"""Ctrl-C between two batches."""

import os
import signal
import threading

import pytest

from lrga.training.runs.signals import Interrupted, StopRequest


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_first_signal_is_noted_and_the_second_stops_at_once(number):
    with StopRequest() as request:
        assert request.received is None
        os.kill(os.getpid(), number)
        assert request.received == number.name
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), number)


def test_handlers_come_back():
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with StopRequest():
        assert signal.getsignal(signal.SIGINT) != before[0]
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


def test_another_thread_leaves_the_signals_alone():
    before, seen = signal.getsignal(signal.SIGINT), []

    def work():
        with StopRequest() as request:
            seen.append((signal.getsignal(signal.SIGINT), request.received))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [(before, None)]


def test_the_exit_code_is_the_shell_s():
    assert Interrupted("", "SIGINT").exit_code == 130
    assert Interrupted("", "SIGTERM").exit_code == 143
    assert Interrupted("", "SIGHUP").exit_code == 129


def test_a_hangup_that_is_ignored_stays_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with StopRequest() as request:
            os.kill(os.getpid(), signal.SIGHUP)
            assert request.received is None
    finally:
        signal.signal(signal.SIGHUP, before)
