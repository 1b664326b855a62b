"""The findings, each with its cost, its place, its fixes and the evidence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from perftui.diagnosis.catalogue import answer_to
from perftui.diagnosis.model import Figure, Finding, Severity
from perftui.facts.place import Place
from perftui.fixes.model import FixOption
from perftui.report.figures import short_value, valued
from perftui.report.fixes import findings_with_fixes, pairs_text, proof_of_fix, state_text
from perftui.report.html.element import Element, Node, element
from perftui.report.html.tables import table
from perftui.report.report import Report


def findings(report: Report) -> Iterator[Element]:
    """Each finding, the costliest first."""
    for at, (finding, fixes) in enumerate(findings_with_fixes(report)):
        yield _finding(finding, fixes, report, is_first=at == 0)


def badge(severity: Severity) -> Element:
    """The severity as a word."""
    return element("span", severity.name, class_="badge")


def _finding(
    finding: Finding, fixes: list[FixOption], report: Report, *, is_first: bool
) -> Element:
    healthy = finding.severity is Severity.HEALTHY
    return element(
        "article",
        element(
            "header",
            badge(finding.severity),
            None if healthy else element("h3", element("code", finding.rule)),
            element("span", finding.gain, class_="gain") if finding.gain else None,
        ),
        element("p", finding.headline),
        rows(_facts(finding)),
        *(_fix(fix, report) for fix in fixes),
        _evidence(finding.facts, is_open=is_first),
        class_=f"finding {finding.severity.name.lower()}",
    )


def rows(pairs: Iterable[tuple[str, Node]]) -> Element:
    """Names and what belongs to them, in two columns where there is room."""
    cells = (cell for name, node in pairs for cell in (element("dt", name), element("dd", node)))
    return element("dl", *cells, class_="rows")


def _facts(finding: Finding) -> Iterator[tuple[str, Node]]:
    if finding.place is not None and (where := _where(finding.place)):
        yield "Place", element("code", where)
    more = finding.would_raise_confidence
    yield "Confidence", finding.confidence.value + (f"; {more} would raise it" if more else "")
    if answer := answer_to(finding.rule):
        yield "What to do", answer


def _where(place: Place) -> str:
    """The line without its directories, which name a person's machine; else the operator."""
    return place.short or place.operator or ""


def _fix(fix: FixOption, report: Report) -> Element:
    state, proof = state_text(fix), proof_of_fix(fix, report)
    pairs: list[tuple[str, Node]] = []
    if proof is not None:
        measured = element("span", proof.headline, class_="measured")
        pairs.append(("Measured", element("span", measured, f", {pairs_text(proof)}")))
    if fix.risks:
        pairs.append(("Risk", "; ".join(risk.value for risk in fix.risks)))
    if fix.why_not and not fix.is_written:
        pairs.append(("Not written by perftui", fix.why_not))
    if fix.advice and fix.patch is None:
        pairs.append(("By hand", element("code", fix.advice)))
    return element(
        "div",
        "Fix ",
        element("code", fix.fix),
        f": {fix.title}{f' ({state})' if state else ''}",
        rows(pairs) if pairs else None,
        _diff(fix.patch.diff()) if fix.patch is not None else None,
        class_="fix",
    )


def _diff(text: str) -> Element:
    return element(
        "pre", *(element("span", line or " ", class_=_side(line)) for line in text.split("\n"))
    )


def _side(line: str) -> str | None:
    """What the line of a unified diff is."""
    if line.startswith(("---", "+++", "@@")):
        return "place"
    return {"+": "added", "-": "removed"}.get(line[:1])


def _evidence(facts: tuple[Figure, ...], *, is_open: bool) -> Element | None:
    """The figures as a table, without columns that would be empty."""
    if not facts:
        return None
    limits = any(one.threshold is not None for one in facts)
    places = any(one.place is not None and one.place.short for one in facts)
    heads = ("figure", "value", *(["limit"] if limits else []), *(["place"] if places else []))
    body = [_figure(one, limits=limits, places=places) for one in facts]
    return element(
        "details",
        element("summary", "Evidence"),
        table(heads, body, numbers=False),
        open="" if is_open else None,
    )


def _figure(one: Figure, *, limits: bool, places: bool) -> Element:
    limit = "" if one.threshold is None else valued(one.threshold, one.unit)
    place = one.place.short if one.place else ""
    return element(
        "tr",
        element("td", one.shown_label),
        element("td", short_value(one), class_="f" if one.unit else None),
        element("td", limit, class_="f") if limits else None,
        element("td", element("code", place) if place else None) if places else None,
    )
