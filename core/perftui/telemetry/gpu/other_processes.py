"""Who else holds memory of the GPUs, by number, program and user."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import psutil

from perftui.telemetry.gpu.processes import ProcessSource
from perftui.telemetry.processes.programs import program

MOST = 8
"""Processes of one GPU that are named, the largest first."""

CHECKED_SECONDS = 10.0
"""How often they are named at most: each is looked up, and the manifest is written."""


@dataclass(frozen=True)
class OtherProcess:
    """A process beside the run; None stands for what is not known."""

    pid: int
    memory: int | None = None
    """Bytes of the GPU."""
    program: str | None = None
    user: str | None = None


class OtherProcesses:
    """Names the processes that ``sources`` found, again whenever others hold memory."""

    def __init__(self, sources: Sequence[ProcessSource]) -> None:
        self._sources = sources
        self._known: dict[str, frozenset[int]] = {}
        self._due = 0.0

    def changed(self, now: float) -> dict[str, list[OtherProcess]] | None:
        """By what the columns of each GPU begin with; None where they are those of before. ``now``
        is in seconds of a clock that nobody sets."""
        # Each is replaced as a whole on the thread that asks the driver.
        held = {one.prefix: one.others for one in self._sources}
        known = {prefix: frozenset(others) for prefix, others in held.items() if others}
        if known == self._known or now < self._due:
            return None
        self._known, self._due = known, now + CHECKED_SECONDS
        return {prefix: _named(held[prefix]) for prefix in known}


def _named(held: dict[int, int | None]) -> list[OtherProcess]:
    largest = sorted(held.items(), key=lambda one: -(one[1] or 0))[:MOST]
    return [_process(pid, memory) for pid, memory in largest]


def _process(pid: int, memory: int | None) -> OtherProcess:
    name = user = None
    # It has ended, or is not to be looked at.
    with suppress(psutil.Error, OSError):
        process = psutil.Process(pid)
        with suppress(psutil.Error, OSError, KeyError):
            user = process.username()
        name = program(process.name(), process.cmdline())
    return OtherProcess(pid, memory, name, user)
