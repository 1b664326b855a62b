"""What a signal handler of the script raises while a batch is counted is the script's."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from perftui.agent.worker_times import WorkerTimes


class Interrupted:
    """A page on which a signal arrives."""

    def count(self, _: object) -> None:
        signal.raise_signal(signal.SIGUSR1)


@pytest.fixture
def alarm() -> Iterator[None]:
    """A handler that raises, as those that limit a time do."""

    def late(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGUSR1, late)
    yield
    signal.signal(signal.SIGUSR1, before)


@pytest.mark.usefixtures("alarm")
def test_an_alarm_goes_on_to_the_script_and_counting_too() -> None:
    owner: Any = SimpleNamespace(notes=None)
    page: Any = Interrupted()
    times = WorkerTimes(None, owner, 0)

    with pytest.raises(TimeoutError):
        times.count(page, object())
    assert not times._is_off
