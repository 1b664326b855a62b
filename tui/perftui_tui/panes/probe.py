"""A measurement of the machine as rows: in one line under each screen, and in full."""

from __future__ import annotations

from perftui.format import several
from perftui_tui.look.format import elapsed
from perftui_tui.look.rows import Row, Span, row, wrap
from perftui_tui.panes.status_line import status_line
from perftui_tui.reading.experiment_state import Stage
from perftui_tui.reading.probe_state import ProbeState

USUAL_CELLS = 79
"""Columns of the table, as ``perftui probe`` prints it."""


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
        from perftui.report.probe import text as report

        return [*rows, (), *(row(line) for line in report(state.found, state.kept).splitlines())]
    if not state.stage.is_over:
        rows.append(row((elapsed(int(state.elapsed(now) * 1e9)), "dim")))
    return [*rows, *(row(("  measured  ", "dim"), name) for name in state.names)]


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
    return (f"measured {several(len(state.found.rates), 'peak rate')} of this machine", "good")
