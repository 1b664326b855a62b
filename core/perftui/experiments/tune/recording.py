"""Runs that are recorded to be diagnosed, beside those that are only timed."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

from perftui.experiments.trial.restore import restore
from perftui.experiments.trial.trial import TrialCancelledError, TrialError, stop
from perftui.facts.fact import Facts
from perftui.recorder.launch import Launch, start
from perftui.run.reader import RunReader, RunSnapshot
from perftui.run.run_state import wait_until_over


def record(launch: Launch, steps: int, cancelled: threading.Event) -> Path:
    """Run ``launch`` for so many steps with windows and samples; the directory of the run.

    Raises:
        TrialError: it failed.
        TrialCancelledError: ``cancelled`` was set.
        OSError: it cannot be started.
    """
    options = replace(launch.options, max_steps=steps, spares_files=True)
    root = start(replace(launch, options=options))
    try:
        manifest = wait_until_over(root, float("inf"), cancelled)
    finally:
        stop(root)
        restore(root)
    if cancelled.is_set():
        raise TrialCancelledError
    if manifest.exit_code:
        raise TrialError(f"with the fix the run ended with exit code {manifest.exit_code}: {root}")
    return root


def run_at(root: Path) -> RunSnapshot:
    """The run in the directory ``root``."""
    return RunReader(root).poll()


def facts_of(root: Path) -> Facts:
    """The facts of the run in ``root``, without its windows."""
    return Facts(run_at(root), None)
