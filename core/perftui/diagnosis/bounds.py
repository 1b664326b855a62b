"""Costs of findings within the step: together they take no more of a part than it has."""

from __future__ import annotations

from collections.abc import Sequence

from perftui.diagnosis.model import Finding
from perftui.facts.step.judged_step import PYTHON_IN, JudgedStep

Taken = dict[str, int]
"""ns that a finding takes of each part that it may take."""


def within_step(findings: Sequence[Finding], judged: JudgedStep | None) -> list[int]:
    """The cost of each finding, ns, that is left to it by those before it.

    A finding takes time of the parts that it names, or of any if it names none of the step. Those
    before it make room as far as they name other parts that are left: all that is there can be
    claimed, and no more. Findings about anything but the judged step keep their cost.
    """
    if judged is None:
        return [finding.cost_ns for finding in findings]
    free = {part.name: part.ns for part in judged.parts}
    taken: list[Taken] = []
    costs = []
    for finding in findings:
        left = finding.cost_ns
        if finding.step_ns == judged.of.mean:
            named = {name for part in finding.parts for name in (part, f"{PYTHON_IN}{part}")}
            mine = dict.fromkeys(free.keys() & named or free, 0)
            taken.append(mine)
            while left and (got := _take(mine, left, free, taken)):
                left -= got
            costs.append(finding.cost_ns - left)
        else:
            costs.append(left)
    return costs


def _take(mine: Taken, most: int, free: dict[str, int], taken: Sequence[Taken]) -> int:
    """Take up to ``most`` ns of one part; 0 if nothing is left."""
    for part in mine:
        if got := _room(part, most, free, taken, {part}):
            mine[part] += got
            free[part] -= got
            return got
    return 0


def _room(
    part: str, most: int, free: dict[str, int], taken: Sequence[Taken], seen: set[str]
) -> int:
    """How much of ``part`` is free, up to ``most`` ns, after others took other parts instead."""
    for holder in taken:
        for other in holder.keys() - seen:
            lacking = min(most - free[part], holder.get(part, 0))
            if lacking > 0:
                seen.add(other)
                got = _room(other, lacking, free, taken, seen)
                holder[part] -= got
                holder[other] += got
                free[other] -= got
                free[part] += got
    return min(free[part], most)
