"""The tables of a report as CSV, by name, with all their rows: times in ns, unknown is None.

Every cell reads back as what it was, whatever it holds."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from perftui import format as fmt
from perftui.analysis.model import Gap, StepParts, TraceAnalysis
from perftui.diagnosis.rules import answer_to
from perftui.facts.fact import Facts, NotApplicableError, UnknownError
from perftui.facts.gpu.idle import counts_all, gap_place, line_of_gap, trace_span
from perftui.facts.gpu.roofline import step_calls
from perftui.facts.source.lines import stack_samples
from perftui.facts.step.trace_steps import trace_steps
from perftui.report.findings_as_json import severity_name
from perftui.report.output_text import printable, replaced
from perftui.report.report import OpRow, Report, longest_kernels
from perftui.report.wording import NO_VERDICT
from perftui.run.columns import PHASES, phase_name
from perftui.run.table import Table, consistent_rows
from perftui.trace.model import Mask, TraceError

Source = tuple[int | None, str | None, str | None]
"""What the host did in a gap: the number of the step that it begins in, the operator, and
``file:line`` of the user's code; None where that is not known."""


@dataclass(frozen=True, eq=False)
class GapSources:
    """Finds the source of gaps of one trace."""

    facts: Facts

    def of(self, gap: Gap) -> Source:
        """The source of ``gap`` by the stacks of the trace, else by stack samples of its run."""
        steps, analysis = trace_steps.or_none(self.facts), self.facts.analysis
        if steps is None or analysis is None:
            return None, None, None
        place = gap_place(gap, steps)
        line = place.source
        if line is None and self._samples:
            seen = line_of_gap(self._samples, analysis, gap)
            first = seen.lines[0] if seen and seen.lines else None
            line = first.source if first and first.file else None
        return self._step_at(gap.start, analysis), place.operator, line

    def _step_at(self, time: int, analysis: TraceAnalysis) -> int | None:
        if not analysis.steps:
            return None
        number = bisect_right(self._starts, time) - 1
        step = analysis.step_parts[number].step if number >= 0 else None
        return step.index if step and time < step.end else None

    @cached_property
    def _starts(self) -> list[int]:
        """When each step begins; they follow one another."""
        analysis = self.facts.analysis
        return [row.step.start for row in analysis.step_parts] if analysis else []

    @cached_property
    def _samples(self) -> tuple[Table, ...]:
        """Stack samples taken during the trace: a run may have hours of others."""
        analysis = self.facts.analysis
        origin = analysis.trace.wall_origin if analysis else None
        if analysis is None or origin is None:
            return ()
        first, last = trace_span(analysis)
        tables = (table for table in stack_samples(self.facts) if len(table))
        meeting = (
            one.where((one["time"] + one["held"] > origin + first) & (one["time"] < origin + last))
            for one in tables
        )
        return tuple(table for table in meeting if len(table))


Cell = str | int | float | None
"""Text, a number, or nothing where it is not known."""

_QUOTED = re.compile(r'[",\r\n]|^\s|\s$')
"""What a cell needs quotes for. Python's own writer leaves a carriage return bare, which its reader
then refuses."""


@dataclass(frozen=True)
class CsvTable:
    """One table with all of its rows, each as long as ``heading``."""

    heading: tuple[str, ...]
    """Names of the columns, with the unit where there is one."""
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""
    """Why there are no rows, or not all; for a person."""


def csv_text(table: CsvTable, *, for_terminal: bool = False) -> str:
    """The heading and the rows, each on a line that ends in a line feed.

    Text is exact, also what a spreadsheet takes for a formula: a mark in front of it would change
    names. ``for_terminal`` spells control characters as escapes."""
    lines = (table.heading, *table.rows)
    return "".join(f"{','.join(_cells(line, for_terminal))}\n" for line in lines)


def _cells(line: Iterable[Cell], for_terminal: bool) -> Iterable[str]:
    for cell in line:
        text = "" if cell is None else str(cell)
        text = printable(text) if for_terminal else replaced(text)
        doubled = text.replace('"', '""')
        yield f'"{doubled}"' if _QUOTED.search(text) else text


def step_columns(steps: Sequence[StepParts]) -> dict[str, tuple[int, ...]]:
    """Columns ``index``, ``start`` and ``duration``, and of each part in drawing order: times in ns
    since the trace's start, 0 ns for a part that a step does not have."""
    names = dict.fromkeys(name for row in steps for name, _ in row.parts)
    parts = [dict(row.parts) for row in steps]
    return {
        "index": tuple(row.step.index for row in steps),
        "start": tuple(row.step.start for row in steps),
        "duration": tuple(row.step.duration for row in steps),
        **{name: tuple(part.get(name, 0) for part in parts) for name in names},
    }


_TIMES = ("start (ns)", "duration (ns)")
_OF_RUN = ("index", "kind", "start", "duration")


def steps_table(facts: Facts) -> CsvTable:
    """The steps of the run, with starts since the epoch; without a run those of the trace, with
    starts since its first event."""
    if facts.run is not None or facts.analysis is None:
        return _of_run(facts)
    return _of_trace(facts.analysis)


def _of_run(facts: Facts) -> CsvTable:
    steps = facts.steps
    heading = ("step", "kind", *_TIMES, *_titles(PHASES))
    if not len(steps):
        return CsvTable(heading, (), "no steps were recorded")
    complete = consistent_rows(steps)
    first = zip(*(steps[name].tolist() for name in _OF_RUN), strict=True)
    parts = zip(*(steps[phase].tolist() for phase in PHASES), strict=True)
    unknown = (None,) * len(PHASES)
    rows = tuple(
        (*step, *(times if is_whole else unknown))
        for step, times, is_whole in zip(first, parts, complete.tolist(), strict=True)
    )
    return CsvTable(heading, rows, "; ".join(_left_out(facts, complete)))


