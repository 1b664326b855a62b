"""What recording has taken of a training, windows included."""

from __future__ import annotations

from dataclasses import dataclass

from perftui import format as fmt
from perftui.facts.fact import Facts, fact
from perftui.facts.step.slowed import slowed
from perftui.facts.step.steps import run_is_over, step_kind

_SHOWN_FROM = 0.0005
"""Share below which ``<0.1 %`` is said."""

SHORTEST_NS = 1_000_000_000
"""Time of all steps together, from which on what recording took of them is worth a word."""


@dataclass(frozen=True)
class OwnCost:
    """All in ns, of steps that took ``whole`` together."""

    hooks: int
    """The agent's own account of what its hooks took."""
    stalls: int
    """What the training waited for windows to be prepared and saved."""
    slowed: int
    """By how much profiled steps were longer than those beside them, as far as that is known."""
    slowed_at_most: int
    """ns by which profiled steps may have been longer: steps differ from each other anyway."""
    whole: int

    @property
    def total(self) -> int:
        """ns that recording is known to have taken."""
        return self.hooks + self.stalls + self.slowed

    @property
    def at_most(self) -> int:
        """ns that recording may have taken at most."""
        return self.hooks + self.stalls + self.slowed_at_most


@fact
def recording_cost(facts: Facts) -> OwnCost | None:
    """What recording has taken of the rank's steps, of all kinds.

    Of training, or of what is done instead of it, profiled steps are compared with others. None
    where nothing is known: no step yet, or an agent that did not count.
    """
    steps, gone = facts.steps, facts.downsampled.of()
    if "overhead" not in steps:
        return None
    whole = int(steps["duration"].sum()) + int(gone.of("duration").total)
    if not whole:
        return None
    longer = slowed(steps, step_kind(facts), facts.downsampled)
    return OwnCost(
        hooks=int(steps["overhead"].clip(min=0).sum()) + int(gone.of("overhead").total),
        stalls=int(steps["profiler"].sum()) + int(gone.of("profiler").total),
        slowed=longer.certain,
        slowed_at_most=longer.at_most,
        whole=whole,
    )


@fact
def overhead_budget(facts: Facts) -> float | None:
    """The share of the run that recording may take, 0 to 1; None where none was set."""
    budget = facts.manifest.profile.get("overhead") if facts.manifest else None
    return budget if isinstance(budget, float) else None


@fact
def over_budget(facts: Facts) -> float | None:
    """The share of the steps that recording took of a run that is over, where that is more than it
    was allowed; None where it was not, is not known, or all steps were over in a moment."""
    cost, budget = recording_cost(facts), overhead_budget(facts)
    if cost is None or budget is None or not run_is_over(facts):
        return None
    is_over = cost.whole >= SHORTEST_NS and cost.total > budget * cost.whole
    return cost.total / cost.whole if is_over else None


@dataclass(frozen=True)
class OwnCostText:
    """What recording took, in the words of every screen and report."""

    text: str
    """``perftui 0.3 %, limit 1 %``; ``perftui 0.3 to 1.1 %, limit 1 %`` where it may be over the
    limit or not, as steps differ from each other anyway; no limit where none was set."""
    is_over: bool
    """Whether it is more than the limit for certain."""


@fact
def own_cost_text(facts: Facts) -> OwnCostText | None:
    """What recording has taken of the rank's steps so far, in words; None where it is not known."""
    cost, limit = recording_cost(facts), overhead_budget(facts)
    if cost is None:
        return None
    taken, most = cost.total / cost.whole, cost.at_most / cost.whole
    if limit is None:
        return OwnCostText(cost_text(taken), is_over=False)
    if taken <= limit < most:
        return OwnCostText(cost_text(taken, limit, most), is_over=False)
    return OwnCostText(cost_text(taken, limit), is_over=taken > limit)


def cost_text(taken: float, limit: float | None = None, most: float | None = None) -> str:
    """Shares of 0 to 1 as ``perftui 0.3 %, limit 1 %``; ``perftui 0.3 to 1.1 %, limit 1 %`` where
    it may be ``most`` as well."""
    shown = "<0.1 %" if 0 < taken < _SHOWN_FROM else fmt.percent(taken)
    if most is not None:
        shown = f"{shown.removesuffix(' %')} to {fmt.percent(most)}"
    return f"perftui {shown}" + ("" if limit is None else f", limit {100 * limit:g} %")
