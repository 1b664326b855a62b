"""Checks as text, as plain values, as workflow commands of GitHub Actions, and as JUnit XML."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Literal, TypedDict
from xml.etree import ElementTree

import msgspec

from perftui import format as fmt
from perftui.diagnosis.model import Severity
from perftui.experiments.conditions import Difference
from perftui.experiments.history import History, LeftOut, PastRun, Standing
from perftui.report.check.judge import Check, Gate, Repository, State, Verdict, history_lines
from perftui.report.comparison import difference_lines
from perftui.report.findings_as_json import SeverityName, severity_name
from perftui.report.output_text import SCHEMA, InForce, Ratio, Schema, Share, cut, filled, said
from perftui.trace.remote import named
from perftui.trace.text import printable

_NAME_WIDTH = 48
_HEAD = ("check", "found", "limit", "result")


def check_text(gate: Gate) -> str:
    """A row for each check, what is wrong with those that are not ok, what has changed since the
    baseline, and the verdict on the last line."""
    bad = (check for check in gate.checks if check.state is not State.OK)
    reasons = (printable(f"{check.title}: {check.message}") for check in bad)
    return "\n".join([*_table(gate), *reasons, *_since(gate), verdict_line(gate)]) + "\n"


def result_of(check: Check) -> str:
    """``ok``, ``FAILED``, ``not certain`` or ``not judged``."""
    return "FAILED" if check.state is State.FAILED else check.state.value


def verdict_line(gate: Gate) -> str:
    """``FAILED: 1 of 3 checks``; what was not certain is named with what that counts as."""
    checks = fmt.several(len(gate.checks), "check")
    uncertain = sum(check.state is State.NOT_CERTAIN for check in gate.checks)
    counts = "fail" if gate.limits.inconclusive_fails else "pass"
    more = f", {uncertain} not certain (--inconclusive {counts})" if uncertain else ""
    if gate.verdict is Verdict.FAILED:
        return f"FAILED: {len(gate.failed)} of {checks}{more}"
    if gate.verdict is Verdict.NOT_JUDGED:
        unknown = sum(check.state is State.NOT_JUDGED for check in gate.checks)
        return f"not judged: {unknown} of {checks}{more}"
    return f"passed: {checks}{more}"


def _table(gate: Gate) -> Iterator[str]:
    rows = [_HEAD]
    rows += [
        (cut(row.name, _NAME_WIDTH), row.found, row.limit, result_of(row)) for row in gate.checks
    ]
    widths = [max(len(row[at]) for row in rows) for at in range(3)]
    for row in rows:
        yield "  ".join(f"{cell:<{width}}" for cell, width in zip(row, (*widths, 0), strict=True))


def _since(gate: Gate) -> Iterator[str]:
    if gate.history is not None:
        yield from map(printable, history_lines(gate.history))
    elif gate.against is None:
        return
    lines = difference_lines(gate.differences)
    if gate.in_force:
        lines.append(f"in force: {', '.join(gate.in_force)}")
    if gate.history is None:
        same = "" if lines else ": nothing known has changed"
        yield printable(f"against {gate.against}{same}")
    elif not lines and gate.history.first_slow:
        lines.append("nothing known has changed there")
    for line in lines:
        yield f"  {printable(line)}"


_IN_MESSAGE = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A"})
_IN_PROPERTY = _IN_MESSAGE | str.maketrans({":": "%3A", ",": "%2C"})


def github_commands(gate: Gate, repository: Repository) -> str:
    """A line for each finding and each check that is not ok: ``::error file=train.py,line=13,
    title=...::...``. The path is relative to the repository; a file outside has no line."""
    return "".join(f"{line}\n" for line in _lines(gate, repository))


def command(kind: str, properties: dict[str, str], message: str) -> str:
    """One workflow command, escaped as the runner reads it."""
    escaped = {name: value.translate(_IN_PROPERTY) for name, value in properties.items()}
    fields = ",".join(f"{name}={value}" for name, value in escaped.items())
    return f"::{kind} {fields}::{message.translate(_IN_MESSAGE)}"


def _lines(gate: Gate, repository: Repository) -> Iterator[str]:
    for check in gate.checks:
        if check.state is State.OK and check.severity is None:
            continue
        properties = {"title": printable(f"perftui: {check.title}")}
        file = repository.inside(check.file, gate.cwd)
        if file is not None:
            line = {"line": str(check.line)} if check.line else {}
            properties = {"file": printable(file), **line, **properties}
        yield command(_annotation(gate, check), properties, printable(check.message))


def _annotation(gate: Gate, check: Check) -> str:
    if gate.fails(check) or check.state is State.NOT_JUDGED:
        return "error"
    return "notice" if check.severity is Severity.INFO else "warning"


# Characters that XML 1.0 allows in no document, not even as a reference.
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit_xml(gate: Gate, repository: Repository) -> bytes:
    """One ``testcase`` for each check. One that fails has a ``failure``, one that is not judged an
    ``error``, and one that is not certain and passes is ``skipped``; UTF-8."""
    count = {
        "tests": len(gate.checks),
        "failures": len(gate.failed),
        "errors": sum(_outcome(gate, check) == "error" for check in gate.checks),
        "skipped": sum(_outcome(gate, check) == "skipped" for check in gate.checks),
    }
    counted = {name: str(number) for name, number in count.items()}
    suites = ElementTree.Element("testsuites", counted)
    suite = ElementTree.SubElement(
        suites, "testsuite", {"name": allowed(f"perftui check {gate.path.name}"), **counted}
    )
    for check in gate.checks:
        _add(suite, gate, check, repository)
    ElementTree.indent(suites)
    encoded: bytes = ElementTree.tostring(suites, encoding="utf-8", xml_declaration=True)
    return encoded + b"\n"


def allowed(text: str) -> str:
    """``text`` without the characters that XML 1.0 forbids."""
    return _FORBIDDEN.sub("", text)


def _add(suite: ElementTree.Element, gate: Gate, check: Check, repository: Repository) -> None:
    place = {"classname": "perftui", "name": allowed(check.name)}
    if file := repository.shown(check.file, gate.cwd):
        place["file"] = allowed(file)
    if check.line:
        place["line"] = str(check.line)
    case = ElementTree.SubElement(suite, "testcase", place)
    if kind := _outcome(gate, check):
        message = allowed(f"{check.found}; limit: {check.limit}; {result_of(check)}")
        ElementTree.SubElement(case, kind, {"message": message}).text = allowed(check.message)


def _outcome(gate: Gate, check: Check) -> str | None:
    if gate.fails(check):
        return "failure"
    return {State.NOT_JUDGED: "error", State.NOT_CERTAIN: "skipped"}.get(check.state)


class CheckRow(TypedDict):
    """One limit, and what was found."""

    name: Annotated[str, said("The key of a finding, `findings` or `step time`.")]
    found: str
    limit: str
    state: State
    fails: Annotated[
        bool, said("Whether it fails the whole; `inconclusive` decides if not certain.")
    ]
    message: str
    severity: Annotated[SeverityName | None, said("Of a finding.")]
    file: Annotated[str | None, said("Relative to the repository, if the file is in there.")]
    line: int | None


class SeriesRun(TypedDict):
    """One run of the command."""

    run: str
    started_ns: Annotated[int, said("Since the epoch.")]
    step_ns: Annotated[int | None, said("Mean steady step without the slowest and fastest tenth.")]
    commit: Annotated[str | None, said("With `+` if there were uncommitted changes.")]


class HistoryOutput(TypedDict):
    """All earlier runs of the command that the run was held against."""

    place: Annotated[Standing | None, said("Of the run among them; null if its steps say nothing.")]
    usual_ns: Annotated[
        float | None, said("Median step of the usual runs; null with too few of them.")
    ]
    noise: Annotated[
        float | None, said("By which share a step has to be longer to be slower than usual.")
    ]
    slower_since: Annotated[
        str | None, said("The first run since which they are slower, if they are.")
    ]
    last_before: Annotated[
        str | None, said("The run before that one, otherwise the newest earlier run.")
    ]
    runs: Annotated[list[SeriesRun], said("The earlier runs, the oldest first.")]
    left_out: Annotated[list[LeftOut], said("Earlier runs that cannot be compared, and why.")]


class CheckOutput(TypedDict):
    """`perftui check`: whether a run or trace is within its limits."""

    schema: Schema
    path: str
    against: Annotated[str | None, said("The baseline; null if there is none.")]
    verdict: Verdict
    fail_on: Annotated[
        SeverityName | None,
        said("The least severity that fails; null if findings are not checked."),
    ]
    max_regression: Share
    inconclusive: Annotated[
        Literal["pass", "fail"], said("What a check counts as if it is not certain.")
    ]
    checks: list[CheckRow]
    ratio: Ratio
    differences: Annotated[
        list[Difference],
        said("What has changed since the baseline, or with a history where it became slower."),
    ]
    changes: InForce
    history: Annotated[HistoryOutput | None, said("Null without `--against history`.")]


def as_object(gate: Gate, repository: Repository) -> CheckOutput:
    """The checks as JSON; unknown is null."""
    limits = gate.limits
    return {
        "schema": SCHEMA,
        "path": named(str(gate.path)),
        "against": named(str(gate.against)) if gate.against else None,
        "verdict": gate.verdict,
        "fail_on": severity_name(limits.fail_on) if limits.fail_on is not None else None,
        "max_regression": limits.max_regression,
        "inconclusive": "fail" if limits.inconclusive_fails else "pass",
        "checks": [
            filled(
                CheckRow,
                check,
                fails=gate.fails(check),
                severity=severity_name(check.severity) if check.severity is not None else None,
                file=repository.shown(check.file, gate.cwd),
            )
            for check in gate.checks
        ],
        "ratio": gate.ratio,
        "differences": msgspec.to_builtins(gate.differences),
        "changes": list(gate.in_force),
        "history": _history(gate.history) if gate.history else None,
    }


def _history(history: History) -> HistoryOutput:
    first, last = history.first_slow, history.last_before
    return filled(
        HistoryOutput,
        history,
        history.level,
        slower_since=first.run_id if first else None,
        last_before=last.run_id if last else None,
        runs=[_run(run) for run in history.before],
    )


def _run(run: PastRun) -> SeriesRun:
    manifest = run.conditions.manifest
    dirty = "+" if manifest.git_dirty else ""
    return {
        "run": run.run_id,
        "started_ns": manifest.started_ns,
        "step_ns": run.usual_ns,
        "commit": f"{manifest.git_commit}{dirty}" if manifest.git_commit else None,
    }
