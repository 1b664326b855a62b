"""Pauses of the garbage collector are told, and no signal is lost for that."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Iterator
from threading import Thread, get_ident
from typing import Any

import pytest

from perftui.agent.native import IS_COMPILED
from perftui.agent.native.plain import PlainPauses
from perftui.agent.recording.recording import GcPauses

MANY = 400_000
"""Objects that take the collector some 20 ms."""


@pytest.fixture
def pauses() -> Iterator[GcPauses]:
    gc.collect()
    listening = GcPauses(get_ident())
    yield listening
    listening.close()


def test_a_long_pause_is_reported_once(pauses: GcPauses) -> None:
    kept = [[] for _ in range(MANY)]  # type: list[list[int]]
    pauses.take()
    gc.collect()

    ((_, duration, generation),) = pauses.take()
    assert (generation, len(kept)) == (2, MANY)
    assert 100_000 <= duration < 10**10
    assert pauses.take() == []


def test_pauses_of_other_threads_and_after_the_end_are_not_reported(pauses: GcPauses) -> None:
    kept = [[] for _ in range(MANY)]  # type: list[list[int]]
    pauses.take()
    elsewhere = Thread(target=gc.collect)
    elsewhere.start()
    elsewhere.join()
    assert pauses.take() == []
    pauses.close()
    gc.collect()

    assert (pauses.take(), len(kept)) == ([], MANY)
    assert pauses.on_phase not in gc.callbacks


INTERRUPTED = """
import gc, signal, threading, time
from perftui.agent.recording.recording import GcPauses

def interrupt(*_):
    raise KeyboardInterrupt

kept = [[] for _ in range(400_000)]
pauses = GcPauses(threading.get_ident())
signal.signal(signal.SIGALRM, interrupt)
seen = 0
for _ in range(5):
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.002)
        gc.collect()
        time.sleep(2)
    except KeyboardInterrupt:
        seen += 1
print(seen, len(pauses.take()) >= 4)
"""


@pytest.mark.skipif(not IS_COMPILED, reason="the listener is not compiled here")
def test_a_signal_that_arrives_in_a_pause_reaches_the_script() -> None:
    command = [sys.executable, "-c", INTERRUPTED]
    done = subprocess.run(command, capture_output=True, text=True, check=True)

    assert (done.stdout, done.stderr) == ("5 True\n", "")


@pytest.mark.parametrize("kind", [PlainPauses, GcPauses.__mro__[1]])
def test_each_listener_forgets_the_short_ones(kind: Any) -> None:
    listening = kind()
    listening.thread, listening.found = get_ident(), []
    listening.on_phase("stop", {"generation": 0})
    listening.on_phase("start", {"generation": 0})
    listening.on_phase("stop", {"generation": 0})

    assert listening.found == []
