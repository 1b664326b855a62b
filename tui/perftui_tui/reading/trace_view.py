"""From a trace file to the snapshot on screen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from perftui.analysis.analyse import without_tables
from perftui.analysis.model import TraceAnalysis
from perftui.analysis.open_trace import open_trace
from perftui.diagnosis.diagnose import diagnosis
from perftui.facts.fact import Facts
from perftui.facts.step.trace_steps import trace_steps
from perftui.trace.model import Trace
from perftui_tui.reading.snapshot import Phase, Snapshot
from perftui_tui.reading.step_breakdown import of_trace

if TYPE_CHECKING:
    from perftui.trace.nsys.report import Exporting


def view_trace(
    path: Path,
    now_ns: int,
    progress: Callable[[float | Exporting], None],
    cancelled: Callable[[], bool],
    preview: Callable[[TraceAnalysis], None] | None = None,
    facts_of: Callable[[TraceAnalysis], Facts] | None = None,
) -> Snapshot:
    """Read, analyse and judge the trace at ``path``.

    ``progress`` is called with the share that was read, or how far ``nsys`` has come where it must
    export the trace first; ``preview`` with what can be drawn already, now and then while a long
    trace is read. ``facts_of`` makes the facts that it is judged by.

    Raises:
        TraceError: the file is not a trace that can be read.
        OSError: the file cannot be opened.
        LoadCancelled: ``cancelled`` returned True.
    """

    def progressed(read: int, whole: int) -> None:
        progress(read / whole if whole else 1.0)

    def previewed(trace: Trace) -> None:
        if preview is not None:
            preview(without_tables(trace))

    analysis = open_trace(path, progressed, cancelled, previewed, exporting=progress)
    if analysis.timeline_tracks and preview is not None:
        # What was kept can be drawn before it is judged.
        preview(analysis)
    facts = facts_of(analysis) if facts_of else Facts(None, analysis)
    whole = analysis.step_parts and analysis.step_parts[0].step.index < 0
    return Snapshot(
        source=path,
        phase=Phase.TRACE,
        title=path.name,
        now_ns=now_ns,
        analysis=analysis,
        facts=facts,
        diagnosis=diagnosis(facts),
        breakdown=of_trace(trace_steps(facts)),
        step_ms=() if whole else tuple(step.duration / 1e6 for step in analysis.steps),
        train_steps=len(analysis.steps),
        problems=analysis.notes,
    )


def judged_with(snapshot: Snapshot, facts: Facts) -> Snapshot:
    """``snapshot`` with the diagnosis of ``facts``."""
    return replace(snapshot, facts=facts, diagnosis=diagnosis(facts))