def _titles(parts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"{phase_name(part)} (ns)" for part in parts)


def _left_out(facts: Facts, whole: Mask) -> Iterator[str]:
    summed = facts.steps.sums.of().rows
    if summed:
        yield f"{summed:,} of {summed + len(whole):,} steps are only kept as sums and have no row"
    if not whole.all():
        several = fmt.several(int((~whole).sum()), "step")
        yield f"the parts of {several} do not sum to the duration and are left empty"


def _of_trace(analysis: TraceAnalysis) -> CsvTable:
    steps = step_columns(analysis.step_parts)
    titles = (title.replace("perftui", "profiler") for title in _titles(tuple(steps)[3:]))
    heading = ("step", *_TIMES, *titles)
    if not analysis.steps:
        return CsvTable(heading, (), "no steps are marked in the trace")
    return CsvTable(heading, tuple(zip(*steps.values(), strict=True)))


_OPS = ("calls", "own CPU (ns)", "total CPU (ns)", "device (ns)")
_KERNELS = (
    *("kernel or copy", "category", "calls", "device (ns)"),
    *("shortest (ns)", "median (ns)", "longest (ns)"),
)
_GAPS = (
    *("device", "start (ns)", "end (ns)", "duration (ns)"),
    *("cause", "phase", "step", "operator", "line"),
)
_RATES = (
    *("operator", "sizes", "longest kernel", "category", "precision", "calls", "time (ns)"),
    *("FLOP", "bytes", "FLOP/s", "bytes/s", "FLOP/byte", "limit", "of limit", "could save (ns)"),
)
_FINDINGS = (
    *("finding", "severity", "confidence", "cost (ns)", "step (ns)", "share"),
    *("line", "operator", "sentence", "what to do", "fixes"),
)


def table_named(name: str, report: Report) -> CsvTable:
    """The table ``name`` of ``TABLES``: all rows, or the first ``report.top``."""
    table = TABLES[name](report)
    return replace(table, rows=table.rows[: report.top])


def _ops(report: Report, head: str, ops: tuple[OpRow, ...], what: str) -> CsvTable:
    analysis = report.subject.analysis
    has_gpu = analysis is not None and analysis.has_gpu
    rows = tuple(
        (row.name, row.calls, row.cpu_own, row.cpu_total, row.device if has_gpu else None)
        for row in ops
    )
    return CsvTable((head, *_OPS), rows, _why_none(report, rows, what))


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
        times = (gap.device, gap.start, gap.end, gap.duration)
        phase = phase_name(gap.phase) if gap.phase else None
        rows.append((*times, gap.cause.value, phase, *sources.of(gap)))
    what = "gaps" if analysis and analysis.has_gpu else "GPU activity"
    note = _why_none(report, tuple(rows), what)
    if not counts_all(report.facts):
        note = "only the longest gaps of each device have a row"
    return CsvTable(_GAPS, tuple(rows), note)


def rates(facts: Facts) -> CsvTable:
    """What operators with equal sizes of inputs computed, moved and reached in the first step."""
    try:
        found = step_calls(facts)
    except (UnknownError, NotApplicableError, TraceError) as error:
        return CsvTable(_RATES, (), str(error))
    rows: list[tuple[Cell, ...]] = []
    for one in found.calls:
        kernel = (one.kernel, one.category.value) if one.kernel else (None, None)
        times = one.precision.value if one.flops and one.kernel else None, one.calls, one.time
        work = one.flops or None, one.bytes or None
        each = one.flop_rate, one.byte_rate, one.intensity
        limit = one.bound, one.reached if one.roof else None, one.saved
        rows.append((one.operator, one.sizes, *kernel, *times, *work, *each, *limit))
    share = fmt.percent(found.covered / found.whole)
    return CsvTable(_RATES, tuple(rows), f"the rows are {share} of the time of the first step")


def _findings(report: Report) -> CsvTable:
    rows = []
    for cause in report.diagnosis.findings:
        judged = (severity_name(cause.severity), cause.confidence.value)
        # Without a step to compare with, the cost is not known.
        cost = (cause.cost_ns, cause.step_ns, cause.share) if cause.step_ns else (None, None, None)
        place = (cause.place.source, cause.place.operator) if cause.place else (None, None)
        answer = (answer_to(cause) or None, " ".join(cause.fixes) or None)
        rows.append((cause.rule, *judged, *cost, *place, cause.headline, *answer))
    note = "" if rows else report.diagnosis.progress or NO_VERDICT
    return CsvTable(_FINDINGS, tuple(rows), note)


def _why_none(report: Report, rows: tuple[tuple[Cell, ...], ...], what: str) -> str:
    if rows:
        return ""
    if report.subject.analysis is None:
        return "; ".join(report.subject.notes) or "there is no trace"
    return f"the trace contains no {what}"


TABLES: Mapping[str, Callable[[Report], CsvTable]] = {
    "operators": lambda report: _ops(report, "operator", report.ops, "operators"),
    "kernels": _kernels,
    "modules": lambda report: _ops(report, "module", report.modules, "calls of modules"),
    "rates": lambda report: rates(report.facts),
    "steps": lambda report: steps_table(report.facts),
    "gaps": _gaps,
    "findings": _findings,
}
"""How each table is made; times start at the first event of the trace, those of a run's steps at
the epoch."""
