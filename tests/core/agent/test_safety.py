"""Signals, forks and failures: what the script's handlers raise is the script's."""

import functools
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest

from perftui.agent.recording.session import Session
from perftui.agent.safety.signal_handlers import attempt, raised_by_handler
from perftui.wire.spool import read_options

SCRIPT = """
import os, sys
from pathlib import Path
import torch
from perftui.wire.spool import AgentOptions
from perftui.agent.recording.session import Session

class Event:
    def __del__(self):
        os.write(1, b"destroyed in the parent\\n" if os.getpid() == parent else b"destroyed\\n")

parent = os.getpid()
session = Session(torch, Path(sys.argv[1]), AgentOptions(profile=False))
session.enter_forward(torch.nn.Linear(1, 1))
phases = session.recording.device.phases
phases._free[0] = [Event()]
phases._open.append((0, 0, Event()))
del phases
if os.fork() == 0:
    session.after_fork()
    assert session.recording is None
    sys.exit()
os.wait()
session.recording = None
"""


@pytest.mark.slow
def test_events_of_the_parent_are_never_destroyed_in_a_child(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    assert done.stdout.splitlines() == ["destroyed in the parent"] * 2


class Alarm:
    def method(self, *_: Any) -> None:
        raise TimeoutError("in a method")

    def __call__(self, *_: Any) -> None:
        raise TimeoutError("in an object")


def function(*_: Any) -> None:
    raise TimeoutError("in a function")


def refuse() -> None:
    raise TimeoutError("nobody's handler")


def calls_another(*_: Any) -> None:
    refuse()


@pytest.fixture(autouse=True)
def put_back() -> Iterator[None]:
    before = signal.getsignal(signal.SIGUSR1)
    yield
    signal.signal(signal.SIGUSR1, before)


def caught(raising: Callable[[], Any]) -> TimeoutError:
    with pytest.raises(TimeoutError) as caught:
        raising()
    return caught.value


@pytest.mark.parametrize(
    "handler",
    [function, calls_another, Alarm().method, Alarm(), functools.partial(function, 1)],
    ids=["function", "deeper", "method", "object", "partial"],
)
def test_what_any_kind_of_handler_raises_is_reported(handler: Callable[..., None]) -> None:
    signal.signal(signal.SIGUSR1, handler)
    assert raised_by_handler(caught(lambda: signal.raise_signal(signal.SIGUSR1)))


def test_other_errors_and_those_of_a_handler_that_is_none_any_more_are_not_theirs() -> None:
    signal.signal(signal.SIGUSR1, function)
    assert not raised_by_handler(caught(refuse))
    assert not raised_by_handler(ValueError("never raised"))
    error = caught(lambda: signal.raise_signal(signal.SIGUSR1))
    signal.signal(signal.SIGUSR1, signal.SIG_DFL)
    assert not raised_by_handler(error)


class Sized:
    """Something whose size is asked for when the signal comes."""

    def __len__(self) -> int:
        signal.raise_signal(signal.SIGUSR1)
        return 0


def test_it_passes_through_the_question_how_long_a_dataset_is() -> None:
    signal.signal(signal.SIGUSR1, function)
    with pytest.raises(TimeoutError, match="in a function"):
        attempt(len, Sized())


def lifetime(spool: Path, is_initialized: Callable[[], Any]) -> Session:
    """That of a process whose torch does nothing."""
    data = SimpleNamespace(get_worker_info=lambda: None)
    torch = SimpleNamespace(
        utils=SimpleNamespace(data=data),
        cuda=SimpleNamespace(is_initialized=is_initialized),
        optim=SimpleNamespace(Optimizer=object),
        is_grad_enabled=lambda: True,
    )
    return Session(torch, spool, read_options({}))


def test_it_passes_through_the_begin_of_recording(tmp_path: Path) -> None:
    signal.signal(signal.SIGUSR1, function)
    beginning = lifetime(tmp_path, lambda: signal.raise_signal(signal.SIGUSR1))
    with pytest.raises(TimeoutError, match="in a function"):
        beginning._begin()
    assert list(tmp_path.iterdir()) == []


def test_it_passes_through_the_end_of_an_agent_that_failed(tmp_path: Path) -> None:
    signal.signal(signal.SIGUSR1, function)
    failed = lifetime(tmp_path, bool)
    with (
        patch.object(failed.notes, "write", lambda *_: signal.raise_signal(signal.SIGUSR1)),
        pytest.raises(TimeoutError, match="in a function"),
    ):
        failed.fail(ValueError("ours"))


def test_an_agent_that_cannot_even_tell_fails_in_silence(tmp_path: Path) -> None:
    failed = lifetime(tmp_path / "gone", bool)
    failed.fail(ValueError("ours"))
    assert failed.fast_path.inside
