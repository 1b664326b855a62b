"""What the agent saw when it looked at the process a few times: who traces Python, what grows."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Any

from perftui.facts.fact import Facts, events_of, fact, notes_of
from perftui.facts.place import Place

_USUAL = {"3.10": 0.036, "3.11": 0.028}
_NEWER = 0.022
"""A short function of Python takes so many times as long as 500 comparisons in C, by version,
where nothing slows it."""

_SAYS = {
    "sys.settrace": "Each call and line is traced by {name} (sys.settrace)",
    "sys.setprofile": "Each call is traced by {name} (sys.setprofile)",
    "sys.monitoring": "Python is traced by {name} (sys.monitoring)",
    "tracemalloc": "Each allocation of Python is traced (tracemalloc)",
    "TorchDispatchMode": "Each operator passes through {name} (a TorchDispatchMode)",
    "TorchFunctionMode": "Each call of torch passes through {name} (a TorchFunctionMode)",
    "-X dev": "Python runs in development mode (-X dev), which checks each allocation",
    "gc.set_debug": "The garbage collector reports what it does (gc.set_debug)",
}


@dataclass(frozen=True)
class Slowed:
    """What slows all of Python in the training process."""

    by: str
    """``sys.settrace`` and the like, or the switch."""
    name: str
    """The function or class that traces; empty for a switch."""
    place: Place | None
    """Where that function begins, if it is one."""
    factor: float
    """How many times as long as usual Python takes, 1 if that does not show."""
    share: float
    """Share of the looks at which it was on, 0 to 1."""

    @property
    def sentence(self) -> str:
        """Its beginning."""
        return _SAYS.get(self.by, f"Python runs with {self.by}").replace("{name}", self.name)


@fact
def slowed(facts: Facts) -> tuple[Slowed, ...]:
    """All that slows Python, one by each means."""
    # The first look is within the warm-up.
    looks = notes_of(facts.events, "look")
    looks = looks[1:] or looks
    version = next((str(note.get("python")) for note in notes_of(facts.events, "process")), "")
    usual = _USUAL.get(version[:4], _NEWER)
    tools: dict[str, dict[str, Any]] = {}
    factors: dict[str, list[float]] = {}
    for look in looks:
        of_look = {str(tool.get("by")): tool for tool in look.get("tools") or ()}
        tools.update(of_look)
        for by in of_look:
            factors.setdefault(by, []).append((look.get("slowed") or 0) / usual)
    return tuple(
        Slowed(
            by,
            str(tool.get("name", "")),
            Place(file=tool["file"], line=tool.get("line")) if tool.get("file") else None,
            max(median(factors[by]), 1),
            len(factors[by]) / len(looks),
        )
        for by, tool in tools.items()
    )


MUCH = 10
"""Least growth of a number of things, besides twice the first: a pool of threads fills once."""


@fact
def piling(facts: Facts) -> tuple[str, int, int, str] | None:
    """What the script adds to throughout the run, such as ``forward hooks``, and how many of them
    the first and the last look saw; the newest, if they are hooks. None without such a thing."""
    looks = notes_of(facts.events, "look")
    names = {what: None for look in looks for what in look.get("counts") or ()}
    for what in names:
        counts = [(look.get("counts") or {}).get(what, 0) for look in looks]
        rises = [after - before for before, after in pairwise(counts)]
        is_much = counts[-1] >= max(2 * counts[0], counts[0] + MUCH)
        # To the end, and never less.
        late = rises[len(rises) // 2 :]
        if is_much and min(rises) >= 0 and sum(map(bool, late)) > len(late) / 2:
            hook = looks[-1].get("hook") if "hooks" in what else None
            return what, counts[0], counts[-1], str((hook or {}).get("name", ""))
    return None


@fact
def subnormal_numbers(facts: Facts) -> tuple[tuple[int, float], ...]:
    """The step of each look, and the share of subnormal numbers among the values that it read in
    parameters, gradients and the optimizer's state; without looks that read none."""
    looks = events_of(facts.events, "look")
    if not len(looks):
        return ()
    both = zip(looks["step"].tolist(), looks["data"], strict=True)
    seen = [(step, look.get("subnormal") or (0, 0)) for step, look in both]
    return tuple((step, small / read) for step, (small, read) in seen if read)
