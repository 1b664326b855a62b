"""Signals that come at a moment of a test's choice."""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import count


def interrupted_at_call(number: int, work: Callable[[], object]) -> bool:
    """Do ``work``, and have a signal come as its function ``number`` begins; whether one has."""
    calls = count()

    def trace(_frame: object, event: str, _: object) -> None:
        if event == "call" and next(calls) == number:
            raise KeyboardInterrupt

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False
