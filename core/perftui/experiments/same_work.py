"""Whether two runs did the same work, under conditions that can be compared."""

from __future__ import annotations

from perftui.experiments.conditions import Conditions, conditions
from perftui.facts.cpu.machine import busy_host
from perftui.facts.fact import Facts


def incomparable(before: Facts, after: Facts) -> str:
    """Why two runs cannot be compared, empty where nothing is against it.

    A step of one may not be the work of a step of the other, or one may have trained more steps: a
    dataset that gives each worker a part makes more and smaller batches.
    """
    return other_work(conditions(before), conditions(after))


def other_work(before: Conditions, after: Conditions) -> str:
    """The same, of conditions that are kept."""
    for name, old, new in (
        ("batch size", before.batch_size, after.batch_size),
        ("micro-batches a step", before.micro_batches, after.micro_batches),
        ("training processes", before.processes, after.processes),
    ):
        if old is not None and new is not None and old != new:
            return f"{name} {old} -> {new}: a step is not the same work in both runs"
    counts = before.trained, after.trained
    if None in counts or counts[0] == counts[1]:
        return ""
    steps = " and ".join(f"{count:,}" for count in counts)
    most = [_most_samples(run) for run in (before, after)]
    known = "" if None in most else f" (up to {most[0]:,} and {most[1]:,} samples)"
    return f"the runs trained {steps} steps{known}: they did not do the same work"


def busy(before: Facts, after: Facts) -> str:
    """What kept the host busy and what to do about it, empty where it was not.

    How large the difference is does not matter: a busy host alone makes such differences.
    """
    reasons = [(name, busy_host(run)) for name, run in (("first", before), ("second", after))]
    known = [(name, why) for name, why in reasons if why]
    if not known:
        return ""
    runs = "both runs" if len(known) == 2 else f"the {known[0][0]} run"
    return f"the host was busy: {known[0][1]}; repeat {runs} on an idle machine"


def _most_samples(run: Conditions) -> int | None:
    if run.batch_size is None or run.trained is None:
        return None
    return run.batch_size * run.trained * (run.micro_batches or 1) * run.processes
