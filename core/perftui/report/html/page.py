"""A report as one HTML file: no script, no network, nothing beside it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timezone

from perftui import __version__
from perftui import format as fmt
from perftui.diagnosis.model import Abstention, Figure, Finding, Severity
from perftui.diagnosis.rules import answer_to
from perftui.facts.step.trace_steps import trace_steps
from perftui.fixes.model import FixOption
from perftui.report.html.element import Element, Node, element, section, written
from perftui.report.html.step_chart import step_chart, step_times
from perftui.report.html.style import style_sheet
from perftui.report.html.tables import (
    breakdown,
    kernels,
    lines,
    measured,
    modules,
    operators,
    ranks,
    recorded,
    table,
)
from perftui.report.html.timeline import timeline
from perftui.report.report import Report
from perftui.report.wording import (
    NO_VERDICT,
    findings_with_fixes,
    hardware_text,
    overhead_text,
    pairs_text,
    proof_of_fix,
    short_value,
    state_text,
    status_text,
    steps_text,
    valued,
)
from perftui.run.manifest import Manifest

NS = 1_000_000_000


def title(report: Report) -> str:
    """The script of a run, or the name of a trace."""
    run = report.subject.run
    return run.manifest.script if run else report.subject.path.name


def about(report: Report) -> Iterator[tuple[str, str]]:
    """Names and values, without what is not known."""
    yield from _run(report.subject.run.manifest) if report.subject.run else _trace(report)
    for line in steps_text(report):
        yield "Steps", line
    for line in overhead_text(report):
        yield "Overhead", line


def _run(manifest: Manifest) -> Iterator[tuple[str, str]]:
    yield "Run", f"{manifest.run_id}, {status_text(manifest)}"
    yield "When", _when(manifest.started_ns)
    yield "Machine", f"{manifest.host}, {hardware_text(manifest)}"
    commit = manifest.git_commit
    if commit:
        yield "Commit", f"{commit[:12]}{', with changes' if manifest.git_dirty else ''}"
    versions = (("Python", manifest.python_version), ("PyTorch", manifest.torch_version))
    own = ("perftui", manifest.perftui_version or __version__)
    yield "Versions", ", ".join(f"{name} {number}" for name, number in (*versions, own) if number)


def _trace(report: Report) -> Iterator[tuple[str, str]]:
    analysis = report.subject.analysis
    if analysis is None:
        return
    trace, count = analysis.trace, len(analysis.steps)
    marked = fmt.several(count, "step") if count else "no steps"
    yield "Trace", f"{len(trace):,} events, {marked} marked"
    if trace.wall_origin is not None:
        yield "When", _when(trace.wall_origin)
    devices = [one.name or f"GPU {one.device}" for one in analysis.activity]
    counts = {name: devices.count(name) for name in dict.fromkeys(devices)}
    named = (f"{count} x {name}" if count > 1 else name for name, count in counts.items())
    yield "Machine", ", ".join(named) or "no GPU activity recorded"
    yield "Versions", f"perftui {__version__}"


def _when(ns: int) -> str:
    """A moment to the minute; UTC, as a reader elsewhere has another clock."""
    try:
        return f"{datetime.fromtimestamp(ns // NS, timezone.utc):%Y-%m-%d %H:%M} UTC"
    except (ValueError, OverflowError, OSError):
        # Files hold any number.
        return "not known"


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


def rows(pairs: Iterable[tuple[str, Node]], kind: str = "rows") -> Element:
    """Names and what belongs to them, in two columns where there is room."""
    cells = (cell for name, node in pairs for cell in (element("dt", name), element("dd", node)))
    return element("dl", *cells, class_=kind)


def _facts(finding: Finding) -> Iterator[tuple[str, Node]]:
    place = finding.place
    # The line without its directories, which name a person's machine; else the operator.
    if place is not None and (where := place.short or place.operator):
        yield "Place", element("code", where)
    more = finding.would_raise_confidence
    yield "Confidence", finding.confidence.value + (f"; {more} would raise it" if more else "")
    if answer := answer_to(finding.rule):
        yield "What to do", answer


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
    footer = element("footer", "Written by perftui report --html. The file loads nothing.")
    body = element("body", element("main", *_body(report)), footer)
    return f"<!DOCTYPE html>\n{written(element('html', head, body, lang='en'))}\n"


def _body(report: Report) -> Iterator[Element]:
    yield element("h1", title(report))
    if report.redaction is not None:
        yield element("p", report.redaction.head, class_="dim")
    yield rows(about(report), "about")
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
    yield from _section("Notes", _list((note,) for note in report.notes))
    yield from _section("Not judged", _not_judged(report.diagnosis.abstentions))


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


def _list(items: Iterable[tuple[Node, ...]]) -> Iterator[Element]:
    found = [element("li", *item) for item in items]
    if found:
        yield element("ul", *found)


def _not_judged(abstentions: Sequence[Abstention]) -> Iterator[Element]:
    """Each reason with the rules that it keeps from judging."""
    rules: dict[str, list[str]] = {}
    for one in abstentions:
        rules.setdefault(one.reason, []).append(one.rule)
    yield from _list(
        (f"{reason}: ", element("span", ", ".join(of), class_="dim"))
        for reason, of in rules.items()
    )
