"""When the GPU idled: summed up by cause, then the longest gaps, each with its cause."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual import events
from textual.reactive import reactive

from perftui.format import several
from perftui.run.columns import phase_name
from perftui_tui.look.rows import Row, crop, row
from perftui_tui.look.units import format_ns
from perftui_tui.panes.snapshot_pane import SnapshotPane
from perftui_tui.reading.snapshot import Snapshot

if TYPE_CHECKING:
    from perftui.analysis.model import Gap, TraceAnalysis
    from perftui.facts.gpu.idle import IdleOfCause

LISTED = 50
"""Gaps that can be reached from the list; the timeline has them all."""

CAUSE_WIDTH = 15
NUMBER_WIDTH = 8


def _cause(idle: IdleOfCause, name_device: bool) -> Row:
    device = f"  GPU {idle.device}" if name_device else ""
    gaps = several(idle.count, "gap") if idle.count else "within other gaps"
    longest = f", max {format_ns(idle.longest.duration)}" if idle.longest else ""
    line = f"  {idle.line.short}" if idle.line else ""
    return row(
        " ",
        f"{format_ns(idle.total):>{NUMBER_WIDTH}}",
        (f"  {idle.cause.value:<{CAUSE_WIDTH}}", "bold"),
        (f"  {gaps}{longest}{device}", "dim"),
        (line, "accent"),
    )


def _gap(gap: Gap, analysis: TraceAnalysis, selected: bool, name_device: bool) -> Row:
    mark = (">", "accent") if selected else (" ", "")
    device = f"  GPU {gap.device}" if name_device else ""
    return row(
        mark,
        (f"{format_ns(gap.duration):>{NUMBER_WIDTH}}", "bold" if selected else ""),
        f"  {gap.cause.value:<{CAUSE_WIDTH}}",
        (f"  at {format_ns(gap.start):<{NUMBER_WIDTH}}{device}", "dim"),
        (f"  {_host(gap, analysis)}", "dim"),
    )


def _host(gap: Gap, analysis: TraceAnalysis) -> str:
    """The op in which the launching thread was meanwhile; empty where it is not known."""
    from perftui.trace.model import NONE

    name = analysis.trace.name_of(gap.operator_row) if gap.operator_row != NONE else ""
    phase = phase_name(gap.phase)
    return "  ".join(part for part in (phase, name) if part and part != gap.cause.value)


class GapList(SnapshotPane):
    """Sums by cause, then the gaps, of which one is selected; a click on one opens it."""

    selected: reactive[int] = reactive(0, init=False, repaint=False)
    """Which gap, from 0, the longest."""

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's name
        super().__init__(self._draw_gaps, id=id, title="GPU idle")

    @property
    def gap(self) -> Gap | None:
        """The selected gap; None where the trace has none."""
        gaps = self._gaps()
        return gaps[min(self.selected, len(gaps) - 1)] if gaps else None

    def move(self, step: int) -> None:
        """Select the next gap (1) or the one before (-1)."""
        self.selected = max(0, min(len(self._gaps()) - 1, self.selected + step))

    def watch_selected(self) -> None:
        """Mark another gap, and keep it in sight."""
        self._redraw()
        top, height = self.scroll_offset.y, self.content_size.height
        at = self.selected + len(self._causes()) if self.selected else 0
        if not top <= at < top + height:
            self.scroll_to(y=max(0, at - height + 1), animate=False)

    async def on_click(self, event: events.Click) -> None:
        """Open the gap that was clicked."""
        place = event.get_content_offset(self)
        at = self.scroll_offset.y + place.y - len(self._causes()) if place is not None else -1
        if 0 <= at < len(self._gaps()):
            self.selected = at
            await self.run_action("screen.show_gap")

    def _gaps(self) -> tuple[Gap, ...]:
        snapshot = self._snapshot
        return snapshot.analysis.gaps[:LISTED] if snapshot and snapshot.analysis else ()

    def _causes(self) -> tuple[IdleOfCause, ...]:
        from perftui.facts.gpu.idle import idle_by_cause

        return (self._snapshot.ask(idle_by_cause) or ()) if self._snapshot else ()

    def _draw_gaps(self, snapshot: Snapshot, cells: int, height: int) -> list[Row]:  # noqa: ARG002
        """One row for each cause: its time, of how many gaps it is the largest part, the longest of
        them, and the line; then one for each gap, longest first:
        duration, cause, when, and what the host did."""
        gaps, analysis = self._gaps(), snapshot.analysis
        if analysis is None or not gaps:
            return [row(("no gap between GPU activities in this trace", "dim"))]
        many = len({gap.device for gap in gaps}) > 1
        causes = [_cause(idle, many) for idle in self._causes()]
        rows = (_gap(gap, analysis, at == self.selected, many) for at, gap in enumerate(gaps))
        return [crop(one, cells - 1) for one in (*causes, *rows)]
