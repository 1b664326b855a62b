from __future__ import annotations

import functools
import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from perftui.agent.signal_handlers import raised_by_handler


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
def test_what_any_kind_of_handler_raises_is_told(handler: Callable[..., None]) -> None:
    signal.signal(signal.SIGUSR1, handler)
    assert raised_by_handler(caught(lambda: signal.raise_signal(signal.SIGUSR1)))


def test_other_errors_are_not_theirs() -> None:
    signal.signal(signal.SIGUSR1, function)
    assert not raised_by_handler(caught(refuse))
    assert not raised_by_handler(ValueError("never raised"))


def test_a_function_that_is_no_handler_any_more_is_none() -> None:
    signal.signal(signal.SIGUSR1, function)
    error = caught(lambda: signal.raise_signal(signal.SIGUSR1))
    signal.signal(signal.SIGUSR1, signal.SIG_DFL)
    assert not raised_by_handler(error)
