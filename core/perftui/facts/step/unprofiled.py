"""What the device does in a step that nobody profiles, by a profiled one and the run's own steps.

What the device works takes as long with the profiler as without; it slows only the host. So of a
shorter step of the run, idle time is what the device's work leaves. Of a longer one the run's own
phases show what the window has not seen.
"""

from __future__ import annotations

from collections.abc import Mapping

from perftui.analysis.model import GapCause
from perftui.analysis.steps import OTHER
from perftui.facts.rounding import apportioned
from perftui.facts.step.step_breakdown import StepBreakdown

MOST_SLOWED = 0.5
"""Share of the time of launching that the profiler may have added: with it an operator takes up to
twice as long."""

DISAGREES = 0.05
"""Share by which a step of the window differs from the run's mean, from which on it is noted."""

_WAIT, _LAUNCH = GapCause.INPUT_WAIT.value, GapCause.LAUNCH.value
_IDLE = tuple(cause.value for cause in GapCause)


def unprofiled(
    window: StepBreakdown, of_run: StepBreakdown, host: Mapping[str, int] | None
) -> dict[str, int]:
    """Parts of the run's mean step, ns, that sum to it exactly.

    ``host`` has the phases of the training thread in a mean step of the window, where they are
    marked: what they take longer in the run the window has not seen.
    """
    work = {name: ns for name, ns in window.parts if name not in _IDLE}
    idle = {name: ns for name, ns in window.parts if name in _IDLE}
    work = _shared(work, min(sum(work.values()), of_run.mean))
    left = of_run.mean - sum(work.values())
    idle[GapCause.PROFILER.value] = 0
    if host is not None:
        # The host waits no longer than it was seen to in the run.
        idle[_WAIT] = min(idle.get(_WAIT, 0), of_run.part("input_wait"))
    missing = left - sum(idle.values())
    if missing < 0:
        idle[_LAUNCH] = idle.get(_LAUNCH, 0)
        idle[_LAUNCH] -= min(-missing, round(MOST_SLOWED * idle[_LAUNCH]))
        return work | _shared(idle, left)
    known: dict[str, int] = {}
    if host is not None:
        known = _sum({_WAIT: idle.pop(_WAIT)}, _unseen(missing, of_run, host))
    # Whatever else makes steps longer than those of the window, it is in all that is left.
    rest = work | idle
    if not sum(rest.values()):
        rest[GapCause.UNEXPLAINED.value] = 1
    return _sum(_shared(rest, of_run.mean - sum(known.values())), known)


def _unseen(missing: int, of_run: StepBreakdown, host: Mapping[str, int]) -> dict[str, int]:
    """Idle time that the window lacks, by the phases in which the run's thread spends more."""
    found = {}
    for phase, name in (("input_wait", _WAIT), (OTHER, OTHER)):
        found[name] = min(max(of_run.part(phase) - host.get(phase, 0), 0), missing)
        missing -= found[name]
    return found


def _sum(*parts: Mapping[str, int]) -> dict[str, int]:
    names = dict.fromkeys(name for each in parts for name in each)
    return {name: sum(each.get(name, 0) for each in parts) for name in names}


def _shared(weights: Mapping[str, int], units: int) -> dict[str, int]:
    """``units`` in proportion to ``weights``, of which one at least is above 0 or none there."""
    return dict(zip(weights, apportioned(list(weights.values()), units), strict=True))
