"""Everything a report holds, whatever it is written as."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from perftui.analysis.model import KernelTable, OpTable, TraceAnalysis
from perftui.analysis.ops.call_detail import OUTSIDE
from perftui.diagnosis.diagnose import diagnosis
from perftui.diagnosis.model import Diagnosis
from perftui.facts.fact import Facts
from perftui.facts.notes import notes
from perftui.facts.step.steps import StepBreakdown, step_breakdown
from perftui.facts.step.trace_steps import trace_steps
from perftui.fixes.catalogue import options
from perftui.fixes.option import FixOption
from perftui.report.kernel_metrics import TraceMetrics, join_metrics
from perftui.report.recorded import RecordedRun, recording_of
from perftui.report.redaction.private_forms import Redaction
from perftui.report.subject import Subject
from perftui.trace.ncu import KernelMetrics


@dataclass(frozen=True)
class Totals:
    """Sums over all rows of a table, listed or not; times in ns."""

    rows: int
    calls: int
    cpu_own: int | None
    device: int


@dataclass(frozen=True)
class OpRow:
    """One operator or kernel; times in ns."""

    name: str
    calls: int
    cpu_own: int | None
    """Without the operators it calls, with the runtime calls in it (``cudaLaunchKernel``): torch's
    ``key_averages()`` leaves those out of "Self CPU" and lists them as rows of their own."""
    cpu_total: int | None
    device: int


MOST_ROWS = 10
"""Operators and kernels listed in text, where no other number is asked for."""


@dataclass(frozen=True, eq=False)
class Report:
    """A diagnosis with what it rests on."""

    subject: Subject
    facts: Facts
    diagnosis: Diagnosis
    fixes: tuple[FixOption, ...]
    """Fixes for all findings, without repeats: those of the costliest finding first, its best one
    before the others."""
    breakdowns: tuple[StepBreakdown, ...]
    """Where the mean step went: in the training thread of a run, and in a trace."""
    ops: tuple[OpRow, ...]
    """Operators by device time, those without any by their own CPU time."""
    kernels: tuple[OpRow, ...]
    modules: tuple[OpRow, ...] = ()
    """Modules by the time of each itself, as ``ops``; the last is for what ran in none."""
    recording: RecordedRun | None = None
    """How a run was recorded."""
    metrics: TraceMetrics | None = None
    """ncu's metrics of the kernels, if they were given too."""
    top: int | None = None
    """Rows that were asked for."""
    totals: Mapping[str, Totals] = field(default_factory=dict)
    """Totals of the tables ``operators``, ``kernels`` and ``modules``."""
    redaction: Redaction | None = None
    """The redaction, if the report is redacted."""

    @property
    def redacted(self) -> list[str] | None:
        """What is redacted, None where nothing is."""
        return list(self.redaction.what) if self.redaction is not None else None

    @property
    def notes(self) -> tuple[str, ...]:
        """What was skipped, and what the evidence cannot show, without repeats."""
        of_metrics = self.metrics.notes if self.metrics else ()
        return tuple(dict.fromkeys((*self.subject.notes, *notes(self.facts), *of_metrics)))


def make_report(
    subject: Subject, measured: KernelMetrics | None = None, top: int | None = None
) -> Report:
    """Diagnose ``subject``; with a trace, what ncu ``measured`` is joined to its kernels.

    Tables hold the ``top`` rows of most time, all without ``top``."""
    analysis = subject.analysis
    facts = subject.facts
    judged = diagnosis(facts)
    fixes = (fix for finding in judged.findings for fix in options(finding, facts))
    return Report(
        subject,
        facts,
        judged,
        tuple({fix.fix: fix for fix in fixes}.values()),
        tuple(_breakdowns(facts)),
        _longest(analysis.ops, top) if analysis else (),
        _kernels(analysis, top) if analysis else (),
        listed_modules(_longest(analysis.modules, None), top) if analysis else (),
        recording_of(subject.run) if subject.run else None,
        join_metrics(measured, analysis.kernels) if measured is not None and analysis else None,
        top,
        _totals(analysis) if analysis else {},
    )


def _totals(analysis: TraceAnalysis) -> dict[str, Totals]:
    totals = {}
    for name, table in (("operators", analysis.ops), ("modules", analysis.modules)):
        calls, own = int(table.calls.sum()), int(table.cpu_self.sum())
        totals[name] = Totals(len(table), calls, own, int(table.device_self.sum()))
    kernels = analysis.kernels
    totals["kernels"] = Totals(
        len(kernels), int(kernels.calls.sum()), None, int(kernels.total.sum())
    )
    return totals


def _breakdowns(facts: Facts) -> Iterator[StepBreakdown]:
    of_run, of_trace = step_breakdown(facts), trace_steps.or_none(facts)
    if of_run:
        yield of_run
    if of_trace and (of_trace.has_gpu or not of_run):
        yield of_trace.breakdown


def listed_modules(rows: tuple[OpRow, ...], most: int | None) -> tuple[OpRow, ...]:
    """The first ``most`` of ``rows``, and what ran in no module."""
    outside = tuple(row for row in rows if row.name == OUTSIDE)
    return tuple(row for row in rows if row.name != OUTSIDE)[:most] + outside


def longest_ops(ops: OpTable) -> list[int]:
    """The rows of ``ops`` in the order of a report: by device time, those without any by their own
    CPU time, then by name."""
    device, own, names = ops.device_self, ops.cpu_self, ops.names
    return sorted(range(len(ops)), key=lambda row: (-int(device[row]), -int(own[row]), names[row]))


def longest_kernels(kernels: KernelTable) -> list[int]:
    """The rows of ``kernels`` in the order of a report."""
    names, total = kernels.names, kernels.total
    return sorted(range(len(kernels)), key=lambda row: (-int(total[row]), names[row]))


def _longest(ops: OpTable, most: int | None) -> tuple[OpRow, ...]:
    return tuple(
        OpRow(
            ops.names[row],
            int(ops.calls[row]),
            int(ops.cpu_self[row]),
            int(ops.cpu_total[row]),
            int(ops.device_self[row]),
        )
        for row in longest_ops(ops)[:most]
    )


def _kernels(analysis: TraceAnalysis, top: int | None) -> tuple[OpRow, ...]:
    table = analysis.kernels
    return tuple(
        OpRow(table.names[row], int(table.calls[row]), None, None, int(table.total[row]))
        for row in longest_kernels(table)[:top]
    )
