"""A report as plain text, for a terminal, a log or a pull request; or on one screen and in at most
2,000 bytes: the verdict, what to do, what costs most."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from perftui import format as fmt
from perftui.analysis.kernels.names import short_names
from perftui.diagnosis.model import Figure, Finding, Severity
from perftui.diagnosis.rules import answer_to, is_caution
from perftui.facts.gpu.host_waits import syncs
from perftui.facts.step.steps import StepBreakdown, step_breakdown
from perftui.fixes.option import FixOption
from perftui.report.as_json import BriefReport
from perftui.report.findings_as_json import BriefFinding, finding_key, severity_name
from perftui.report.kernel_metrics import trace_metrics
from perftui.report.next_command import best_fix, command, comparison_command, next_command, next_of
from perftui.report.output_text import (
    LETTERS,
    SCHEMA,
    WIDTH,
    cut,
    encode_object,
    fits,
    fitting_lines,
    joined,
    listed,
    printable,
    replaced,
    whole,
    wrapped,
)
from perftui.report.recorded import gpu_tables, recording_lines
from perftui.report.report import MOST_ROWS, OpRow, Report, Totals, listed_modules
from perftui.report.wording import (
    NO_VERDICT,
    breakdown_rows,
    breakdown_title,
    gain_of,
    heading,
    main_thread,
    pairs_text,
    proof_of_fix,
    ranks_text,
    status_text,
    sync_calls,
    valued,
)
from perftui.run.manifest import Status

_NAME_WIDTH = 46
"""Keeps a table row within 80 columns."""


def render(report: Report) -> str:
    """The verdict first, then what it rests on, then what could not be judged."""
    not_judged = report.diagnosis.not_judged.items()
    recorded = recording_lines(report.recording, report.facts) if report.recording else ()
    blocks = (
        (*([report.redaction.head] if report.redaction else []), *heading(report)),
        _verdict(report),
        *map(breakdown, report.breakdowns),
        ranks_text(report.facts),
        *main_thread(report.facts),
        sync_calls(syncs(report.facts)),
        *tables(report),
        listed("Recording", recorded),
        listed("Not judged", (f"{why}: {', '.join(rules)}" for why, rules in not_judged)),
        listed("Notes", report.notes),
    )
    return joined(blocks)


def tables(report: Report) -> Iterator[Iterable[str]]:
    """Operators, modules, kernels, and what was measured on the GPU; a block each."""
    most, totals = report.top or MOST_ROWS, report.totals
    kernels = report.kernels[:most]
    names = short_names((row.name for row in kernels), _NAME_WIDTH)
    modules = listed_modules(report.modules, most)
    yield _table("Operators, longest first", "operator", report.ops[:most], totals.get("operators"))
    yield _table("Modules, longest own time first", "module", modules)
    title = "Kernels and copies, longest first"
    yield _table(title, "kernel or copy", kernels, totals.get("kernels"), names)
    yield trace_metrics(report.metrics)
    for title, _, rows in gpu_tables(report.facts):
        yield title, *(f"  {name:<30} {value:>12}" for name, value in rows)


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
        yield from _finding(finding, report)
        for name in finding.fixes:
            if name in left:
                yield from _fix(left.pop(name), report)
            elif any(fix.fix == name for fix in report.fixes):
                yield f"  Fix {name}: as above"


IF_FIXED = " if this were fixed"


def _finding(finding: Finding, report: Report) -> Iterator[str]:
    healthy = finding.severity is Severity.HEALTHY
    yield finding.severity.name if healthy else f"{finding.severity.name}  {finding.rule}"
    yield f"  {printable(finding.headline)}"
    text = gain_of(finding, report, IF_FIXED)
    gain = f"{text[0].upper()}{text[1:]}. " if text else ""
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


def _fix(fix: FixOption, report: Report) -> Iterator[str]:
    named = {"override": fix.override, "patch": fix.patch, "option": fix.argv}
    forms = [name for name, form in named.items() if form]
    if fix.is_written:
        yield printable(f"  Fix {fix.fix}: {fix.title} ({fix.why_not})")
        return
    yield printable(f"  Fix {fix.fix}: {fix.title} ({', '.join(forms) or 'not possible here'})")
    if proof := proof_of_fix(fix, report):
        yield printable(f"    Measured: {proof.headline}, {pairs_text(proof)}.")
    if fix.why_not:
        no_patch = "No patch" if fix.override else "Not offered"
        yield printable(f"    {no_patch}: {fix.why_not}.")
    if fix.advice:
        yield printable(f"    {fix.advice}")


def breakdown(whole: StepBreakdown) -> Iterator[str]:
    """Where the mean step went, a line for each part."""
    what, over = breakdown_title(whole)
    yield f"{what} ({over})"
    for name, time, share in breakdown_rows(whole):
        yield printable(f"  {name:<24} {time / 100:12.2f} ms  {share / 10:5.1f} %")


def _table(
    title: str,
    head: str,
    rows: tuple[OpRow, ...],
    totals: Totals | None = None,
    names: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[str]:
    """Rows, each by its name in ``names`` if it has one there, and the sums of all."""
    if not rows:
        return
    yield title
    has_own = rows[0].cpu_own is not None
    own = f" {'own CPU':>10}" if has_own else ""
    yield f"  {head:<{_NAME_WIDTH}} {'calls':>7}{own} {'device':>10}"
    if totals and totals.rows > len(rows):
        whole = OpRow(f"all {totals.rows}", totals.calls, totals.cpu_own, None, totals.device)
        rows = (*rows, whole)
    for row in rows:
        own = f" {fmt.duration(row.cpu_own or 0):>10}" if has_own else ""
        device = fmt.duration(row.device) if row.device else "-"
        name = cut(names.get(row.name, row.name), _NAME_WIDTH)
        yield f"  {name:<{_NAME_WIDTH}} {row.calls:>7}{own} {device:>10}"


MOST_FINDINGS = 3

MOST_LINES, MOST_PARTS, MOST_WRITTEN, BAR = 24, 8, 3, 10
"""Lines of a screen, and of the parts of a step and of what a fix writes in it; cells of a bar."""


def brief_text(report: Report) -> str:
    """The report on one screen: the verdict, what to write where, the step, what else was found,
    and the next command."""
    head, tail = list(_head(report)), list(_tail(report))
    room = MOST_LINES - len(head) - len(tail)
    return fitting_lines((*head, *_others(report, room), *tail))


def brief_json(report: Report) -> str:
    """One object on one line. Sentences are cut before commands and findings are left out."""
    return encode_object(brief_object(report), on_one_line=True)


def _head(report: Report) -> Iterator[str]:
    """The verdict with what to write, and the step with what it rests on."""
    diagnosis, top = report.diagnosis, report.diagnosis.top
    if report.redaction is not None:
        yield report.redaction.head
    yield fmt.middle(printable(_heading(report)), WIDTH)
    verdict = f"{top.severity.name}  {top.headline}" if top else "no verdict: too little is known"
    verdict = cut(diagnosis.progress or verdict, 3 * LETTERS)
    yield from wrapped(verdict, "  ", "")
    if top is not None and top.severity is not Severity.HEALTHY:
        gain = (gain_of(top, report, IF_FIXED), f"{top.confidence.value} confidence")
        yield f"  {top.rule}: {', '.join(filter(None, gain))}"
        yield from _answer(top, report)
    beside = [one for one in diagnosis.findings if one is not top and is_caution(one)]
    told = [cut(f"{one.rule}: {one.headline}", LETTERS) for one in beside]
    cautions = [line for text in told for line in wrapped(text, "  ", "")]
    yield from cautions
    for breakdown in report.breakdowns[:1]:
        yield ""
        *parts, (whole, time, _) = breakdown_rows(breakdown)
        claimed = {breakdown.shown(part) for part in top.parts} if top else ()
        yield f"{whole} {time / 100:.2f} ms"
        # Of many the longest, in their order.
        most = max(MOST_PARTS - len(cautions), MOST_FINDINGS)
        longest = sorted(parts, key=lambda part: -part[1])[:most]
        for name, time, share in (part for part in parts if part in longest):
            bar = ("=" * round(share * BAR / 1000)).ljust(BAR)
            mark = f"  <- {top.rule}" if top and name in claimed else ""
            line = f"  {name:<18} {time / 100:9.2f} ms  {share / 10:5.1f} %  {bar}{mark}"
            yield printable(line).rstrip()


def _others(report: Report, room: int) -> Iterator[str]:
    """As many of the other findings and of the notes as there is room for, and the rules of the
    findings that there are besides."""
    causes = [one for one in report.diagnosis.findings if one.severity is not Severity.HEALTHY]
    others = [one for one in causes if one is not report.diagnosis.top and not is_caution(one)]
    lines = []
    for finding in others:
        sentence = f"{severity_name(finding.severity)}  {finding.headline}"
        lines.append(wrapped(cut(sentence, 2 * WIDTH), "  ", ""))
    lines += [wrapped(cut(note, 2 * WIDTH), "  ", "") for note in report.notes]
    shown = 0
    while shown < len(lines) and 2 + sum(map(len, lines[: shown + 1])) <= room:
        shown += 1
    if shown:
        yield ""
    for each in lines[:shown]:
        yield from each
    if left := [one.rule for one in others[shown:]]:
        yield cut(f"{fmt.several(len(left), 'more finding')}: {', '.join(left)}", WIDTH)


def _tail(report: Report) -> Iterator[str]:
    yield ""
    run = report.subject.run
    following, comparing = next_command(report), comparison_command(report)
    everything = command("report", "--full", *([run.root] if run else [report.subject.name]))
    for name, words in (("next", following), ("compare", comparing), ("more", everything)):
        if words:
            # Redacted before it is quoted, as quotes would hide private text.
            yield printable(f"{name}: {shlex.join(map(replaced, words))}")


def _heading(report: Report) -> str:
    run, steady = report.subject.run, step_breakdown(report.facts)
    name = report.subject.name
    if run is not None:
        is_plain = run.manifest.status is Status.EXITED and not run.manifest.exit_code
        state = "" if is_plain else f" - {status_text(run.manifest)}"
        name = f"{run.manifest.script}{state}"
    if steady is None:
        return name
    steps = fmt.several(steady.count, "steady step")
    return f"{name}: {steps}, mean {fmt.duration(steady.mean)}"


def _answer(finding: Finding, report: Report) -> Iterator[str]:
    """What to do about the finding, and what its best fix writes."""
    fix = best_fix(finding, report)
    if answer := answer_to(finding):
        yield from wrapped(cut(f"do: {answer}", 3 * LETTERS), "      ", "  ")
    if fix is None:
        return
    risks = "; ".join([fix.why_not] if fix.is_written else [risk.value for risk in fix.risks])
    yield from wrapped(cut(f"fix {fix.fix}: {fix.title}", LETTERS), "      ", "  ")
    written = fix.advice.splitlines()
    if not written and fix.patch is not None:
        written = [line for line in fix.patch.diff().splitlines() if line[:1] in "+-"]
    for line in written[:MOST_WRITTEN]:
        yield from wrapped(cut(line, 3 * LETTERS), "        ", "      ")
    if risks:
        yield from wrapped(cut(f"risk: {risks}", 2 * WIDTH), "      ", "  ")


def _place(finding: Finding, letters: int) -> str | None:
    """The line with its whole path where there is room for it; None where nothing is known."""
    place = finding.place
    if place is None:
        return None
    source = place.source or ""
    name = source if len(source) <= letters else place.short
    return cut(name or place.operator or "", letters) or None


def brief_object(report: Report) -> BriefReport:
    """The brief report as JSON, with as many findings as fit."""
    causes = report.diagnosis.findings
    for with_commands in (True, False):
        for letters in (LETTERS, LETTERS // 2, LETTERS // 4):
            brief = _object(report, letters)
            for finding in causes[:MOST_FINDINGS]:
                row = _brief_finding(finding, report, letters)
                brief["findings"].append(row if with_commands else {**row, "next": None})
            brief["more_findings"] = len(causes) - len(brief["findings"])
            if fits(brief):
                return brief
    while not fits(brief):
        brief["findings"].pop()
        brief["more_findings"] += 1
    return brief


def _object(report: Report, letters: int) -> BriefReport:
    top, steady = report.diagnosis.top, step_breakdown(report.facts)
    return {
        "schema": SCHEMA,
        "redacted": report.redacted,
        "path": whole(report.subject.name),
        "verdict": cut(top.headline, letters) if top else None,
        "progress": report.diagnosis.progress or None,
        "steps": report.diagnosis.steady_steps,
        "step_ns": steady.mean if steady else None,
        "findings": [],
        "more_findings": 0,
        "next": whole(next_command(report)),
        "compare": whole(comparison_command(report)),
    }


def _brief_finding(finding: Finding, report: Report, letters: int) -> BriefFinding:
    fix = best_fix(finding, report)
    return {
        "key": finding_key(finding),
        "severity": severity_name(finding.severity),
        "confidence": finding.confidence,
        "cost_ns": finding.cost_ns,
        "share": round(finding.share, 4),
        "place": _place(finding, letters),
        "sentence": cut(finding.sentence, letters),
        "fix": fix.fix if fix else None,
        "answer": cut(answer_to(finding), letters) or None,
        "changes_numerics": fix.changes_numerics if fix else False,
        "next": whole(next_of(finding, report)),
    }
