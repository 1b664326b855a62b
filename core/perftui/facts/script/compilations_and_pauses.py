"""What makes some steady steps longer: garbage collections, checkpoints and compilations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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

FULL = 2
"""The generation whose collection visits every object."""


@dataclass(frozen=True)
class GcPauses:
    """Garbage collections in the steady steps still kept; times in ns."""

    per_step: int
    """Mean time of a step in collections."""
    outside: int
    """The part of ``per_step`` attributed to the script's own code, outside the phases."""
    count: int
    full: int
    """Number of collections that visited every object."""
    longest: int
    longest_full_mean: int
    """Mean pause of full collections; 0 without any."""
    steps: int
    """Steps with a full collection."""
    lines: LinesByTime | None
    """Lines of the main thread during collections; None with too few samples."""


@fact
def gc_pauses(facts: Facts) -> GcPauses:
    """Collections in the steady steps; zeros if there were none. Unknown with too few steps."""
    step, rows = steady_step(facts), steady_rows(facts)
    if not len(rows):
        raise UnknownError("no steady step is kept individually")
    pauses = gc_pauses_of(facts.events, rows)
    data = pauses["data"].tolist() if len(pauses) else []
    generation: Int64 = np.array([_number(pause, "generation") for pause in data], dtype=np.int64)
    standing: Int64 = np.array([_number(pause, "count", 1) for pause in data], dtype=np.int64)
    time: Int64 = pauses["duration"] if len(pauses) else np.zeros(0, dtype=np.int64)
    full = generation == FULL
    # The share in the script's own code by samples in the pauses, if there are enough.
    outside, lines, stacks = step.part(OTHER) / step.mean, None, moments(facts)
    if stacks is not None and len(pauses):
        during = union(pauses["time"], pauses["time"] + pauses["duration"])
        paused = during.within(stacks.time, stacks.time + stacks.length)
        lines = stacks.lines(paused > 0, paused)
        if int((paused > 0).sum()) >= FEWEST_MOMENTS:
            outside = int(paused[stacks.stage == ""].sum()) / int(paused.sum())
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
    """Collections, or entries for several, that began in one of the steps ``rows``."""
    pauses = events_of(events, "gc")
    during = union(rows["start"], rows["start"] + rows["duration"])
    return pauses.where(during.holds(pauses["time"])) if len(pauses) else pauses


@dataclass(frozen=True)
class Saves:
    """Times in ns, of the steady steps still kept."""

    per_step: int
    """Mean time of a step in saving."""
    count: int
    each: int
    """Mean time of a checkpoint."""
    every: int
    """Steps between checkpoints, if always about the same; else 0."""
    place: Place | None
    """The script's line with most of the time; None if no frame was the script's."""
    size: int
    """Bytes of the largest file; 0 if not known."""


@fact
def saves(facts: Facts) -> Saves | None:
    """Checkpoints in the steady steps; None if none was seen, as in older runs."""
    rows = steady_rows(facts)
    notes, time = saves_within(facts.events, rows)
    if not len(notes):
        return None
    places: dict[tuple[str, int], int] = {}
    count = 0
    for data, ns in zip(notes["data"].tolist(), time.tolist(), strict=True):
        count += _number(data, "count", 1)
        key = str(data.get("file") or ""), _number(data, "line")
        places[key] = places.get(key, 0) + ns
    file, line = max(places, key=lambda place: places[place])
    whole = int(time.sum())
    return Saves(
        per_step=whole // len(rows),
        count=count,
        each=whole // max(count, 1),
        every=usual_distance(np.unique(notes["step"])) if count == len(notes) else 0,
        place=Place(rank=facts.rank_number, file=file, line=line) if file else None,
        size=max(_number(data, "bytes") for data in notes["data"].tolist()),
    )


def saves_within(events: Table, rows: Table) -> tuple[Table, Int64]:
    """Save events in the steps ``rows``, and the ns of each within them.

    An event stands for one long call or several short ones, and is written at its end."""
    saving = events_of(events, "save")
    if not len(saving) or not len(rows):
        return Table(), np.zeros(0, dtype=np.int64)
    notes = saving["data"].tolist()
    of_training = [isinstance(note, Mapping) and note.get("trains") is not False for note in notes]
    saving = saving.where(np.array(of_training, dtype=np.bool_))
    during = union(rows["start"], rows["start"] + rows["duration"])
    time = during.within(saving["time"] - saving["duration"], saving["time"])
    return saving.where(time > 0), time[time > 0]


def compiling_within(
    events: Table, rows: Table
) -> tuple[Sequence[Mapping[str, object]], Int64, int]:
    """Notes on the compilations that began in the steps ``rows``, their starts, and their time
    within these steps, ns; nested ones, such as backward's, count once."""
    compiles = events_of(events, "compile")
    notes = compiles["data"].tolist() if len(compiles) else []
    valid = [isinstance(data, Mapping) and isinstance(data.get("start"), int) for data in notes]
    if not any(valid) or not len(rows):
        return (), np.zeros(0, dtype=np.int64), 0
    compiles = compiles.where(np.array(valid, dtype=np.bool_))
    start: Int64 = np.array([data["start"] for data in compiles["data"].tolist()], dtype=np.int64)
    during = union(rows["start"], rows["start"] + rows["duration"])
    inside = during.holds(start)
    compiles, start = compiles.where(inside), start[inside]
    lasting = union(start, start + compiles["duration"])
    return compiles["data"].tolist(), start, intersect(lasting, during).total


@dataclass(frozen=True)
class PythonLock:
    """Shares of the sampled time, 0 to 1."""

    held: float
    """Another thread held the lock."""
    idle: float | None
    """The main thread neither ran nor waited for a core; None if the kernel does not count it."""
    lines: LinesByTime
    """Lines of the other threads meanwhile."""

    @property
    def waited(self) -> float:
        """Largest share of time in which the main thread may have waited for the lock, 0 to 1."""
        return self.held if self.idle is None else min(self.held, self.idle)


@fact
def python_lock(facts: Facts) -> PythonLock | None:
    """Waits for Python's lock; None if no other thread was seen to hold it, or with too few
    samples."""
    stacks = facts.rank.lock_stacks if facts.rank else None
    if stacks is None or "observed" not in stacks or not len(stacks):
        return None
    span = steady_span(facts)
    if span is not None:
        steady = (stacks["time"] >= span[0]) & (stacks["time"] < span[1])
        stacks = stacks.where(steady) if steady.any() else stacks
    times = stacks["held"]
    if int((times // np.maximum(stacks["every"], 1)).sum()) < FEWEST_TO_NAME:
        return None
    turns = np.unique(np.stack((stacks["observed"], stacks["idle"])), axis=1)
    observed, idle = int(turns[0].sum()), turns[1]
    return PythonLock(
        min(int(times.sum()) / max(observed, 1), 1.0),
        int(idle.sum()) / max(observed, 1) if (idle >= 0).all() else None,
        lines_by_time(stacks, times),
    )
