"""A report as Markdown, for a pull request or an issue: what is slow, what it costs, what helps."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from perftui import format as fmt
from perftui.diagnosis.model import Figure, Finding, Severity
from perftui.diagnosis.rules import answer_to
from perftui.facts.step.steps import StepBreakdown
from perftui.fixes.option import FixOption
from perftui.report.output_text import joined, printable
from perftui.report.report import MOST_ROWS, OpRow, Report, Totals
from perftui.report.wording import (
    NO_VERDICT,
    breakdown_rows,
    breakdown_title,
    findings_with_fixes,
    gain_of,
    heading,
    pairs_text,
    proof_of_fix,
    short_value,
    state_text,
    valued,
)

_MARKS = re.compile(
    r"[\\`*\[\]~$]"  # code, emphasis, links, formulas
    r"|(?<![^\W_])_|_(?![^\W_])"  # within a word it is no emphasis
    r"|^[-+=]|(?<=^\d)[.)](?= |$)|(?<=^\d\d)[.)](?= |$)"  # lists and headings
)

_ENTITIES = {"&": "&amp;", "<": "&lt;", "@": "&#64;", "#": "&#35;"}
"""``@name`` would call a person, ``#12`` name an issue, also behind a backslash."""

_TICKS = re.compile("`+")


def plain(text: str) -> str:
    """``text`` as it is read, on one line."""
    marked = _MARKS.sub(r"\\\g<0>", printable(text))
    safe = re.sub("[&<@#]", lambda match: _ENTITIES[match[0]], marked)
    return re.sub("^>", "&gt;", safe)


def code(text: str) -> str:
    """``text`` as code."""
    shown = printable(text)
    ticks = "`" * (_longest_ticks(shown) + 1)
    is_edged = shown.startswith(("`", " ")) or shown.endswith(("`", " "))
    pad = " " if not shown or (is_edged and shown.strip()) else ""
    return f"{ticks}{pad}{shown}{pad}{ticks}"


def fenced(text: str) -> Iterator[str]:
    """Lines of a diff as a block of code."""
    lines = text.split("\n")
    fence = "`" * max(3, 1 + max(map(_longest_ticks, lines)))
    yield f"{fence}diff"
    # Tabs of a source stay; other control characters are spelled out.
    yield from ("\t".join(map(printable, line.split("\t"))) for line in lines)
    yield fence


def table(
    heads: Sequence[str], rows: Sequence[Sequence[str]], numbers: Sequence[int] = ()
) -> Iterator[str]:
    """A table of cells that are Markdown already; columns ``numbers`` stand at the right. Nothing
    without rows."""
    if not rows:
        return
    yield _row(heads)
    yield _row(["--:" if at in numbers else "---" for at in range(len(heads))])
    yield from map(_row, rows)


def folded(title: str, lines: Iterable[str]) -> Iterator[str]:
    """``lines`` that are opened by a click on ``title``; nothing without lines."""
    body = list(lines)
    if body:
        # Markdown within a block of HTML begins and ends at an empty line.
        yield from (f"<details><summary>{plain(title)}</summary>", "", *body, "", "</details>")


def _row(cells: Iterable[str]) -> str:
    escaped = (cell.replace("|", "\\|") for cell in cells)
    return f"| {' | '.join(escaped)} |"


def _longest_ticks(text: str) -> int:
    return max(map(len, _TICKS.findall(text)), default=0)


def render(report: Report) -> str:
    """The findings first, then the parts of a step; tables that are long can be opened."""
    most = report.top or MOST_ROWS
    not_judged = report.diagnosis.not_judged.items()
    blocks = (
        _heading(report),
        *_findings(report),
        *(_breakdown(breakdown) for breakdown in report.breakdowns),
        folded("Operators, longest first", _ops(report.ops[:most], report.totals)),
        folded("Kernels and copies, longest first", _kernels(report.kernels[:most], report.totals)),
        folded(
            "Not judged",
            (f"- {plain(why)}: {', '.join(map(code, rules))}" for why, rules in not_judged),
        ),
        folded("Notes", (f"- {plain(note)}" for note in report.notes)),
    )
    return joined(blocks)


