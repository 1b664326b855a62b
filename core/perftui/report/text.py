"""A report as plain text, for a terminal, a log or a pull request."""

from __future__ import annotations

from collections.abc import Iterator

from perftui import format as fmt
from perftui.analysis.kernels.names import short_names
from perftui.diagnosis.model import Figure, Finding, Severity
from perftui.diagnosis.rules import answer_to
from perftui.facts.gpu import cards
from perftui.facts.gpu.host_waits import syncs
from perftui.facts.step.steps import StepBreakdown, device_phases
from perftui.fixes.option import FixOption
from perftui.report.kernel_metrics import trace_metrics
from perftui.report.output_text import cut, joined, listed, printable
from perftui.report.recorded import gpu_memory, gpu_phases, recording_lines
from perftui.report.report import MOST_ROWS, OpRow, Report, Totals, listed_modules
from perftui.report.wording import (
    NO_VERDICT,
    breakdown_rows,
    breakdown_title,
    heading,
    main_thread,
    ranks_text,
    sync_calls,
    valued,
)

_NAME_WIDTH = 46
"""Keeps a table row within 80 columns."""


def render(report: Report) -> str:
    """The verdict first, then what it rests on, then what could not be judged."""
    most, totals = report.top or MOST_ROWS, report.totals
    not_judged = report.diagnosis.not_judged.items()
    recorded = recording_lines(report.recording, report.facts) if report.recording else ()
    blocks = (
        (*([report.redaction.head] if report.redaction else []), *heading(report)),
        _verdict(report),
        *(_breakdown(breakdown) for breakdown in report.breakdowns),
        ranks_text(report.facts),
        *main_thread(report.facts),
        sync_calls(syncs(report.facts)),
        _ops("Operators, longest first", "operator", report.ops[:most], totals.get("operators")),
        _ops("Modules, longest own time first", "module", listed_modules(report.modules, most)),
        _kernels(report.kernels[:most], totals.get("kernels")),
        trace_metrics(report.metrics),
        gpu_phases(device_phases(report.facts)),
        gpu_memory(cards.gpu_memory(report.facts)),
        listed("Recording", recorded),
        listed("Not judged", (f"{why}: {', '.join(rules)}" for why, rules in not_judged)),
        listed("Notes", report.notes),
    )
    return joined(blocks)


def _verdict(report: Report) -> Iterator[str]:
    diagnosis = report.diagnosis
    if diagnosis.waits_for:
        yield diagnosis.waits_for
    if not diagnosis.findings and not diagnosis.waits_for:
        yield NO_VERDICT
    left = {fix.fix: fix for fix in report.fixes}
    for number, finding in enumerate(diagnosis.findings):
        if number or diagnosis.waits_for:
            yield ""
        yield from _finding(finding)
        for name in finding.fixes:
            if name in left:
                yield from _fix(left.pop(name))
            elif any(fix.fix == name for fix in report.fixes):
                yield f"  Fix {name}: as above"


def _finding(finding: Finding) -> Iterator[str]:
    healthy = finding.severity is Severity.HEALTHY
    yield finding.severity.name if healthy else f"{finding.severity.name}  {finding.rule}"
    yield f"  {printable(finding.headline)}"
    gain = (
        f"{finding.gain[0].upper()}{finding.gain[1:]} if this were fixed. " if finding.gain else ""
    )
    more = finding.would_raise_confidence
    raised = f"; {more} would raise it" if more else ""
    yield f"  {gain}Confidence: {finding.confidence.value}{printable(raised)}."
    for figure in finding.facts:
        yield f"    {_figure(figure)}"
    answer = answer_to(finding)
    if answer:
        yield f"  What to do: {answer}."


def _figure(figure: Figure) -> str:
    value = valued(figure.shown_value, figure.unit)
    limit = "" if figure.threshold is None else f"  (limit {valued(figure.threshold, figure.unit)})"
    source = figure.place.source if figure.place else None
    where = f"  at {source}" if source and source != figure.value else ""
    return printable(f"{figure.shown_label:<32} {value}{limit}{where}")


def _fix(fix: FixOption) -> Iterator[str]:
    named = {"override": fix.override, "patch": fix.patch, "option": fix.argv}
    forms = [name for name, form in named.items() if form]
    if fix.is_written:
        yield printable(f"  Fix {fix.fix}: {fix.title} ({fix.why_not})")
        return
    yield printable(f"  Fix {fix.fix}: {fix.title} ({', '.join(forms) or 'not possible here'})")
    if fix.why_not:
        no_patch = "No patch" if fix.override else "Not offered"
        yield printable(f"    {no_patch}: {fix.why_not}.")
    if fix.advice:
        yield printable(f"    {fix.advice}")


def _breakdown(breakdown: StepBreakdown) -> Iterator[str]:
    what, over = breakdown_title(breakdown)
    yield f"{what} ({over})"
    for name, time, share in breakdown_rows(breakdown):
        yield printable(f"  {name:<24} {time / 100:12.2f} ms  {share / 10:5.1f} %")


def _ops(
    title: str, head: str, rows: tuple[OpRow, ...], totals: Totals | None = None
) -> Iterator[str]:
    if rows:
        yield title
        yield f"  {head:<{_NAME_WIDTH}} {'calls':>7} {'own CPU':>10} {'device':>10}"
    for row in rows:
        own = fmt.duration(row.cpu_own or 0)
        device = fmt.duration(row.device) if row.device else "-"
        yield f"  {_name(row.name)} {row.calls:>7} {own:>10} {device:>10}"
    if totals and totals.rows > len(rows):
        own, device = fmt.duration(totals.cpu_own or 0), fmt.duration(totals.device)
        yield f"  {_name(f'all {totals.rows}')} {totals.calls:>7} {own:>10} {device:>10}"


def _kernels(rows: tuple[OpRow, ...], totals: Totals | None) -> Iterator[str]:
    if rows:
        yield "Kernels and copies, longest first"
        yield f"  {'kernel or copy':<{_NAME_WIDTH}} {'calls':>7} {'device':>10}"
    names = short_names((row.name for row in rows), _NAME_WIDTH)
    for row in rows:
        yield f"  {_name(names[row.name])} {row.calls:>7} {fmt.duration(row.device):>10}"
    if totals and totals.rows > len(rows):
        yield f"  {_name(f'all {totals.rows}')} {totals.calls:>7} {fmt.duration(totals.device):>10}"


def _name(name: str) -> str:
    return f"{cut(name, _NAME_WIDTH):<{_NAME_WIDTH}}"
