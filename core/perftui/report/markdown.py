"""A report as Markdown, for a pull request or an issue: what is slow, what it costs, what helps."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from perftui.diagnosis.model import Figure, Finding, Severity
from perftui.diagnosis.rules import answer_to
from perftui.fixes.option import FixOption
from perftui.report import text as text_report
from perftui.report.output_text import joined, printable
from perftui.report.report import Report
from perftui.report.wording import (
    NO_VERDICT,
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


def fenced(lines: Sequence[str], kind: str) -> Iterator[str]:
    """Lines as a block of code of that kind, ``diff`` or ``text``."""
    fence = "`" * max(3, 1 + max(map(_longest_ticks, lines), default=0))
    yield f"{fence}{kind}"
    # Tabs of a source stay; other control characters are spelled out.
    yield from ("\t".join(map(printable, line.split("\t"))) for line in lines)
    yield fence


def folded(title: str, lines: Iterable[str]) -> Iterator[str]:
    """``lines`` that are opened by a click on ``title``; nothing without lines."""
    body = list(lines)
    if body:
        # Markdown within a block of HTML begins and ends at an empty line.
        yield from (f"<details><summary>{plain(title)}</summary>", "", *body, "", "</details>")


def _longest_ticks(text: str) -> int:
    return max(map(len, _TICKS.findall(text)), default=0)


def render(report: Report) -> str:
    """The findings first, then the parts of a step; the tables of the report as text fold."""
    not_judged = report.diagnosis.not_judged.items()
    tables = joined(text_report.tables(report)).rstrip("\n").split("\n")
    blocks = (
        _heading(report),
        *_findings(report),
        *(fenced([*text_report.breakdown(one)], "text") for one in report.breakdowns),
        folded("Operators, kernels and memory", fenced(tables, "text") if any(tables) else ()),
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
        yield from (
            f"  {line}" if line else "" for line in fenced(fix.patch.diff().split("\n"), "diff")
        )


def _evidence(facts: Iterable[Figure]) -> Iterator[str]:
    for figure in facts:
        value, place = short_value(figure), figure.place.short if figure.place else ""
        limit = figure.threshold
        at_most = f" (limit {valued(limit, figure.unit)})" if limit is not None else ""
        where = f", {code(place)}" if place and place != value else ""
        yield f"- {plain(f'{figure.shown_label}: {value}{at_most}')}{where}"
