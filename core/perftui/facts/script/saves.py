"""Calls of ``torch.save`` on the training thread within the steady steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from perftui.analysis.intervals import union
from perftui.facts.events import events_of
from perftui.facts.fact import Facts, fact
from perftui.facts.place import Place
from perftui.facts.step.steady import usual_distance
from perftui.facts.step.steps import steady_rows
from perftui.run.table import Table
from perftui.trace.model import Int64


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
        key = str(data.get("file") or ""), _number(data, "line", 0)
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
    of_training = [_of_training(data) for data in found["data"].tolist()]
    found = found.where(np.array(of_training, dtype=np.bool_))
    during = union(rows["start"], rows["start"] + rows["duration"])
    time = during.within(found["time"] - found["duration"], found["time"])
    return found.where(time > 0), time[time > 0]


def _of_training(data: object) -> bool:
    return isinstance(data, Mapping) and data.get("trains") is not False


def _number(data: Mapping[str, object], name: str, otherwise: int) -> int:
    value = data.get(name)
    return value if isinstance(value, int) else otherwise
