"""Keeps failures of the agent away from the script, and accounts for its time."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from time import perf_counter_ns
from typing import Any, Optional, Protocol, TypeVar, cast

Method = TypeVar("Method", bound=Callable[..., Any])


class Costing(Protocol):
    """What counts the agent's own cost."""

    overhead: int


class Owner(Protocol):
    """What the contained methods belong to."""

    @property
    def recording(self) -> Optional[Costing]:
        """Where the time goes; None while nothing is recorded."""

    def fail(self, error: Exception) -> None:
        """Record no more, and say why."""


def contained(method: Method) -> Method:
    """Turn any error of the agent into a note and the end of the recording, never the script's.

    The time it takes is added to the agent's own cost in the step that goes on.
    """

    @wraps(method)
    def call(owner: Owner, *args: Any) -> Any:
        start = perf_counter_ns()
        try:
            return method(owner, *args)
        except Exception as error:  # noqa: BLE001 - whatever is wrong with us, the training goes on
            owner.fail(error)
            return 0
        finally:
            recording = owner.recording
            if recording is not None:
                recording.overhead += perf_counter_ns() - start

    return cast("Method", call)


CONTAINED = contained(lambda _: None)
"""One of the functions that ``contained`` makes; they all share its code."""
