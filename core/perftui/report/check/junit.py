"""JUnit XML, which most build servers show as tests."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from perftui.report.check.model import Check, Gate, State
from perftui.report.check.repository import Repository
from perftui.report.check.text import result_of

# What XML 1.0 allows in no document, not even as a character reference.
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render(gate: Gate, repository: Repository) -> bytes:
    """One ``testcase`` for each check. One that fails has a ``failure``, one that is not judged an
    ``error``, and one that is not certain and passes is ``skipped``; UTF-8."""
    count = {
        "tests": len(gate.checks),
        "failures": len(gate.failed),
        "errors": sum(_kind(gate, one) == "error" for one in gate.checks),
        "skipped": sum(_kind(gate, one) == "skipped" for one in gate.checks),
    }
    counted = {name: str(number) for name, number in count.items()}
    suites = ElementTree.Element("testsuites", counted)
    suite = ElementTree.SubElement(
        suites, "testsuite", {"name": allowed(f"perftui check {gate.path.name}"), **counted}
    )
    for one in gate.checks:
        _add(suite, gate, one, repository)
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
    if kind := _kind(gate, check):
        message = allowed(f"{check.found}; limit: {check.limit}; {result_of(check)}")
        ElementTree.SubElement(case, kind, {"message": message}).text = allowed(check.message)


def _kind(gate: Gate, check: Check) -> str | None:
    if gate.fails(check):
        return "failure"
    return {State.NOT_JUDGED: "error", State.NOT_CERTAIN: "skipped"}.get(check.state)
