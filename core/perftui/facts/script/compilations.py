"""What ``torch.compile`` compiled within the steady steps, as torch itself reports."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from perftui.analysis.intervals import intersect, union
from perftui.facts.events import events_of
from perftui.facts.fact import Facts, fact
from perftui.facts.step.steps import steady_rows
from perftui.run.table import Table
from perftui.trace.model import Int64
from perftui.trace.text import printable


@dataclass(frozen=True)
class Compilations:
    """Compilations in the steady steps that are still kept; times in ns."""

    per_step: int
    """Mean time of a step in them."""
    count: int
    """Functions compiled, once for each time."""
    again: int
    """How many of them had been compiled before, for other inputs."""
    steps: int
    """Steps that compile."""
    function: str
    """The one that is compiled most often."""
    file: str
    line: int
    """Where it is defined; empty and 0 where that is not in the script's own code."""
    reason: str
    """Why it was compiled again the last time; empty where torch gives no reason."""


@fact
def compilations(facts: Facts) -> Compilations | None:
    """Compilations in the steady steps; None without any, as in runs of older agents."""
    rows = steady_rows(facts)
    found, start = _begun_within(facts.events, rows)
    if not len(found):
        return None
    # Backward is compiled with its forward, once for both.
    forward = [data for data in found["data"].tolist() if data.get("forward") is not False]
    functions = Counter(_function(data) for data in forward)
    name, file, line = functions.most_common(1)[0][0] if functions else ("", "", 0)
    reasons = [printable(str(data["reason"])) for data in forward if data.get("reason")]
    return Compilations(
        per_step=_time(found, start, rows) // len(rows),
        count=len(forward),
        again=len(reasons),
        steps=len(np.unique(np.searchsorted(rows["start"], start, side="right"))),
        function=name,
        file=file,
        line=line,
        reason=reasons[-1] if reasons else "",
    )


def compiling_within(events: Table, rows: Table) -> int:
    """Time of compilations that began in the steps ``rows``, as far as it lies in them, ns."""
    found, start = _begun_within(events, rows)
    return _time(found, start, rows)


def _begun_within(events: Table, rows: Table) -> tuple[Table, Int64]:
    """Notes of the compilations that began in those steps, and when."""
    found = events_of(events, "compile")
    notes = found["data"].tolist() if len(found) else []
    known = [isinstance(data, Mapping) and isinstance(data.get("start"), int) for data in notes]
    if not any(known) or not len(rows):
        return Table(), np.zeros(0, dtype=np.int64)
    found = found.where(np.array(known, dtype=np.bool_))
    start: Int64 = np.array([data["start"] for data in found["data"].tolist()], dtype=np.int64)
    inside = union(rows["start"], rows["start"] + rows["duration"]).holds(start)
    return found.where(inside), start[inside]


def _time(found: Table, start: Int64, rows: Table) -> int:
    """One within another, such as backward's within a step's, takes no time of its own."""
    if not len(found):
        return 0
    during = union(rows["start"], rows["start"] + rows["duration"])
    return intersect(union(start, start + found["duration"]), during).total


def _function(data: Mapping[str, object]) -> tuple[str, str, int]:
    """Name, file and line; a module is compiled through a function of torch's own."""
    file, line = str(data.get("file") or ""), data.get("line")
    if not file or "/torch/_dynamo/" in file or not isinstance(line, int):
        return "", "", 0
    return printable(str(data.get("function") or "")), printable(file), line
