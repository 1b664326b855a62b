"""A limit on how long a test may take: one that spins or waits for ever ends, and tells where.

The watchdog of ``faulthandler`` is a thread of C that needs no lock of Python's. It ends what a
timer of Python's threads does not (a loop in C that holds the lock) and what an alarm's exception
does not (a loop in a second thread, for which the interpreter waits as it exits), it takes no
signal from the tests that are about signals, and its stacks are seen under xdist too."""

import faulthandler
import os

import pytest

SECONDS = 300
"""For preparing, running and clearing up a test, each: on a busy machine some take over 60."""

_told: list[int] = []


def pytest_configure(config: pytest.Config) -> None:
    """A hook of pytest: keeps the terminal's stderr, which is not that of a test that runs."""
    capture = config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        _told.append(os.dup(2))


def pytest_unconfigure() -> None:
    """A hook of pytest: nothing is watched any more, also where a test was interrupted."""
    faulthandler.cancel_dump_traceback_later()
    os.close(_told.pop())


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """A hook of pytest."""
    _watch()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call() -> None:
    """A hook of pytest."""
    _watch()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown() -> None:
    """A hook of pytest. A failure or a debugger has stopped the watch until here."""
    _watch()


def pytest_runtest_logfinish() -> None:
    """A hook of pytest. A worker of xdist may wait for long for its next test, or for others."""
    faulthandler.cancel_dump_traceback_later()


def _watch() -> None:
    """From now on, in place of what was watched before."""
    faulthandler.dump_traceback_later(SECONDS, exit=True, file=_told[-1])
