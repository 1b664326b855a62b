"""Workflow commands of GitHub Actions: an annotation for each finding, at its source line."""

from __future__ import annotations

from collections.abc import Iterator

from perftui.diagnosis.model import Severity
from perftui.report.check.model import Check, Gate, State
from perftui.report.check.repository import Repository
from perftui.trace.text import printable

_IN_MESSAGE = {"%": "%25", "\r": "%0D", "\n": "%0A"}
_IN_PROPERTY = {**_IN_MESSAGE, ":": "%3A", ",": "%2C"}


def render(gate: Gate, repository: Repository) -> str:
    """A line for each finding and each check that is not ok: ``::error file=train.py,line=13,
    title=...::...``. The path is relative to the repository; a file outside has no line."""
    return "".join(f"{line}\n" for line in _lines(gate, repository))


def command(kind: str, properties: dict[str, str], message: str) -> str:
    """One workflow command, escaped as the runner reads it."""
    given = ",".join(
        f"{name}={_escaped(value, _IN_PROPERTY)}" for name, value in properties.items()
    )
    return f"::{kind} {given}::{_escaped(message, _IN_MESSAGE)}"


def _lines(gate: Gate, repository: Repository) -> Iterator[str]:
    for one in gate.checks:
        if one.state is State.OK and one.severity is None:
            continue
        properties = {"title": printable(f"perftui: {one.title}")}
        file = repository.inside(one.file, gate.cwd)
        if file is not None:
            line = {"line": str(one.line)} if one.line else {}
            properties = {"file": printable(file), **line, **properties}
        yield command(_kind(gate, one), properties, printable(one.message))


def _kind(gate: Gate, check: Check) -> str:
    if gate.fails(check) or check.state is State.NOT_JUDGED:
        return "error"
    return "notice" if check.severity is Severity.INFO else "warning"


def _escaped(text: str, table: dict[str, str]) -> str:
    return text.translate({ord(char): code for char, code in table.items()})
