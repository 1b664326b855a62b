"""Counted calls: stand-ins for functions of torch that count how often they are called."""

from __future__ import annotations

import sys
from collections.abc import Callable
from threading import get_ident
from time import perf_counter_ns
from types import MethodType
from typing import TYPE_CHECKING, Any

from ..safety.signal_handlers import raised_by_handler

if TYPE_CHECKING:
    from .counter import SyncCounter


class CountedCall:
    """Takes the place of ``original``, to which it is equal: tables of functions that tensors of
    their own kind keep (``__torch_function__``) find it under the same key."""

    def __init__(
        self, counter: SyncCounter, original: Any, name: str, counts: Callable[..., bool]
    ) -> None:
        self._counter = counter
        self._original = original
        self._name = name
        self._counts = counts

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the original, and count that."""
        counter = self._counter
        if counter.is_counting or get_ident() != counter.thread:
            return self._original(*args, **kwargs)
        counter.is_counting = True
        counter.has_waited = False
        start = perf_counter_ns()
        try:
            result = self._original(*args, **kwargs)
            self._count(args, kwargs, result, perf_counter_ns() - start)
            return result
        finally:
            counter.is_counting = False

    def _count(self, args: tuple[Any, ...], kwargs: Any, result: Any, time: int) -> None:
        counter = self._counter
        try:
            if counter.has_waited or self._counts(args, kwargs, result):
                counter.sites.add(self._name, sys._getframe(2), time)
        except Exception as error:
            if raised_by_handler(error):
                raise
            # The script's call has succeeded.
            counter.error = error

    def __getattr__(self, name: str) -> Any:
        return getattr(self._original, name)

    def __eq__(self, other: object) -> bool:
        return bool(self._original == other) or self is other

    def __hash__(self) -> int:
        return hash(self._original)


class CountedMethod(CountedCall):
    """Takes the place of a method, and binds as one."""

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else MethodType(self, instance)
