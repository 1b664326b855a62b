"""What the agent saw when it looked at the process a few times: who traces Python, what grows."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import Any

from perftui.facts.fact import Facts, fact, notes_of
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
