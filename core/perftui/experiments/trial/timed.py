"""One timed run of a trial."""

from __future__ import annotations

import threading

from perftui.experiments.trial.disturbances import clock, disturbance
from perftui.experiments.trial.duration import start_ns
from perftui.experiments.trial.finished import TrialError, facts_of, finished
from perftui.experiments.trial.runs import Arm, TrialRun, step_time
from perftui.facts.peak_memory import peak_memory
from perftui.facts.step.losses import losses
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
