"""A run that is started for a trial, to its end."""

from __future__ import annotations

import threading
from pathlib import Path

from perftui.experiments.trial.restore import restore
from perftui.facts.fact import Facts
from perftui.recorder.launch import Launch, start
from perftui.run.layout import RunLayout
from perftui.run.manifest import Manifest, StopReason
from perftui.run.reader import RunReader, RunSnapshot
from perftui.run.requests import STOP, request
from perftui.run.run_state import run_state, wait_until_over

STOP_SECONDS = 60.0
"""How long a training may take to stop: it may be saving a checkpoint."""


class TrialError(RuntimeError):
    """The trial cannot go on; the message says why."""


class TrialCancelledError(RuntimeError):
    """Nobody waits for the trial any more; its training was stopped."""


def finished(launch: Launch, cancelled: threading.Event) -> tuple[Path, Manifest]:
    """Run ``launch`` to its end and give back what it wrote to; its directory and manifest.

    Raises:
        TrialCancelledError: ``cancelled`` was set; the training was stopped.
        OSError: it cannot be started, or a file not be given back.
    """
    root = start(launch)
    try:
        manifest = wait_until_over(root, float("inf"), cancelled)
    finally:
        # Also where the wait is interrupted.
        _stop(root)
        restore(root)
    if cancelled.is_set():
        raise TrialCancelledError
    return root, manifest


def run_at(root: Path) -> RunSnapshot:
    """The run in the directory ``root``."""
    return RunReader(root).poll()


def facts_of(root: Path) -> Facts:
    """The facts of the run in ``root``, without its windows."""
    return Facts(run_at(root), None)


def _stop(root: Path) -> None:
    """Ask the training to end where it has not, and wait until it has."""
    if not run_state(root).status.is_over:
        request(RunLayout(root), STOP, reason=StopReason.USER)
        wait_until_over(root, STOP_SECONDS)
