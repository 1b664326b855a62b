"""Signals that come at a moment of a test's choice."""

import gc
import sys
from collections.abc import Callable
from itertools import count


def interrupted_at_call(number: int, work: Callable[[], object]) -> bool:
    """Do ``work``, and have a signal come as its function ``number`` begins; whether one has.

    Nothing is collected meanwhile: what others have called then is no function of it."""
    calls = count()

    def trace(_frame: object, event: str, _: object) -> None:
        if event == "call" and next(calls) == number:
            raise KeyboardInterrupt

    before, collects = sys.gettrace(), gc.isenabled()
    gc.disable()
    sys.settrace(trace)
    try:
        work()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
        if collects:
            gc.enable()
    return False
