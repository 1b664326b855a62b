"""What the agent saw when it looked at the process a few times: who traces Python, what grows."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Any

from perftui.facts.fact import Facts, events_of, fact, notes_of
from perftui.facts.place import Place

_USUAL = {"3.10": 0.18, "3.11": 0.14}
_NEWER = 0.11
"""A short function of Python takes so many times as long as 100 comparisons in C, by version, where
nothing slows it."""

_WHAT = {"sys.setprofile": "Each call", "sys.settrace": "Each call and line"}

_SWITCHES = {
    "tracemalloc": "Python traces each allocation (tracemalloc)",
    "dev": "Python runs in development mode, which checks each allocation",
    "debug build": "This Python is a debug build",
    "importtime": "Python times each import",
    "gc.set_debug": "The garbage collector reports what it does (gc.set_debug)",
}


@dataclass(frozen=True)
class Slowed:
    """What slows all of Python in the training process."""

    by: str
    """``sys.settrace`` and the like, or the switch."""
    sentence: str
    factor: float
    """How many times as long as usual Python takes, 1 if that does not show."""
    share: float
    """Share of the looks at which it was on, 0 to 1."""
    name: str = ""
    """The function or class that traces; empty for a switch."""
    place: Place | None = None
    """Where that function begins, if it is one."""


@fact
def slowed(facts: Facts) -> tuple[Slowed, ...]:
    """All that slows Python, at most one by each means."""
    looks = notes_of(facts.events, "look")
    version = next((str(note.get("python")) for note in notes_of(facts.events, "process")), "")
    usual = _USUAL.get(".".join(version.split(".")[:2]), _NEWER)
    found: dict[str, tuple[Slowed, list[float]]] = {}
    for look in looks:
        for one in (*map(_traced, look.get("tools") or ()), *map(_switched, look["interpreter"])):
            found.setdefault(one.by, (one, []))[1].append((look.get("slowed") or 0) / usual)
    return tuple(
        Slowed(one.by, one.sentence, max(median(of), 1), len(of) / len(looks), one.name, one.place)
        for one, of in found.values()
    )


def _traced(tool: dict[str, Any]) -> Slowed:
    by, name = str(tool.get("by")), str(tool.get("name"))
    sentence = f"{_WHAT.get(by, 'Python')} is traced by {name} ({by})"
    file, line = tool.get("file"), tool.get("line")
    return Slowed(by, sentence, 1, 1, name, Place(file=file, line=line) if file else None)


def _switched(switch: str) -> Slowed:
    return Slowed(switch, _SWITCHES.get(switch, f"{switch} is on"), 1, 1)


@dataclass(frozen=True)
class Piling:
    """A number of things that grows from look to look."""

    what: str
    """``forward hooks``."""
    first: int
    last: int
    name: str
    """The newest hook, where most of them are; empty if they are none."""


MUCH = 10
"""Least growth of a number of things, besides twice the first: a pool of threads fills once."""


@fact
def piling(facts: Facts) -> Piling | None:
    """What the script adds to throughout the run; None without such a thing."""
    looks = notes_of(facts.events, "look")
    names = {what: None for look in looks for what in look.get("counts") or ()}
    for what in names:
        counts = [(look.get("counts") or {}).get(what, 0) for look in looks]
        rises = [after - before for before, after in pairwise(counts)]
        is_much = counts[-1] >= max(2 * counts[0], counts[0] + MUCH)
        # To the end, and never less.
        if (
            is_much
            and min(rises) >= 0
            and sum(map(bool, rises[len(rises) // 2 :])) > len(rises) / 4
        ):
            hook = looks[-1].get("hook") if "hooks" in what else None
            return Piling(what, counts[0], counts[-1], str((hook or {}).get("name", "")))
    return None


@fact
def subnormal_numbers(facts: Facts) -> tuple[tuple[int, float], ...]:
    """The step of each look, and the share of subnormal numbers among the values that it read in
    parameters, gradients and the optimizer's state; without looks that read none."""
    looks = events_of(facts.events, "look")
    if not len(looks):
        return ()
    both = zip(looks["step"].tolist(), looks["data"], strict=True)
    seen = [(step, look.get("subnormal")) for step, look in both]
    return tuple((step, pair[0] / pair[1]) for step, pair in seen if pair and pair[1])
