"""The messages that reading threads send to the app."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from textual.message import Message

if TYPE_CHECKING:
    from pathlib import Path

    from perftui.analysis.model import TraceAnalysis
    from perftui.facts.ranks.rank_table import RankTable
    from perftui.facts.ranks.traced_ranks import TracedRank
    from perftui.trace.nsys.report import Exporting
    from perftui_tui.reading.output import Output
    from perftui_tui.reading.snapshot import Snapshot


class Newest(Message):
    """Replaces one of its kind that still waits in the queue: a slow terminal never lags behind."""

    def can_replace(self, message: Message) -> bool:
        """Whether ``message`` is an older one of this kind."""
        return isinstance(message, type(self))


@dataclass(eq=False)
class SnapshotReceived(Newest):
    """The source has read a newer state."""

    snapshot: Snapshot


@dataclass(eq=False)
class LoadProgressed(Newest):
    """A trace is being read: ``done`` is a fraction from 0 to 1, or the progress of the program
    that exports it first."""

    path: Path
    done: float | Exporting


@dataclass(eq=False)
class PreviewReceived(Newest):
    """The first part of a trace can be drawn while the rest is read; it has no tables yet."""

    path: Path
    analysis: TraceAnalysis


@dataclass(eq=False)
class SourceFailed(Message):
    """What was asked for cannot be shown; ``reason`` is why, and what to do.

    ``is_all`` is False where only a part of it is missing.
    """

    reason: str
    is_all: bool = field(default=True, kw_only=True)


@dataclass(eq=False)
class OutputReceived(Newest):
    """The script has printed more."""

    output: Output


@dataclass(eq=False)
class RanksRead(Newest):
    """One more of the ranks' traces at ``paths`` has been read; ``done`` so far."""

    paths: tuple[tuple[int, Path], ...]
    table: RankTable
    done: int
    ranks: tuple[TracedRank, ...]
    """Those that could be read."""
    problems: tuple[str, ...]
    """Why others could not."""
