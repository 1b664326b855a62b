"""Notes beside the steps: compilations by ``torch.compile`` and calls of ``torch.save``."""

from __future__ import annotations

import sys
from pathlib import Path, PurePath
from typing import Any

from ..hooks.call_site import CallSite

MOST_NOTED = 500
"""Compilations that are noted: each function is compiled a few times before torch gives it up."""

LONGEST = 300
"""Most characters of a reason."""


class Compilations:
    """New compilations of this process, each reported once; none from before a fork.

    They are read from a list that torch keeps anyway. Nothing listens to the compiler, and it is
    not imported where the script does not.
    """

    def __init__(self) -> None:
        compilations = _list()
        self._last: Any = compilations[-1] if compilations else None
        self._noted = 0

    def new(self) -> list[tuple[int, dict[str, Any]]]:
        """Duration in ns and data of a ``compile`` note for each new compilation."""
        newest = _list()
        # Usually there are none: this runs after many steps.
        if not newest or newest[-1] is self._last or self._noted >= MOST_NOTED:
            return []
        compilations = list(newest)
        last = next((at for at, entry in enumerate(compilations) if entry is self._last), -1)
        self._last = compilations[-1]
        new = compilations[last + 1 :][: MOST_NOTED - self._noted]
        self._noted += len(new)
        return [_note(entry) for entry in new]


def _list() -> Any:
    """The newest few compilations, oldest first; None if there were none."""
    return getattr(sys.modules.get("torch._dynamo.utils"), "_compilation_metrics", None)


def _note(metrics: Any) -> tuple[int, dict[str, Any]]:
    """Attributes differ between versions of torch; missing ones are None."""
    seconds = getattr(metrics, "entire_frame_compile_time_s", None) or 0.0
    microseconds = getattr(metrics, "duration_us", None)
    start = getattr(metrics, "start_time", None)
    duration = microseconds * 1000 if microseconds else round(seconds * 1e9)
    return duration, {
        "start": None if start is None else round(start * 1e9),
        "id": _text(getattr(metrics, "compile_id", None)),
        "function": _text(getattr(metrics, "co_name", None)),
        "file": _text(getattr(metrics, "co_filename", None)),
        "line": getattr(metrics, "co_firstlineno", None),
        "reason": _text(getattr(metrics, "recompile_reason", None)),
        "failure": _text(getattr(metrics, "fail_type", None)),
        "forward": getattr(metrics, "is_forward", None),
    }


def _text(value: Any) -> str | None:
    return None if value is None else str(value)[:LONGEST]


LEAST_NS = 5_000_000
SHARE = 200
"""A note covers at least this part of all saving so far: some scripts save small things at every
step, for weeks."""


class Saves:
    """Sums up calls until they are worth a note."""

    def __init__(self) -> None:
        self._waiting: dict[CallSite | None, list[int]] = {}
        self._all = 0

    def add(self, site: CallSite | None, duration: int) -> tuple[int, dict[str, Any]] | None:
        """Duration in ns and data of a ``save`` note, None while calls are too short for one."""
        count_and_time = self._waiting.setdefault(site, [0, 0])
        count_and_time[0] += 1
        count_and_time[1] += duration
        self._all += duration
        count, together = count_and_time
        if together < max(LEAST_NS, self._all // SHARE):
            return None
        del self._waiting[site]
        place = site._asdict() if site else {"file": None, "line": None}
        return together, {"count": count, **place}


def file_size(path: Any) -> int | None:
    """Bytes of what was written to ``path``; None where it is no path of a file."""
    return Path(path).stat().st_size if isinstance(path, (str, PurePath)) else None
