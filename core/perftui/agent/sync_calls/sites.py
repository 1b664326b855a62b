"""The lines of the user's code that calls come from, each with how often and how long."""

from __future__ import annotations

import os
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

MOST_SITES = 50
"""Handed over, the longest first."""

UNKNOWN = -1
"""How long a call took that is only known to have been, ns."""


class Sites:
    """Calls by the innermost line of the user's own; what is installed or of Python is not."""

    def __init__(self, torch: Any) -> None:
        self._sites: dict[tuple[int, int, str], dict[str, Any]] = {}
        self._own: dict[int, bool] = {}
        """By the number of a code object: its hash is that of all its content."""
        self._kept: list[CodeType] = []
        self._libraries = _libraries(torch)

    def add(self, name: str, frame: FrameType | None, time: int) -> None:
        """A call of ``name`` from ``frame`` has taken ``time`` ns, or ``UNKNOWN``."""
        while frame is not None:
            code = frame.f_code
            own = self._own.get(id(code))
            if own or (own is None and self._learn(code)):
                break
            frame = frame.f_back
        else:
            return
        key = (id(code), frame.f_lasti, name)
        site = self._sites.get(key)
        if site is None:
            site = self._sites[key] = {
                "call": name,
                "file": code.co_filename,
                "line": frame.f_lineno or 0,
                "function": getattr(code, "co_qualname", code.co_name),
                "count": 0,
                "time": 0,
                "longest": 0,
            }
        site["count"] += 1
        if time == UNKNOWN:
            site["time"] = site["longest"] = UNKNOWN
        else:
            site["time"] += time
            site["longest"] = max(site["longest"], time)

    def found(self) -> list[dict[str, Any]]:
        """Each call by its line: ``count``, ``time`` in all and ``longest`` in ns, -1 unknown."""
        return sorted(self._sites.values(), key=lambda site: -site["time"])[:MOST_SITES]

    def _learn(self, code: CodeType) -> bool:
        """Whether ``code`` is the user's own."""
        file = code.co_filename
        own = not (file.startswith(self._libraries) or _is_installed(file))
        self._own[id(code)] = own
        self._kept.append(code)
        return own


def _libraries(torch: Any) -> tuple[str, ...]:
    """Where code lies that is not the user's, besides what is installed: torch also as a checkout,
    and what Python runs without a file."""
    agent = Path(__file__).parents[1]
    directories = (Path(torch.__file__).parent, agent, Path(os.__file__).parent)
    return (*(f"{directory}{os.sep}" for directory in directories), "<frozen")


def _is_installed(file: str) -> bool:
    return "/site-packages/" in file or "/dist-packages/" in file
