"""The tables of a report, by name, with all their rows: times in ns, unknown is None."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from perftui.diagnosis.catalogue import answer_to
from perftui.facts.gpu.idle import counts_all
from perftui.report.csv_steps import steps_table
from perftui.report.csv_text import Cell, CsvTable
from perftui.report.finding_json import severity_name
from perftui.report.gap_sources import GapSources
from perftui.report.heading import NO_VERDICT
from perftui.report.report import Report, longest_kernels
from perftui.report.rows import OpRow
from perftui.run.columns import phase_name

_OPS = ("calls", "own CPU (ns)", "total CPU (ns)", "device (ns)")
_KERNELS = (
    *("kernel or copy", "category", "calls", "device (ns)"),
    *("shortest (ns)", "median (ns)", "longest (ns)"),
)
_GAPS = (
    *("device", "start (ns)", "end (ns)", "duration (ns)"),
    *("cause", "phase", "step", "operator", "line"),
)
_FINDINGS = (
    *("finding", "severity", "confidence", "cost (ns)", "step (ns)", "share"),
    *("line", "operator", "sentence", "what to do", "fixes"),
)


def table_named(name: str, report: Report) -> CsvTable:
    """The table of that name, one of ``TABLES``: all rows, or as many as the report is of."""
    table = TABLES[name](report)
    return replace(table, rows=table.rows[: report.top])


def _operators(report: Report) -> CsvTable:
    rows = _op_rows(report.ops, report)
    return CsvTable(("operator", *_OPS), rows, _why_none(report, rows, "operators"))


def _modules(report: Report) -> CsvTable:
    rows = _op_rows(report.modules, report)
    return CsvTable(("module", *_OPS), rows, _why_none(report, rows, "calls of modules"))


def _op_rows(ops: tuple[OpRow, ...], report: Report) -> tuple[tuple[Cell, ...], ...]:
    analysis = report.subject.analysis
    has_gpu = analysis is not None and analysis.has_gpu
    return tuple(
        (row.name, row.calls, row.cpu_own, row.cpu_total, row.device if has_gpu else None)
        for row in ops
    )


def _kernels(report: Report) -> CsvTable:
    rows: tuple[tuple[Cell, ...], ...] = ()
    if analysis := report.subject.analysis:
        table = analysis.kernels
        columns = (table.calls, table.total, table.shortest, table.median, table.longest)
        rows = tuple(
            (table.names[at], table.categories[at], *(int(column[at]) for column in columns))
            for at in longest_kernels(table)
        )
    return CsvTable(_KERNELS, rows, _why_none(report, rows, "kernels"))


def _gaps(report: Report) -> CsvTable:
    analysis = report.subject.analysis
    sources, rows = GapSources(report.facts), []
    for gap in analysis.gaps[: report.top] if analysis else ():
        at = sources.of(gap)
        times = (gap.device, gap.start, gap.end, gap.duration)
        phase = phase_name(gap.phase) if gap.phase else None
        rows.append((*times, gap.cause.value, phase, at.step, at.operator, at.line))
    what = "gaps" if analysis and analysis.has_gpu else "GPU activity"
    note = _why_none(report, tuple(rows), what)
    if not counts_all(report.facts):
        note = "only the longest gaps of each device have a row"
    return CsvTable(_GAPS, tuple(rows), note)


def _findings(report: Report) -> CsvTable:
    rows = []
    for one in report.diagnosis.findings:
        judged = (severity_name(one), one.confidence.value)
        # Without a step to compare with, what it costs is not known.
        cost = (one.cost_ns, one.step_ns, one.share) if one.step_ns else (None, None, None)
        place = (one.place.source, one.place.operator) if one.place else (None, None)
        answer = (answer_to(one.rule) or None, " ".join(one.fixes) or None)
        rows.append((one.rule, *judged, *cost, *place, one.headline, *answer))
    note = "" if rows else report.diagnosis.progress or NO_VERDICT
    return CsvTable(_FINDINGS, tuple(rows), note)


def _why_none(report: Report, rows: tuple[tuple[Cell, ...], ...], what: str) -> str:
    if rows:
        return ""
    if report.subject.analysis is None:
        return "; ".join(report.subject.notes) or "there is no trace"
    return f"the trace contains no {what}"


TABLES: Mapping[str, Callable[[Report], CsvTable]] = {
    "operators": _operators,
    "kernels": _kernels,
    "modules": _modules,
    "steps": lambda report: steps_table(report.facts),
    "gaps": _gaps,
    "findings": _findings,
}
"""How each table is made; times start at the first event of the trace, those of a run's steps at
the epoch."""
