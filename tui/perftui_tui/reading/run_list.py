"""The recorded runs beside the one on screen, listed and judged on a thread."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from perftui.run.layout import RunLayout
from perftui.run.manifest import ManifestError
from perftui_tui.reading.source import DUTY

if TYPE_CHECKING:
    from perftui.report.recorded import RunSummary
    from perftui.run.reader import RunEntry


LIVE_SECONDS = 30.0
"""Seconds between two readings of a run that lives."""


@dataclass(frozen=True)
class Listed:
    """One run of the list. ``summary`` is None until it has been read, or where it cannot be."""

    entry: RunEntry
    summary: RunSummary | None = None


@dataclass(frozen=True)
class RunList:
    """The runs of one directory, newest first."""

    directory: Path
    runs: tuple[Listed, ...] = ()
    problem: str = ""
    """Why the directory cannot be listed."""


_UNREAD: tuple[object, RunSummary | None] = (None, None)


class RunLister:
    """Lists ``directory`` and judges each run once more only where it has changed."""

    def __init__(self) -> None:
        self._cache: dict[Path, tuple[object, RunSummary | None]] = {}

    def read(
        self,
        directory: Path,
        report: Callable[[RunList], None],
        stopped: threading.Event,
        *,
        sparing: bool = False,
    ) -> None:
        """Report the list at once, then again after each run that had to be read.

        ``sparing`` leaves the machine to a training that runs on it."""
        from perftui.run.reader import list_runs

        try:
            entries = list_runs(directory)
        except OSError as error:
            report(RunList(directory, problem=f"{directory} cannot be listed: {error.strerror}"))
            return
        listed = [Listed(entry, self._cache.get(entry.root, _UNREAD)[1]) for entry in entries]
        report(RunList(directory, tuple(listed)))
        # It loads all rules, for which the list does not wait.
        from perftui.report.recorded import summarise

        for at, entry in enumerate(entries):
            if stopped.is_set():
                return
            stamp = _stamp(entry)
            if entry.manifest is not None and stamp != self._cache.get(entry.root, _UNREAD)[0]:
                began, summary = time.thread_time(), None
                # One that has gone or is damaged meanwhile is shown so when the list is read next.
                with suppress(ManifestError, OSError):
                    summary = summarise(entry.root)
                    self._cache[entry.root] = (stamp, summary)
                listed[at] = Listed(entry, summary)
                report(RunList(directory, tuple(listed)))
                if sparing:
                    stopped.wait((time.thread_time() - began) / DUTY)


def _stamp(entry: RunEntry) -> object:
    """A value that changes with the evidence of a summary: a run that is over is read once more
    when it has been concluded, a live one now and then, since all of it is read."""
    manifest = entry.manifest
    if manifest is not None and not manifest.status.is_over:
        return manifest, time.monotonic() // LIVE_SECONDS
    try:
        status = RunLayout(entry.root).findings.stat()
    except OSError:
        from perftui.report.recorded import is_concluding

        return manifest, manifest is not None and is_concluding(manifest)
    return manifest, (status.st_mtime_ns, status.st_size)
