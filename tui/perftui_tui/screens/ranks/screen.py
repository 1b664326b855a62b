"""The Ranks screen: every rank of a training side by side, and the one the others wait for."""

from __future__ import annotations

from collections.abc import Iterable

from textual import on
from textual.widget import Widget

from perftui.facts.ranks.rank_table import RankRow, RankTable
from perftui.facts.ranks.rank_table import rank_table as rank_table_of
from perftui_tui.keys.keymap import bindings
from perftui_tui.look.rows import Row
from perftui_tui.reading.snapshot import Snapshot
from perftui_tui.screens.ranks.bars import rank_bars, rank_headline
from perftui_tui.screens.ranks.beside import rank_beside
from perftui_tui.screens.ranks.heat import TALLEST, step_heat
from perftui_tui.screens.ranks.table import RanksView, rank_table
from perftui_tui.screens.run_screen import RunScreen
from perftui_tui.tables.virtual import VirtualTable
from perftui_tui.widgets.row_view import RowView

NO_RANK = "no rank has recorded a step yet"
ONE_TRACE = (
    "only one trace is open: perftui DIR, with the directory of the traces of all ranks, compares "
    "them"
)

FRAME_ROWS = 3
"""The border around the bars, and what their colours mean."""

OTHER_ROWS = 3
"""The header, the verdict and the keys."""

TABLE_ROWS = 3
"""The header of the table, its last row, and a blank."""


class RanksScreen(RunScreen):
    """A table of ranks with the parts of their steps, and a bar for each."""

    NAME = "ranks"
    HELP = (
        "The mean steady step of every rank and its parts, on one scale. Ranks that reduce "
        "gradients together take equally long, because the fast ones wait for the slow one. The "
        "slow rank is the one with the longest steps when the part in which ranks wait (backward, "
        "or exposed communication in a trace) is left out; waits ≤ is the share of that part. From "
        "5 % of a step it is called a straggler. Comm is the exposed communication per step in the "
        "rank's newest profiled window, once the run has ended. A directory of traces shows which "
        'rank arrives last at each collective: "waits caused" is how long all other ranks together '
        "wait there for that rank per step, computing nothing, and the rank with the most is the "
        "straggler. "
        "On a large screen the selected rank is shown next to the median of the others. "
        "{ranks.table.open} shows a rank on all screens."
    )
    BINDINGS = bindings("ranks")

    DEFAULT_CSS = """
    RanksScreen {
        #rank-verdict { height: auto; max-height: 5; overflow: hidden hidden; }
        #ranks-table { height: 1fr; }
        #rank-bars, #rank-heat, #rank-beside {
            border: round $chart; overflow: hidden hidden; display: none;
        }
    }
    """

    _table: RankTable | None = None
    """What is shown."""
    _left = 0
    """Rows that table, bars and steps leave."""

    def body(self) -> Iterable[Widget]:
        """Headline, table, bars, steps, and the selected rank beside the others."""
        yield RowView(id="rank-verdict")
        yield RanksView(id="ranks-table")
        yield RowView(id="rank-bars", title="Mean step of each rank")
        yield RowView(id="rank-heat", title="Steps of each rank")
        yield RowView(id="rank-beside")

    def on_screen_resume(self) -> None:
        """Catch up, and read the ranks' traces where there are any."""
        super().on_screen_resume()
        self.session.rank_traces.read()

    def part_with_keys(self) -> Widget:
        """The table."""
        return self.query_one(RanksView)

    def show(self, snapshot: Snapshot) -> None:
        """Draw the ranks of the run, or those of the directory of traces."""
        traces = self.session.rank_traces
        if snapshot.run is not None:
            self.session.rank_traces.read()
            self._draw(snapshot.ask(rank_table_of), snapshot.rank_number, NO_RANK, traces.doing)
        elif len(self.session.ranks) > 1:
            self._draw(traces.table, traces.rank_of(snapshot.source), traces.doing, traces.doing)
        else:
            self._draw(None, None, ONE_TRACE, "")

    def _draw(self, table: RankTable | None, shown: int | None, empty: str, doing: str) -> None:
        verdict = self.query_one("#rank-verdict", RowView)
        bars = self.query_one("#rank-bars", RowView)
        rows = rank_headline(table, self.size.width, doing)
        verdict.styles.height = max(1, min(5, len(rows)))
        verdict.rows = rows
        windows = self._windows()
        self.query_one(RanksView).show(rank_table(table or RankTable(), shown, empty, windows))
        count = len(table.rows) if table else 0
        bars.display = count > 0 and self.has_class("-tall")
        half = self.size.height // 2
        bars.styles.height = min(count + FRAME_ROWS, half)
        # The bars stand under the table, as long as both fit.
        fits = bars.display and count + TABLE_ROWS <= half
        self.query_one(RanksView).styles.height = count + TABLE_ROWS if fits else "1fr"
        bars.rows = rank_bars(table, bars.content_size.width, min(count + 1, half - 2))
        from perftui.facts.ranks.rank_table import step_grid

        grid = self.snapshot.ask(step_grid) if fits and self.snapshot is not None else None
        heat = self.query_one("#rank-heat", RowView)
        left = self.size.height - OTHER_ROWS - len(rows) - 2 * count - TABLE_ROWS - FRAME_ROWS
        self._table = table
        beside = len(self._beside()) + 2
        spare = left - beside if left - beside >= count + FRAME_ROWS else left
        each = min(max((spare - FRAME_ROWS) // max(count, 1), 1), TALLEST)
        high = min(count * each + FRAME_ROWS, left)
        heat.display = grid is not None and left > FRAME_ROWS
        heat.styles.height = high
        heat.rows = step_heat(grid, heat.content_size.width, high - 2)
        self._left = left - (high if heat.display else 0) if fits else 0
        self._draw_beside()

    def _draw_beside(self) -> None:
        """The selected rank beside the others, where rows are left for it."""
        pane, rows = self.query_one("#rank-beside", RowView), self._beside()
        pane.display = bool(rows) and len(rows) + 2 <= self._left
        pane.styles.height = len(rows) + 2
        pane.entitle(f"Rank {self._selected_rank()} beside the others")
        pane.rows = rows

    def _beside(self) -> list[Row]:
        return rank_beside(self._table, self._selected_rank(), self.size.width - 2)

    def _selected_rank(self) -> int | None:
        row = self.query_one(RanksView).selected_row
        return self._table.rows[row].rank if self._table and row is not None else None

    @on(VirtualTable.RowHighlighted)
    def _row_highlighted(self, event: VirtualTable.RowHighlighted) -> None:
        event.stop()
        self._draw_beside()

    def _windows(self) -> dict[int, RankRow]:
        """Each rank of a run, from its newest window."""
        traces = self.session.rank_traces
        if self.snapshot is None or self.snapshot.run is None or traces.table is None:
            return {}
        return {row.rank: row for row in traces.table.rows}

    @on(VirtualTable.RowSelected)
    def _row_selected(self, event: VirtualTable.RowSelected) -> None:
        event.stop()
        snapshot = self.snapshot
        if snapshot is None:
            return
        table = snapshot.ask(rank_table_of)
        if snapshot.run is not None and table is not None:
            self.session.show_rank(table.rows[event.row].rank)
        elif snapshot.run is None:
            self.session.rank_traces.open(event.row)
