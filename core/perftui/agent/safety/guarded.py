"""Guarded methods: an error of the agent never reaches the script, and their time is counted."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Protocol, TypeVar, cast

from ..overhead.meter import Meter

Method = TypeVar("Method", bound=Callable[..., Any])


class Owner(Protocol):
    """What the guarded methods belong to."""

    @property
    def meter(self) -> Meter:
        """Where the time goes."""

    def guards(self, error: BaseException) -> bool:
        """Whether ``error``, which ended one of the methods, is ours: then nobody else sees it."""


def guarded(method: Method) -> Method:
    """Turn any error of the agent into a note and the end of the recording, never the script's.

    For what happens several times a step: its time is measured in some steps only.
    """

    @wraps(method)
    def call(owner: Owner, *args: Any) -> Any:
        meter = owner.meter
        if meter.is_sampling:
            start = meter.begin_hook()
            try:
                return method(owner, *args)
            except BaseException as error:
                if not owner.guards(error):
                    raise
                return 0
            finally:
                meter.end_hook(start)
        meter.calls += 1
        try:
            return method(owner, *args)
        except BaseException as error:
            if not owner.guards(error):
                raise
            return 0

    return cast("Method", call)


def guarded_and_timed(method: Method) -> Method:
    """Turn any error of the agent into a note and the end of the recording, as ``guarded`` does.

    For rare work that may take long: its time is measured each time.
    """

    @wraps(method)
    def call(owner: Owner, *args: Any) -> Any:
        meter = owner.meter
        mark = meter.begin_apart()
        try:
            return method(owner, *args)
        except BaseException as error:
            if not owner.guards(error):
                raise
            return 0
        finally:
            meter.end_apart(mark)

    return cast("Method", call)


GUARDED = (guarded(lambda _: None), guarded_and_timed(lambda _: None))
"""One function of each kind; all of a kind share its code."""
