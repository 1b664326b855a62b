"""Calls that make the host wait for the GPU, by line, where they were counted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any

import msgspec

from perftui.facts.events import notes_of
from perftui.facts.fact import Facts, fact
from perftui.trace.text import printable

MOST_CALLS = 20
"""Listed, the longest first."""


@dataclass(frozen=True)
class SyncCall:
    """Calls of one kind from one line; times in ns. Texts are made safe to show."""

    call: str
    """The call as people write it: ``item``, ``x[mask]``."""
    file: str
    line: int
    function: str
    count: int
    time: int
    """ns of all these calls: on a GPU mostly the wait for it. -1 where it is not known, like
    the longest: torch then reports only that they waited."""
    longest: int

    @property
    def source(self) -> str:
        """``file:line``."""
        return f"{self.file}:{self.line}"

    @property
    def short(self) -> str:
        """``item at train.py:31``."""
        return f"{self.call} at {PurePath(self.file).name}:{self.line}"


@dataclass(frozen=True)
class SyncCalls:
    """Synchronizing calls in the windows of a rank, the longest first."""

    calls: tuple[SyncCall, ...]
    steps: int
    """Profiled steps that it was counted in."""
    on_gpu: bool
    """Whether the calls waited for a GPU; else they would, if the training used one."""

    @property
    def title(self) -> str:
        """What the list is, in words."""
        return "Calls that wait for the GPU" if self.on_gpu else "Calls that would wait for a GPU"


class _Counted(msgspec.Struct):
    gpu: bool
    calls: list[SyncCall]


@fact
def syncs(facts: Facts) -> SyncCalls | None:
    """Calls that make the host wait for the GPU; None where they were not counted.

    Windows of a training that came to use its GPU later count with those that had it, alone.
    """
    counted = [found for data in notes_of(facts.events, "window") for found in _read(data)]
    on_gpu = any(found.gpu for found, _ in counted)
    chosen = [(found, steps) for found, steps in counted if found.gpu is on_gpu]
    steps = sum(steps for _, steps in chosen)
    if not steps:
        return None
    calls: dict[tuple[str, str, int], SyncCall] = {}
    for found, _ in chosen:
        for call in found.calls:
            key = (call.call, call.file, call.line)
            calls[key] = _plus(calls[key], call) if key in calls else _safe(call)
    order = sorted(calls.values(), key=lambda call: (-call.time, call.source, call.call))
    return SyncCalls(tuple(order[:MOST_CALLS]), steps, on_gpu)


def _read(data: Mapping[str, Any]) -> list[tuple[_Counted, int]]:
    """Calls in one window, with its steps; nothing where it has none, or is damaged."""
    steps = data.get("steps")
    if "syncs" not in data or not isinstance(steps, int) or steps <= 0:
        return []
    try:
        return [(msgspec.convert(data["syncs"], _Counted), steps)]
    except msgspec.ValidationError:
        return []


def _plus(one: SyncCall, other: SyncCall) -> SyncCall:
    is_known = one.time >= 0 and other.time >= 0
    return replace(
        one,
        count=one.count + other.count,
        time=one.time + other.time if is_known else -1,
        longest=max(one.longest, other.longest) if is_known else -1,
    )


def _safe(call: SyncCall) -> SyncCall:
    return replace(
        call,
        call=printable(call.call),
        file=printable(call.file),
        function=printable(call.function),
    )
