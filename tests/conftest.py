"""Settings of every test."""

import gc
import os
import signal
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.told import pytest_terminal_summary

__all__ = ["pytest_terminal_summary"]
pytest_plugins = ["tests.time_limit"]

# Trainings of the tests share few cores with one another: intra-op threads that wait for a core
# made steps ten times longer.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Traces that tests open are not to be found by anyone later; tests of keeping them say where.
os.environ["PERFTUI_CACHE"] = "off"

# Runs that tests write by hand carry no signature; tests of signatures say so. Those that are
# recorded are signed with a key that is not the user's.
os.environ["PERFTUI_TRUST_RUNS"] = "1"
os.environ["XDG_STATE_HOME"] = str(Path(tempfile.gettempdir()) / f"perftui-tests-{os.getuid()}")

# A shell starts background jobs with SIGINT ignored, nohup what it starts with SIGHUP, and programs
# hand that on: tests of the interrupt key and of a terminal that closes would wait for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

# The same examples in every run, and no verdict by the clock: shared cores are slow at times.
# `--hypothesis-profile=search` looks for new ones.
settings.register_profile("search", deadline=None)
settings.register_profile("steady", deadline=None, derandomize=True, database=None)
settings.load_profile("steady")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Leave all that is made while tests are collected to the end of it: it stays, and looking
    through it on the way took a sixth of the time, in each worker."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    """Keep Python's collector from going through all that pytest holds, again and again.

    In tests that make many objects it took a third of the time, and in those of the app a fifth.
    Young objects are looked at as often as ever."""
    gc.collect()
    gc.freeze()
    young, middle, _ = gc.get_threshold()
    gc.set_threshold(young, middle, 50)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Six tests at a time on two cores where one waits for more than half of its time, as those of
    real trainings do. Of the others three: each worker collects all tests, in 19 s of CPU."""
    cores = os.cpu_count() or 1
    return cores + 1 if config.option.markexpr == "not slow" else 3 * cores


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a test writes its script."""
    return tmp_path / "train.py"
