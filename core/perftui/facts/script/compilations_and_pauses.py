"""What makes some of the steady steps longer: garbage collections, checkpoints and compilations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from perftui.analysis.intervals import intersect, union
from perftui.analysis.steps import OTHER
from perftui.facts.fact import Facts, UnknownError, events_of, fact
from perftui.facts.place import Place
from perftui.facts.source.lines import FEWEST_TO_NAME, LinesByTime, lines_by_time
from perftui.facts.source.stack_profile import FEWEST_MOMENTS, moments
from perftui.facts.step.steps import steady_rows, steady_span, steady_step, usual_distance
from perftui.run.table import Table
from perftui.trace.model import Int64
from perftui.trace.text import printable

FULL = 2
"""The generation whose collection visits every object."""


@dataclass(frozen=True)
class GcPauses:
    """Garbage collections in the steady steps that are still kept; times in ns."""

    per_step: int
    """Mean time of a step in collections."""
    outside: int
    """The part of ``per_step`` taken to lie in the script's own code, outside of the phases."""
    count: int
    full: int
    """How many of them visited every object."""
    longest: int
    longest_full_mean: int
    """Mean pause of those, 0 without any."""
    steps: int
    """Steps with a full collection."""
    lines: LinesByTime | None
    """Where the main thread was in them; None with too few samples."""


@fact
def gc_pauses(facts: Facts) -> GcPauses:
    """Collections in the steady steps; zeros where the collector was not at work. Unknown if there
    are too few steps."""
    step, rows = steady_step(facts), steady_rows(facts)
    if not len(rows):
        raise UnknownError("no steady step is kept individually")
    pauses = gc_pauses_of(facts.events, rows)
    data = pauses["data"].tolist() if len(pauses) else []
    generation: Int64 = np.array([_number(each, "generation") for each in data], dtype=np.int64)
    standing: Int64 = np.array([_number(each, "count", 1) for each in data], dtype=np.int64)
    time: Int64 = pauses["duration"] if len(pauses) else np.zeros(0, dtype=np.int64)
    full = generation == FULL
    # In the script's own code by samples in the pauses, where there are enough.
    outside, lines, found = step.part(OTHER) / step.mean, None, moments(facts)
    if found is not None and len(pauses):
        during = union(pauses["time"], pauses["time"] + pauses["duration"])
        held = during.within(found.time, found.time + found.length)
        lines = found.lines(held > 0, held)
        if int((held > 0).sum()) >= FEWEST_MOMENTS:
            outside = int(held[found.stage == ""].sum()) / int(held.sum())
    per_step = int(time.sum()) // len(rows)
    fulls = int(standing[full].sum())
    return GcPauses(
        per_step=per_step,
        outside=round(per_step * outside),
        count=int(standing.sum()),
        full=fulls,
        longest=int((time // np.maximum(standing, 1)).max(initial=0)),
        longest_full_mean=int(time[full].sum()) // fulls if fulls else 0,
        steps=len(np.unique(pauses["step"][full])) if len(pauses) else 0,
        lines=lines if lines and lines.samples >= FEWEST_MOMENTS else None,
    )


def _number(data: object, name: str, otherwise: int = 0) -> int:
    value = data.get(name, otherwise) if isinstance(data, dict) else otherwise
    return value if isinstance(value, int) else otherwise


def gc_pauses_of(events: Table, rows: Table) -> Table:
    """Collections that began in one of the steps ``rows``, or stand for several from then on."""
    found = events_of(events, "gc")
    during = union(rows["start"], rows["start"] + rows["duration"])
    return found.where(during.holds(found["time"])) if len(found) else found


@dataclass(frozen=True)
class Saves:
    """Times in ns, of the steady steps that are still kept."""

    per_step: int
    """Mean time of a step in them."""
    count: int
    each: int
    """Mean time of one."""
    every: int
    """Steps from one to the next, where that is always about the same; else 0."""
    place: Place | None
    """The line of the script that calls most of the time; None where no frame was the script's."""
    at_place: float
    """Share of their time that this line takes, 0 to 1."""


@fact
def saves(facts: Facts) -> Saves | None:
    """Checkpoints of the steady steps; None where none was seen to be saved, as in older runs."""
    rows = steady_rows(facts)
    found, time = saves_within(facts.events, rows)
    if not len(found):
        return None
    places: dict[tuple[str, int], int] = {}
    count = 0
    for data, held in zip(found["data"].tolist(), time.tolist(), strict=True):
        count += _number(data, "count", 1)
        key = str(data.get("file") or ""), _number(data, "line")
        places[key] = places.get(key, 0) + held
    (file, line), longest = max(places.items(), key=lambda one: one[1])
    whole = int(time.sum())
    return Saves(
        per_step=whole // len(rows),
        count=count,
        each=whole // max(count, 1),
        every=usual_distance(np.unique(found["step"])) if count == len(found) else 0,
        place=Place(rank=facts.rank_number, file=file, line=line) if file else None,
        at_place=longest / whole,
    )


def saves_within(events: Table, rows: Table) -> tuple[Table, Int64]:
    """Notes of saving in the steps ``rows``, and the time of each that lies in them, ns.

    A note stands for one long call, or for several short ones, and is written where it ends.
    """
    found = events_of(events, "save")
    if not len(found) or not len(rows):
        return Table(), np.zeros(0, dtype=np.int64)
    notes = found["data"].tolist()
    of_training = [isinstance(one, Mapping) and one.get("trains") is not False for one in notes]
    found = found.where(np.array(of_training, dtype=np.bool_))
    during = union(rows["start"], rows["start"] + rows["duration"])
    time = during.within(found["time"] - found["duration"], found["time"])
    return found.where(time > 0), time[time > 0]


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


@dataclass(frozen=True)
class PythonLock:
    """Shares of the time that was sampled, 0 to 1."""

    held: float
    """Some other thread held the lock."""
    idle: float | None
    """The main thread neither ran nor waited for a core; None where the kernel has no count."""
    lines: LinesByTime
    """Where the other threads were meanwhile."""

    @property
    def waited(self) -> float:
        """Share of the time in which the main thread waited for the lock at most, 0 to 1."""
        return self.held if self.idle is None else min(self.held, self.idle)


@fact
def python_lock(facts: Facts) -> PythonLock | None:
    """Waits for Python's lock; None where no other thread was seen to hold it, or too few samples
    tell."""
    stacks = facts.rank.lock_stacks if facts.rank else None
    if stacks is None or "observed" not in stacks or not len(stacks):
        return None
    span = steady_span(facts)
    if span is not None:
        steady = (stacks["time"] >= span[0]) & (stacks["time"] < span[1])
        stacks = stacks.where(steady) if steady.any() else stacks
    held = stacks["held"]
    if int((held // np.maximum(stacks["every"], 1)).sum()) < FEWEST_TO_NAME:
        return None
    turns = np.unique(np.stack((stacks["observed"], stacks["idle"])), axis=1)
    observed, idle = int(turns[0].sum()), turns[1]
    return PythonLock(
        min(int(held.sum()) / max(observed, 1), 1.0),
        int(idle.sum()) / max(observed, 1) if (idle >= 0).all() else None,
        lines_by_time(stacks, held),
    )
