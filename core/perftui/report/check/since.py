"""The step time of a run against all earlier runs of its command."""

from __future__ import annotations

from collections import Counter

from perftui import format as fmt
from perftui.experiments.history import FEWEST_RUNS, History, Place
from perftui.report.check.model import STEP_TIME, Check, Limits, State


def step_time_check(history: History, limits: Limits) -> Check:
    """Failed where the step is longer than is allowed, and longer than usual beyond noise."""
    limit = f"at most {fmt.percent(limits.max_regression)} slower"

    def check(value: str, state: State, message: str) -> Check:
        return Check(STEP_TIME, value, limit, state, message, STEP_TIME)

    now, level = history.now, history.level
    if level is None or not now.usual_ns:
        return check("unknown", State.NOT_CERTAIN, now.unusable)
    if level.usual_ns is None or level.noise is None:
        why = f"{fmt.several(len(history.before), 'earlier run')} of {FEWEST_RUNS} to compare with"
        return check(f"usual {fmt.duration(now.usual_ns)}", State.NOT_CERTAIN, why)
    change = now.usual_ns / level.usual_ns - 1
    step = f"usual {fmt.duration(round(level.usual_ns))} -> {fmt.duration(now.usual_ns)}"
    value = f"{step}, {_said(change)}"
    usual = len(history.before) if level.since is None else level.since
    by = f"{fmt.several(usual, 'earlier run')}, which differ by up to {fmt.percent(level.noise)}"
    if change <= limits.max_regression:
        return check(value, State.OK, f"{_said(change)} than {by}")
    if level.place is not Place.SLOWER:
        return check(value, State.NOT_CERTAIN, f"{_said(change)} than {by}")
    since = f"slower since {history.first_slow.run_id}" if history.first_slow else "slower"
    return check(value, State.FAILED, f"{_said(change)} than {by}; {since}")


def ratio_of(history: History) -> float | None:
    """Usual step of the earlier runs over that of the run; None where either is unknown."""
    level = history.level
    if level is None or level.usual_ns is None or not history.now.usual_ns:
        return None
    return level.usual_ns / history.now.usual_ns


def history_lines(history: History) -> list[str]:
    """Which runs it was held against, and which were left out and why. Not yet safe to show."""
    runs = fmt.several(len(history.before), "earlier run")
    lines = [f"against {runs} of this command"]
    reasons = Counter(one.why for one in history.left_out)
    lines += [f"  left out: {fmt.several(count, 'run')}, {why}" for why, count in reasons.items()]
    if history.level and (first := history.first_slow) and (last := history.last_before):
        lines.append(f"slower since {first.run_id}, after {last.run_id}")
    return lines


def _said(change: float) -> str:
    if round(change, 3) == 0:
        return "no difference"
    return f"{fmt.percent(abs(change))} {'slower' if change > 0 else 'faster'}"
