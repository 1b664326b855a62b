"""What the reading threads tell the app, as facts that have happened."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.message import Message

if TYPE_CHECKING:
    from pathlib import Path

    from perftui.analysis.model import TraceAnalysis
    from perftui.facts.ranks import RankTable
    from perftui.trace.nsys.exporting import Exporting
    from perftui_tui.reading.output_tail import Output
    from perftui_tui.reading.snapshot import Snapshot


class SnapshotReceived(Message):
    """The source has read a newer state; an older one still waiting in the queue is dropped."""

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__()
        self.snapshot = snapshot

    def can_replace(self, message: Message) -> bool:
        """A newer picture makes an older one worthless, so a slow terminal never lags behind."""
        return isinstance(message, SnapshotReceived)


class LoadProgressed(Message):
    """A trace is being read: ``done`` is a fraction from 0 to 1, or says how far the program has
    come that must export it first."""

    def __init__(self, path: Path, done: float | Exporting) -> None:
        super().__init__()
        self.path = path
        self.done = done

    def can_replace(self, message: Message) -> bool:
        """Only the newest progress is worth drawing."""
        return isinstance(message, LoadProgressed)


class PreviewReceived(Message):
    """The first part of a trace can be drawn while the rest is read; it has no tables yet."""

    def __init__(self, path: Path, analysis: TraceAnalysis) -> None:
        super().__init__()
        self.path = path
        self.analysis = analysis

    def can_replace(self, message: Message) -> bool:
        """A longer part holds all of a shorter one."""
        return isinstance(message, PreviewReceived)


class SourceFailed(Message):
    """What was asked for cannot be shown; ``reason`` says why and what to do.

    ``is_all`` is False where only a part of it is missing.
    """

    def __init__(self, reason: str, *, is_all: bool = True) -> None:
        super().__init__()
        self.reason = reason
        self.is_all = is_all


class OutputReceived(Message):
    """The script has printed more."""

    def __init__(self, output: Output) -> None:
        super().__init__()
        self.output = output

    def can_replace(self, message: Message) -> bool:
        """The newest view holds everything an older one does, within bounds."""
        return isinstance(message, OutputReceived)


class RanksRead(Message):
    """One more of the ranks' traces at ``paths`` has been read; ``done`` so far."""

    def __init__(self, paths: tuple[tuple[int, Path], ...], table: RankTable, done: int) -> None:
        super().__init__()
        self.paths = paths
        self.table = table
        self.done = done

    def can_replace(self, message: Message) -> bool:
        """A later table holds all of an earlier one."""
        return isinstance(message, RanksRead)
