"""What the agent saw when it looked at the process a few times: who traces Python, what grows; and
debugging tools left on: anomaly detection, a profiler of the script's own."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Any

import numpy as np

from perftui.analysis import kinds
from perftui.analysis.model import TraceAnalysis
from perftui.facts.cpu.operators import NODE
from perftui.facts.fact import Facts, UnknownError, events_of, fact, notes_of, trace_fact
from perftui.facts.place import Place
from perftui.facts.step.trace_steps import trace_steps
from perftui.trace.model import NONE, Int64

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


_IS_NAN = "aten::isnan"
_CHECK = re.compile(r"aten::(isnan|_is_any_true|any|item|is_nonzero|ne)$")

FEWEST = 4
"""Fewest checks in the steady steps of a trace: a network of one layer has more."""


@trace_fact
def anomaly_checks(analysis: TraceAnalysis) -> tuple[Int64, int, int] | None:
    """Rows of the operators that check gradients, in the steady steps; the gradients checked, and
    the nodes of backward passes, each of which recorded its stack. None if none is checked.

    In each node of backward, after its own operators, the engine calls ``isnan`` and ``any`` on
    each gradient and reads the result. Unknown if the trace has no duration."""
    steps, trace = trace_steps(analysis), analysis.trace
    if steps is None:
        raise UnknownError("the trace has no duration")
    if _IS_NAN not in trace.names:
        return None
    nodes = kinds.named(trace, lambda name: name.startswith(NODE))
    passed = np.flatnonzero(nodes)
    passed = passed[steps.inside[passed]]
    rows = np.flatnonzero(kinds.operators(trace) & kinds.named(trace, _CHECK.match))
    rows = rows[steps.inside[rows]].astype(np.int64)
    above = trace.parent[rows]
    rows = rows[(above != NONE) & nodes[above]]
    checks = int(np.count_nonzero(kinds.named(trace, _IS_NAN.__eq__)[rows]))
    return (rows, checks, len(passed)) if checks >= FEWEST else None


@fact
def runs_own_profiler(facts: Facts) -> bool:
    """Whether the agent has seen the script's own profiler start, in the words of any version."""
    said = (str(note.get("message")) for note in notes_of(facts.events, "warning"))
    return any(re.match("the script runs .*profiler", message) for message in said)
