"""Whether two runs did the same work, under conditions that can be compared."""

from __future__ import annotations

from perftui.experiments.conditions import training_processes
from perftui.facts.cpu.machine import busy_host
from perftui.facts.data_loader.loader import training_loader
from perftui.facts.fact import Facts
from perftui.facts.step.steps import micro_batches, whole_training


def incomparable(before: Facts, after: Facts) -> str:
    """Why two runs cannot be compared, empty where nothing is against it.

    A step of one may not be the work of a step of the other, or one may have trained more steps: a
    dataset that gives each worker a part makes more and smaller batches.
    """
    for name, old, new in (
        ("batch size", batch_size(before), batch_size(after)),
        ("micro-batches a step", micro_batches(before), micro_batches(after)),
        ("training processes", training_processes(before), training_processes(after)),
    ):
        if old is not None and new is not None and old != new:
            return f"{name} {old} -> {new}: a step is not the same work in both runs"
    counts = whole_training(before), whole_training(after)
    if None in counts or counts[0] == counts[1]:
        return ""
    steps = " and ".join(f"{count:,}" for count in counts)
    samples = [_most_samples(run) for run in (before, after)]
    known = "" if None in samples else f" (up to {samples[0]:,} and {samples[1]:,} samples)"
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


def batch_size(run: Facts) -> int | None:
    """Samples of a batch of the training's loader, where that is known."""
    loader = training_loader(run)
    return loader.batch_size if loader else None


def _most_samples(run: Facts) -> int | None:
    size, steps = batch_size(run), whole_training(run)
    if size is None or steps is None:
        return None
    return size * steps * (micro_batches(run) or 1) * training_processes(run)
