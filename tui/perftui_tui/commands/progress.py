"""Tells on stderr how far long work has come, now and then."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from perftui_tui.commands.output import log

if TYPE_CHECKING:
    from perftui.trace.nsys.report import Exporting

TELL_EVERY_S = 10.0


def export_progress(name: str) -> Callable[[Exporting], None]:
    """Logs how far ``nsys`` has come: that can take minutes."""
    from perftui_tui.look.format import exported

    due = 0.0

    def log_progress(now: Exporting) -> None:
        nonlocal due
        if now.seconds >= due:
            due = now.seconds + TELL_EVERY_S
            log(exported(name, now.seconds, now.written))

    return log_progress


def rank_progress() -> Callable[[int, int], None]:
    """Logs how many ranks have been read: of hundreds that takes minutes."""
    return _now_and_then(lambda done, count: f"{done} of {count} ranks have been read")


def list_progress(shown: str) -> Callable[[int, int], None]:
    """Logs of how many traces of the remote directory ``shown`` the ends have been read."""
    return _now_and_then(lambda done, count: f"{shown}: {done} of {count} traces have been found")


def copy_progress(shown: str) -> Callable[[int, int], None]:
    """Logs how much of the remote file ``shown`` has been read."""
    from perftui.format import size

    return _now_and_then(lambda done, count: f"{shown}: {size(done)} of {size(count)} copied")


def _now_and_then(sentence: Callable[[int, int], str]) -> Callable[[int, int], None]:
    due = time.monotonic() + TELL_EVERY_S

    def log_progress(done: int, count: int) -> None:
        nonlocal due
        if time.monotonic() >= due:
            due = time.monotonic() + TELL_EVERY_S
            log(f"perftui: {sentence(done, count)}")

    return log_progress
