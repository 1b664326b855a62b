"""Requests from a viewer to the recorder: one small file each, through the run directory."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from perftui.run.files import DAMAGE, open_regular, replace_file
from perftui.run.layout import RunLayout

CAPTURE = "capture"
"""Profile a window now."""

STOP = "stop"
"""End the training: SIGINT, then SIGTERM, then SIGKILL. Asking again goes on at once. ``reason`` is
the value of a ``StopReason``."""

RESIZE = "resize"
"""Give the script's terminal ``rows`` and ``columns``."""

KINDS = (CAPTURE, STOP, RESIZE)


@dataclass(frozen=True)
class Request:
    """What a viewer asks for."""

    kind: str
    data: dict[str, Any] = field(default_factory=dict)


def request(layout: RunLayout, kind: str, **data: Any) -> Path:
    """Ask the recorder of a run for something; returns at once, the recorder serves it soon.

    A window or the end is asked of all recorders of the run.

    Raises:
        ValueError: there is no request of that kind.
        OSError: the run directory cannot be written.
    """
    if kind not in KINDS:
        raise ValueError(f"no request is called {kind!r}; there are {', '.join(KINDS)}")
    # Names sort by time, so that requests are served in the order in which they were made.
    if kind in (CAPTURE, STOP):
        for part in layout.parts():
            request(part, kind, **data)
    path = layout.control / f"{time.time_ns():020d}-{os.getpid()}-{kind}.json"
    replace_file(path, msgspec.json.encode(Request(kind, data)))
    return path


LARGEST = 1024 * 1024
"""Bytes of a request; what is larger is damaged."""


def take_requests(layout: RunLayout) -> list[Request]:
    """Remove and return what was asked for, oldest first; damaged files are only removed.

    A file that cannot be read or removed is passed over.

    Raises:
        OSError: the directory cannot be listed; what was asked for stays there.
    """
    paths = sorted(layout.control.glob("*.json"))
    return [request for path in paths if (request := _take(path)) is not None]


def _take(path: Path) -> Request | None:
    try:
        with open_regular(path) as file:
            content = file.read(LARGEST)
        path.unlink()
        return msgspec.json.decode(content, type=Request)
    except (OSError, *DAMAGE):
        return None
