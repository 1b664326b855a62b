"""Steps of another kind than the one that is judged: evaluation beside training."""

from __future__ import annotations

from dataclasses import dataclass

from perftui.facts.fact import Facts, fact
from perftui.facts.step.steps import count_of, step_kind


@dataclass(frozen=True)
class OtherSteps:
    """How many there are, their time and the time of all steps, ns."""

    count: int
    time: int
    whole: int

    @property
    def share(self) -> float:
        """Share of these steps in the time of all, 0 to 1."""
        return self.time / self.whole if self.whole else 0.0


@fact
def other_steps(facts: Facts) -> OtherSteps | None:
    """Steps of other kinds than the judged ones; None before the first step."""
    steps, downsampled, kind = facts.steps, facts.downsampled, step_kind(facts)
    if not len(steps):
        return None
    judged = int(steps["duration"][steps["kind"] == kind].sum())
    judged += int(downsampled.of(kind).of("duration").total)
    whole = int(steps["duration"].sum()) + int(downsampled.of().of("duration").total)
    count = len(steps) + downsampled.of().rows - count_of(kind, facts)
    return OtherSteps(count, whole - judged, whole)
