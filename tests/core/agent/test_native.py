"""The compiled parts: one library for every Python, and a listener that loses no signal."""

import gc
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Thread, get_ident
from typing import Any

import pytest

import perftui.agent
from perftui.agent.native import IS_COMPILED, CompiledFastPath, CompiledPage
from perftui.agent.native.plain import PlainPauses
from perftui.agent.recording.recording import GcPauses
from perftui.wire.worker_page import COLLATE

SOURCES = sorted(Path(perftui.agent.__file__).parent.rglob("*.c"))
ALWAYS_THERE = (True, False, None)
TIMES = 2000


@pytest.mark.skipif(not IS_COMPILED, reason="the hooks are not compiled here")
@pytest.mark.parametrize(
    "hook",
    [
        lambda fast_path, _: fast_path.leave(0, 0),
        lambda fast_path, _: fast_path.enter_optimizer(fast_path),
        lambda fast_path, _: fast_path.leave_optimizer(fast_path),
        lambda fast_path, _: fast_path.leave_fetch(fast_path, 0),
        lambda _, page: page.mark(COLLATE),
        lambda _, page: page.enter(page) and page.leave(page),
    ],
)
def test_what_is_always_there_keeps_its_references(hook: object) -> None:
    assert callable(hook)
    fast_path, page = CompiledFastPath(), CompiledPage()
    before = [sys.getrefcount(one) for one in ALWAYS_THERE]
    for _ in range(TIMES):
        hook(fast_path, page)
    lost = [was - sys.getrefcount(one) for was, one in zip(before, ALWAYS_THERE, strict=True)]

    assert max(lost) < TIMES // 2


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.name)
def test_no_file_returns_what_is_always_there_without_counting_that(source: Path) -> None:
    # With the headers of Python 3.12 and later these macros count no reference.
    assert "Py_RETURN_" not in source.read_text()


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
