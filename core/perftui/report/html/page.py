"""A report as one HTML file: no script, no network, nothing beside it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from perftui.diagnosis.model import Abstention
from perftui.facts.step.trace_steps import trace_steps
from perftui.report.heading import NO_VERDICT
from perftui.report.html.about import about, title
from perftui.report.html.breakdown import breakdown
from perftui.report.html.element import Element, Node, element, section, written
from perftui.report.html.findings import badge, findings
from perftui.report.html.lines import lines
from perftui.report.html.measured import measured
from perftui.report.html.ranks import ranks
from perftui.report.html.recorded import recorded
from perftui.report.html.step_chart import step_chart
from perftui.report.html.step_times import step_times
from perftui.report.html.style import style_sheet
from perftui.report.html.tables import kernels, modules, operators
from perftui.report.html.timeline import timeline
from perftui.report.report import Report

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
"""Whatever a name in the file tries, a browser loads nothing and runs nothing."""


def render(report: Report) -> str:
    """The whole file."""
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=POLICY),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="referrer", content="no-referrer"),
        element("title", f"{title(report)} - perftui"),
        element("style", style_sheet()),
    )
    body = element("body", element("main", *_body(report)), _footer())
    return f"<!DOCTYPE html>\n{written(element('html', head, body, lang='en'))}\n"


def _body(report: Report) -> Iterator[Element]:
    yield element("h1", title(report))
    if report.redaction is not None:
        yield element("p", report.redaction.head, class_="dim")
    pairs = (cell for name, text in about(report) for cell in _pair(name, text))
    yield element("dl", *pairs, class_="about")
    yield _verdict(report)
    yield from _section("Findings", findings(report))
    yield from map(breakdown, report.breakdowns)
    times = step_times(report.facts)
    yield from _section("Steps over time", [step_chart(times)] if times else [])
    steps = trace_steps.or_none(report.facts)
    yield from _section(
        "Timeline of a step" if steps and steps.steps else "Timeline",
        [timeline(steps)] if steps else [],
    )
    yield from _section("Ranks", _known(ranks(report.facts)))
    yield from lines(report.facts)
    yield from _section("Operators, longest first", _known(operators(report)))
    yield from _section("Kernels and copies, longest first", _known(kernels(report)))
    yield from _section("Modules, longest own time first", _known(modules(report)))
    yield from _known(measured(report.metrics))
    yield from recorded(report)
    yield from _section("Notes", _list(report.notes))
    yield from _section("Not judged", _not_judged(report.diagnosis.abstentions))


def _pair(name: str, text: str) -> tuple[Element, Element]:
    return element("dt", name), element("dd", text)


def _verdict(report: Report) -> Element:
    diagnosis = report.diagnosis
    if diagnosis.top is None:
        return element("p", diagnosis.progress or NO_VERDICT, class_="verdict none")
    severity = diagnosis.top.severity
    parts: list[Node] = [badge(severity), " ", diagnosis.top.headline]
    if diagnosis.progress:
        parts.append(f" ({diagnosis.progress})")
    return element("p", *parts, class_=f"verdict {severity.name.lower()}")


def _section(name: str, nodes: Iterable[Element]) -> Iterator[Element]:
    """A heading and what stands below it; nothing where there is none."""
    found = list(nodes)
    if found:
        yield section(name, *found)


def _known(node: Element | None) -> Iterator[Element]:
    if node is not None:
        yield node


def _list(lines: Iterable[str]) -> Iterator[Element]:
    found = [element("li", line) for line in lines]
    if found:
        yield element("ul", *found)


def _not_judged(abstentions: Sequence[Abstention]) -> Iterator[Element]:
    """Each reason with the rules that it keeps from judging."""
    reasons = dict.fromkeys(one.reason for one in abstentions)
    found = [_reason(reason, abstentions) for reason in reasons]
    if found:
        yield element("ul", *found)


def _reason(reason: str, abstentions: Sequence[Abstention]) -> Element:
    rules = ", ".join(one.rule for one in abstentions if one.reason == reason)
    return element("li", f"{reason}: ", element("span", rules, class_="dim"))


def _footer() -> Element:
    return element("footer", "Written by perftui report --html. The file loads nothing.")
