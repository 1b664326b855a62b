"""Runs that are recorded to be diagnosed, beside those that are only timed."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

from perftui.experiments.trial.finished import TrialError, finished
from perftui.recorder.launch import Launch


def record(launch: Launch, steps: int, cancelled: threading.Event) -> Path:
    """Run ``launch`` for so many steps with windows and samples; the directory of the run.

    Raises:
        TrialError: it failed.
        TrialCancelledError: ``cancelled`` was set.
        OSError: it cannot be started.
    """
    options = replace(launch.options, max_steps=steps, spares_files=True)
    root, manifest = finished(replace(launch, options=options), cancelled)
    if manifest.exit_code:
        raise TrialError(f"with the fix the run ended with exit code {manifest.exit_code}: {root}")
    return root
