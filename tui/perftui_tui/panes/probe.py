"""A measurement of the machine as rows: in one line under each screen, and in full."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perftui import format as fmt
from perftui.trace.text import printable
from perftui_tui.look.format import elapsed
from perftui_tui.look.rows import Row, Span, row, wrap
from perftui_tui.panes.trial import status_line
from perftui_tui.reading.experiment_state import ProbeState, Stage

if TYPE_CHECKING:
    from perftui.probe.ceilings import Ceilings

USUAL_CELLS = 70
"""Fits a terminal of 80 columns."""

NAME_CELLS, RATE_CELLS, SPREAD_CELLS = 26, 13, 9
"""Columns of the table."""


def probe_line(state: ProbeState, now: float, cells: int) -> Row:
    """The measurement in one row."""
    clock = (elapsed(int(state.elapsed(now) * 1e9)), "dim")
    return status_line("probe", "", [result(state), clock], cells)


def probe_rows(state: ProbeState, now: float, cells: int) -> list[Row]:
    """What is being measured, then the table."""
    cells = min(USUAL_CELLS, cells)
    text, style = result(state)
    rows = wrap(text, cells, style or "bold")
    if state.problem and state.stage is not Stage.FAILED:
        rows += wrap(state.problem, cells, "warn")
    if state.found is not None:
        from perftui.report.probe import kept_text

        return [
            *rows,
            (),
            *_table(state.found, cells),
            (),
            *wrap(kept_text(state.kept), cells, "dim"),
        ]
    if not state.stage.is_over:
        rows.append(row((elapsed(int(state.elapsed(now) * 1e9)), "dim")))
    return [*rows, *(row(("  measured  ", "dim"), name) for name in state.names)]


def _table(found: Ceilings, cells: int) -> list[Row]:
    """Each rate with its spread, and below it how it was measured."""
    from perftui.report.probe import missing_text

    name, spread = f"{'rate':<{NAME_CELLS}}", f"{'spread':>{SPREAD_CELLS}}"
    rows = [row((f"{name}{'at most':>{RATE_CELLS}}{spread}", "bold"))]
    for rate in found.rates:
        value = f"{fmt.rate(rate.value, rate.unit):>{RATE_CELLS}}"
        spread = f"{fmt.percent(rate.spread):>{SPREAD_CELLS}}"
        rows.append(row(f"{rate.name.value:<{NAME_CELLS}}", value, (spread, "dim")))
        rows += wrap(printable(rate.how), cells, "dim", "  ")
    for missing in found.not_measured:
        rows += wrap(missing_text(missing), cells, "warn")
    return rows


def result(state: ProbeState) -> Span:
    """What there is to say of it at this moment, in a few words."""
    if state.stage is Stage.FAILED:
        return (f"failed: {state.problem}", "bad")
    if state.stage is Stage.STOPPING:
        return ("stopping", "warn")
    if state.stage is Stage.STOPPED:
        return ("stopped: nothing is kept", "warn")
    if state.found is None:
        last = f", {state.names[-1]} done" if state.names else ""
        return (f"measuring what this machine can do{last}", "")
    if state.found.is_disturbed:
        return ("measured, but other programs used the machine", "warn")
    return (f"measured {fmt.several(len(state.found.rates), 'peak rate')} of this machine", "good")
