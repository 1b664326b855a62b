"""One timed run of a trial."""

from __future__ import annotations

import threading

from perftui.experiments.trial.disturbances import clock, disturbance
from perftui.experiments.trial.duration import start_ns
from perftui.experiments.trial.finished import TrialError, facts_of, finished
from perftui.experiments.trial.runs import Arm, TrialRun, step_time
from perftui.facts.events import notes_of
from perftui.facts.fact import Facts
from perftui.facts.peak_memory import peak_memory
from perftui.recorder.launch import Launch
from perftui.run.manifest import Status


def measured(arm: Arm, launch: Launch, cancelled: threading.Event) -> TrialRun:
    """One run of ``launch`` to its end.

    Raises:
        TrialError: it failed, or made too few steps to judge.
        TrialCancelledError: ``cancelled`` was set.
        OSError: it cannot be started.
    """
    root, manifest = finished(launch, cancelled)
    if manifest.status is not Status.EXITED or manifest.exit_code:
        code = "" if manifest.exit_code is None else f" with exit code {manifest.exit_code}"
        raise TrialError(f"a run {arm.value} the change ended{code}: see {root}")
    facts = facts_of(root)
    found = step_time(facts)
    if found is None:
        raise TrialError(f"a run {arm.value} the change had too few steps to judge: see {root}")
    return TrialRun(
        arm,
        root,
        found,
        losses(facts),
        start_ns(facts),
        peak_memory.or_none(facts),
        disturbance(facts),
        clock(facts),
    )


def losses(facts: Facts) -> tuple[float, ...]:
    """Of the first steps of the rank that went backward, in order, each the sum over its backward
    passes; empty where they were not kept, or were no single numbers. What was no finite number is
    nan or infinite."""
    notes = notes_of(facts.events, "losses")
    values = notes[0].get("values") if notes else None
    return tuple(map(float, values)) if isinstance(values, list) else ()
