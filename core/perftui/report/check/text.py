"""The checks of a run or trace as text."""

from __future__ import annotations

from collections.abc import Iterator

from perftui import format as fmt
from perftui.report.check.judge import history_lines
from perftui.report.check.model import Check, Gate, State, Verdict
from perftui.report.comparison import difference_lines
from perftui.report.output_text import cut
from perftui.trace.text import printable

_NAME_WIDTH = 48
_HEAD = ("check", "found", "limit", "result")


def render(gate: Gate) -> str:
    """A row for each check, what is wrong with those that are not ok, what has changed since the
    baseline, and the verdict on the last line."""
    return "\n".join([*_table(gate), *_reasons(gate), *_since(gate), verdict_line(gate)]) + "\n"


def result_of(check: Check) -> str:
    """``ok``, ``FAILED``, ``not certain`` or ``not judged``."""
    return "FAILED" if check.state is State.FAILED else check.state.value


def verdict_line(gate: Gate) -> str:
    """``FAILED: 1 of 3 checks``; what was not certain is named with what that counts as."""
    count = len(gate.checks)
    checks = fmt.several(count, "check")
    uncertain = sum(one.state is State.NOT_CERTAIN for one in gate.checks)
    counts = "fail" if gate.limits.inconclusive_fails else "pass"
    more = f", {uncertain} not certain (--inconclusive {counts})" if uncertain else ""
    if gate.verdict is Verdict.FAILED:
        return f"FAILED: {len(gate.failed)} of {checks}{more}"
    if gate.verdict is Verdict.NOT_JUDGED:
        unknown = sum(one.state is State.NOT_JUDGED for one in gate.checks)
        return f"not judged: {unknown} of {checks}{more}"
    return f"passed: {checks}{more}"


def _table(gate: Gate) -> Iterator[str]:
    rows = [_HEAD]
    rows += [
        (cut(one.name, _NAME_WIDTH), one.found, one.limit, result_of(one)) for one in gate.checks
    ]
    widths = [max(len(row[at]) for row in rows) for at in range(3)]
    for row in rows:
        yield "  ".join(f"{cell:<{width}}" for cell, width in zip(row, (*widths, 0), strict=True))


def _reasons(gate: Gate) -> Iterator[str]:
    for one in gate.checks:
        if one.state is not State.OK:
            yield printable(f"{one.title}: {one.message}")


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
