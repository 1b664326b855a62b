"""The script's own Python: how long it takes in each step, at which lines, and doing what."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

import numpy as np

from perftui.analysis.model import GapCause
from perftui.analysis.steps.parts import OTHER
from perftui.facts.fact import Facts, UnknownError, fact
from perftui.facts.gc_pauses import gc_pauses
from perftui.facts.judged_step import PYTHON_IN, judged_step
from perftui.facts.line_words import saves, words_of
from perftui.facts.lines import LinesByTime, LineShare, lines_by_time
from perftui.facts.moments import FEWEST_MOMENTS, Moments, moments
from perftui.facts.operator_share import operator_share
from perftui.facts.steady import Mask
from perftui.facts.steps import steady_step
from perftui.run.stack_samples import COMPILE, FORWARD, PROFILE, SAVE

_OF_TORCH = re.compile(r"^(?!torch/utils/tensorboard)(torch|torchvision|transformers)/")
"""Frames of the framework: what the script calls there is not its own Python."""

_COPIES = re.compile(r"/copy\.py |__deepcopy__")
"""Copying a model is the script's doing, though tensors copy themselves."""

NOT_OWN = (COMPILE, SAVE, PROFILE)
"""Stages outside the phases, each with a rule of its own."""


@dataclass(frozen=True)
class ScriptFunction:
    """Where the script's own Python is most of the time: a function, or one line of the script."""

    line: LineShare
    """The longest line of it."""
    name: str
    """The function; empty where one line outside of functions is meant."""
    share: float
    """Of all of the script's own Python, 0 to 1."""
    words: str
    """What it does, empty where nothing tells."""
    lines: LinesByTime
    """All lines of the script's own Python."""


@dataclass(frozen=True)
class ScriptPython:
    """Time of a mean step, ns."""

    ns: int
    parts: tuple[str, ...]
    """Names of the parts of ``judged_step`` that it lies in."""
    sees_operators: bool
    """Whether operators in the script's own code are left out of it."""
    at: ScriptFunction | None
    """None where too few samples tell."""


@fact
def script_python(facts: Facts) -> ScriptPython:
    """With a trace of a GPU the time in which that idles meanwhile.

    Raises:
        UnknownError: no run was recorded, or it has too few steps.
    """
    if facts.run is None:
        raise UnknownError("a trace alone does not tell the script's own Python")
    judged, found = judged_step(facts), moments(facts)
    outside = _outside_of_phases(facts, found)
    inside = _inside_of_forward(facts, found)
    at = longest_function(found) if found else None
    sees = operator_share.or_none(facts) is not None
    if judged.on_device:
        idle = judged.part(GapCause.PYTHON.value) - collecting(facts)
        seen = round(found.share(_own(found)) * judged.of.mean) if found and at else 0
        found_ns = min(max(idle, 0), outside + inside, seen)
        return ScriptPython(found_ns, (GapCause.PYTHON.value,), sees, at)
    parts = (OTHER, f"{PYTHON_IN}{FORWARD}") if inside else (OTHER,)
    return ScriptPython(outside + inside, parts, sees, at)


def collecting(facts: Facts) -> int:
    """Mean time of a step in the garbage collector, ns, as far as it is known."""
    collected = gc_pauses.or_none(facts)
    return collected.per_step if collected else 0


def _outside_of_phases(facts: Facts, found: Moments | None) -> int:
    """Of the mean step: the script's own code without operators, collections and what other rules
    speak of."""
    step = steady_step(facts)
    shares = operator_share.or_none(facts)
    running = min(shares.get(OTHER, 0.0), 1.0) if shares else 0.0
    left = step.part(OTHER)
    if found is not None:
        left -= round(found.share(np.isin(found.stage, NOT_OWN) | saving(found)) * step.mean)
    collected = gc_pauses.or_none(facts)
    if collected is not None:
        left -= collected.outside
    return max(round(left * (1 - running)), 0)


def _inside_of_forward(facts: Facts, found: Moments | None) -> int:
    """Of the mean step: Python in the forward pass, where it is the script's own."""
    judged = judged_step(facts)
    step = steady_step(facts)
    if found is None:
        return 0
    own = (found.stage == FORWARD) & _is_own(found)
    if _samples(found, own) < FEWEST_MOMENTS:
        return 0
    share = round(found.share(own) * step.mean)
    python = judged.part(f"{PYTHON_IN}{FORWARD}")
    return min(share, step.part(FORWARD) if judged.on_device else python)


def longest_function(found: Moments) -> ScriptFunction | None:
    """Where the script's own Python is most of the time; None where too few samples tell."""
    chosen = _own(found)
    if _samples(found, chosen) < FEWEST_MOMENTS:
        return None
    groups: dict[tuple[str, str, int], list[int]] = {}
    rows = np.flatnonzero(chosen)
    columns = [found.stacks[name][rows].tolist() for name in ("file", "line", "function")]
    for row, file, line, function in zip(rows.tolist(), *columns, strict=True):
        name = outermost(function)
        # Lines outside of functions have nothing in common but the file.
        groups.setdefault((file, name, line if not name else -1), []).append(row)
    held = found.held
    key = max(groups, key=lambda one: (int(held[groups[one]].sum()), one))
    of_group = np.zeros(len(held), dtype=np.bool_)
    of_group[groups[key]] = True
    lines = found.lines(of_group)
    return ScriptFunction(
        lines.lines[0],
        key[1],
        int(held[of_group].sum()) / max(int(held[chosen].sum()), 1),
        _words(found, of_group),
        lines_by_time(found.stacks, np.where(chosen, held, 0)),
    )


def outermost(function: str) -> str:
    """The function that a line belongs to, of those nested in it the outer one; empty for lines of
    the script itself."""
    name = function.partition(".<locals>")[0]
    return "" if name.startswith("<") else name


def _words(found: Moments, chosen: Mask) -> str:
    """What most of the time of ``chosen`` is spent on, where it is told by a third of it."""
    names = ("file", "line", "via", "inner")
    count: Counter[str] = Counter()
    rows = np.flatnonzero(chosen)
    columns = [
        found.stacks[name][rows].tolist() if name in found.stacks else [""] * len(rows)
        for name in names
    ]
    for time, *place in zip(found.held[rows].tolist(), *columns, strict=True):
        count[words_of(*place)] += time
    whole = sum(count.values())
    del count[""]
    words, time = count.most_common(1)[0] if count else ("", 0)
    return words if time * 3 >= whole else ""


def _is_own(found: Moments) -> Mask:
    """Samples in the script's own Python, rather than in the framework that it calls."""
    name = "via" if "via" in found.stacks and (found.stacks["via"] != "").any() else "inner"
    theirs = found.matching(lambda text: bool(_OF_TORCH.search(text)), name)
    copies = found.matching(lambda text: bool(_COPIES.search(text)), "via", "inner")
    return (~theirs | copies) & (found.stacks["file"] != "")


def _own(found: Moments) -> Mask:
    """Samples in the script's own Python, but for what other rules speak of."""
    outside = (found.stage == "") & ~saving(found)
    return (outside | (found.stage == FORWARD)) & _is_own(found)


def saving(found: Moments) -> Mask:
    """Samples at lines whose text writes a model to a file."""
    files, lines = found.stacks["file"].tolist(), found.stacks["line"].tolist()
    return (found.stage == SAVE) | np.fromiter(map(saves, files, lines), np.bool_, len(files))


def _samples(found: Moments, chosen: Mask) -> int:
    every = np.maximum(found.stacks["every"], 1)
    return round(float((found.held / every)[chosen].sum()))