def _heading(report: Report) -> Iterator[str]:
    title, *lines = heading(report)
    if report.subject.run is None:
        # Its directories name a person's machine.
        title = report.subject.path.name
    yield f"## {plain(title)}"
    if report.redaction is not None:
        yield ""
        yield plain(report.redaction.head)
    if lines:
        yield ""
        yield "  \n".join(map(plain, lines))


def _findings(report: Report) -> Iterator[Iterator[str]]:
    diagnosis = report.diagnosis
    if diagnosis.waits_for:
        yield iter([plain(diagnosis.waits_for)])
    elif not diagnosis.findings:
        yield iter([NO_VERDICT])
    for finding, fixes in findings_with_fixes(report):
        yield _finding(finding, report, fixes)


def _finding(finding: Finding, report: Report, fixes: list[FixOption]) -> Iterator[str]:
    if finding.severity is Severity.HEALTHY:
        yield "### Healthy"
    else:
        gain = f": {text}" if (text := gain_of(finding, report)) else ""
        yield f"### {code(finding.rule)}, {finding.severity.name.lower()}{plain(gain)}"
    yield ""
    yield plain(finding.headline)
    yield ""
    yield f"- **Confidence** {finding.confidence.value}"
    if answer := answer_to(finding):
        yield f"- **What to do** {plain(answer)}"
    for fix in fixes:
        yield from _fix(fix, report)
    yield ""
    yield from folded("Evidence", _evidence(finding.facts))


def _fix(fix: FixOption, report: Report) -> Iterator[str]:
    state = f" ({plain(text)})" if (text := state_text(fix)) else ""
    yield f"- **Fix** {code(fix.fix)}: {plain(fix.title)}{state}"
    proof = proof_of_fix(fix, report)
    if proof is not None:
        yield f"  - Measured: **{plain(proof.headline)}**, {pairs_text(proof)}"
    for risk in fix.risks:
        yield f"  - Risk: {plain(risk.value)}"
    if fix.why_not and not fix.is_written:
        yield f"  - Not written by perftui: {plain(fix.why_not)}"
    if fix.advice and fix.patch is None:
        yield f"  - By hand: {code(fix.advice)}"
    if fix.patch is not None:
        yield ""
        yield from (f"  {line}" if line else "" for line in fenced(fix.patch.diff()))


def _evidence(facts: Iterable[Figure]) -> Iterator[str]:
    rows = [
        (
            plain(figure.shown_label),
            plain(short_value(figure)),
            plain(valued(figure.threshold, figure.unit)) if figure.threshold is not None else "",
            code(figure.place.short) if figure.place and figure.place.short else "",
        )
        for figure in facts
    ]
    return table(("figure", "value", "limit", "place"), rows, numbers=(1, 2))


def _breakdown(breakdown: StepBreakdown) -> Iterator[str]:
    what, over = breakdown_title(breakdown)
    yield f"**{what}** ({over})"
    yield ""
    rows = [
        (plain(name), f"{time / 100:.2f} ms", f"{share / 10:.1f} %")
        for name, time, share in breakdown_rows(breakdown)
    ]
    yield from table(("part", "time", "share"), rows, numbers=(1, 2))


def _ops(rows: tuple[OpRow, ...], totals: Mapping[str, Totals]) -> Iterator[str]:
    cells = [
        (code(row.name), f"{row.calls:,}", fmt.duration(row.cpu_own or 0), _device(row.device))
        for row in rows
    ]
    whole = totals.get("operators")
    if whole is not None and whole.rows > len(rows):
        own = fmt.duration(whole.cpu_own or 0)
        cells.append((f"all {whole.rows:,}", f"{whole.calls:,}", own, _device(whole.device)))
    return table(("operator", "calls", "own CPU", "device"), cells, numbers=(1, 2, 3))


def _kernels(rows: tuple[OpRow, ...], totals: Mapping[str, Totals]) -> Iterator[str]:
    cells = [(code(row.name), f"{row.calls:,}", _device(row.device)) for row in rows]
    whole = totals.get("kernels")
    if whole is not None and whole.rows > len(rows):
        cells.append((f"all {whole.rows:,}", f"{whole.calls:,}", _device(whole.device)))
    return table(("kernel or copy", "calls", "device"), cells, numbers=(1, 2))


def _device(ns: int) -> str:
    return fmt.duration(ns) if ns else "–"
