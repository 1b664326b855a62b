"""The selected run in short: its verdict, the mean step, every step, the machine, and what else was
found."""

from __future__ import annotations

from perftui_tui.look.rows import Row, row, wrap
from perftui_tui.panes.gpu_cards import gpu_cards
from perftui_tui.panes.loader import loader
from perftui_tui.panes.machine import cpu, disk, memory
from perftui_tui.panes.meter import draw_chart, draw_line
from perftui_tui.panes.meters import step_time
from perftui_tui.panes.step_bar import step_bar
from perftui_tui.panes.verdict import LABEL_WIDTH, headlines, verdict
from perftui_tui.reading.snapshot import Snapshot
from perftui_tui.widgets.row_view import RowView

FEWEST_CHART_ROWS, MOST_CHART_ROWS = 4, 20

LONGEST_SENTENCE = 3

MOST_CARDS = 8
"""Rows that GPUs get."""


class RunPreview(RowView):
    """Draws a snapshot of a run that is not the one on screen."""

    DEFAULT_CSS = """
    RunPreview { height: 1fr; border: round $chart; display: none; }
    """

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id, title="Selected run")
        self._snapshot: Snapshot | None = None
        self._words = ""

    def show(self, snapshot: Snapshot | None, words: str = "") -> None:
        """Draw ``snapshot``, or ``words`` in its place."""
        self._snapshot, self._words = snapshot, words
        self._redraw()

    def _redraw(self) -> None:
        cells, height = self.content_size
        if self._snapshot is None:
            self.rows = [row((self._words, "dim"))]
        elif cells and height:
            self.rows = preview(self._snapshot, cells, height)


def preview(snapshot: Snapshot, cells: int, height: int) -> list[Row]:
    """As much of the run as fits, what matters most on top."""
    name, text = verdict(snapshot)
    indent = " " * (LABEL_WIDTH + 1)
    first, *rest = wrap(text, cells, "bold", indent)[:LONGEST_SENTENCE] or [row("")]
    rows = [row(name, " ", *first[1:]), *rest, (), *step_bar(snapshot, cells, 0)]
    others = [
        line for one in snapshot.diagnosis.findings[1:] for line in headlines(one, snapshot, cells)
    ]
    left = height - len(rows) - len(others) - 3
    machine = [*gpu_cards(snapshot, cells, MOST_CARDS), *_meters(snapshot, cells)]
    if left - len(machine) - 1 < FEWEST_CHART_ROWS:
        machine = []
    room = min(MOST_CHART_ROWS, left - len(machine) - bool(machine))
    if room >= FEWEST_CHART_ROWS:
        rows += [(), row(("Step time", "bold")), *draw_chart(step_time(snapshot), cells, room)]
    return [*rows, *([(), *machine] if machine else []), (), *others][:height]


def _meters(snapshot: Snapshot, cells: int) -> list[Row]:
    return [
        line for read in (loader, cpu, memory, disk) for line in draw_line(read(snapshot), cells)
    ]
