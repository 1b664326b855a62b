"""Starting a recorded run again, with a change, after the old one has stopped."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

from perftui.experiments.rerun import Form, repeat_launch, rerun_launch
from perftui.fixes.model import FixOption
from perftui.recorder.launch import start
from perftui.run.control import STOP, request
from perftui.run.layout import RunLayout
from perftui.run.manifest import StopReason, run_state, wait_until_over
from perftui.run.reader import RunSnapshot

STOP_SECONDS = 60.0
"""How long a training may take to stop: it may be saving a checkpoint."""


class StillRunningError(RuntimeError):
    """The training did not stop when asked to."""


class StartCancelledError(RuntimeError):
    """Nobody wants the new run any more; it was not started."""


def run_again(
    run: RunSnapshot,
    option: FixOption | None,
    form: Form | None,
    size: tuple[int, int],
    cancelled: threading.Event,
) -> Path:
    """Stop ``run`` if it goes on, start it again, and return the new directory.

    It is repeated as it was where ``option`` or ``form`` is None. ``size`` is that of its terminal,
    columns and rows.

    Raises:
        StillRunningError: the training did not stop within ``STOP_SECONDS``.
        StartCancelledError: ``cancelled`` was set before the new run was started.
        ValueError: the option has no such form.
        OSError: the new run cannot be started.
    """
    if option is None or form is None:
        launch = repeat_launch(run)
    else:
        launch = rerun_launch(run, option, form)
    stop_training(run.root, cancelled, StopReason.RERUN)
    if cancelled.is_set():
        raise StartCancelledError
    return start(replace(launch, columns=size[0], rows=size[1]))


def stop_training(root: Path, cancelled: threading.Event, reason: StopReason) -> None:
    """Ask the training at ``root`` to stop where it goes on, and wait until it has, or until
    ``cancelled`` is set.

    Raises:
        StillRunningError: it did not stop within ``STOP_SECONDS``.
    """
    if run_state(root).status.is_over:
        return
    request(RunLayout(root), STOP, reason=reason)
    manifest = wait_until_over(root, STOP_SECONDS, cancelled)
    if not manifest.status.is_over and not cancelled.is_set():
        raise StillRunningError("the training did not stop; stop it yourself, then try again")
