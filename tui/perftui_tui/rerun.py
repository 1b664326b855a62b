"""Starting a recorded run again, with a change, after the old one has stopped."""

from __future__ import annotations

import time
from pathlib import Path

from perftui.experiments.rerun import Form, repeat_launch, rerun_launch
from perftui.fixes.model import FixOption
from perftui.recorder.launch import start
from perftui.run.control import STOP, request
from perftui.run.layout import RunLayout
from perftui.run.reader import RunReader, RunSnapshot

STOP_SECONDS = 60.0
"""How long a training may take to stop: it may be saving a checkpoint."""

POLL_SECONDS = 0.2


class StillRunningError(RuntimeError):
    """The training did not stop when asked to."""


def run_again(run: RunSnapshot, option: FixOption | None, form: Form) -> Path:
    """Stop ``run`` if it goes on, start it again with ``option``, and return the new directory.

    Raises:
        StillRunningError: the training did not stop within ``STOP_SECONDS``.
        ValueError: the option has no such form.
        OSError: the new run cannot be started.
    """
    launch = repeat_launch(run) if option is None else rerun_launch(run, option, form)
    _stop(run.root)
    return start(launch)


def _stop(root: Path) -> None:
    reader = RunReader(root)
    if reader.poll().manifest.status.is_over:
        return
    request(RunLayout(root), STOP)
    deadline = time.monotonic() + STOP_SECONDS
    while not reader.poll().manifest.status.is_over:
        if time.monotonic() > deadline:
            raise StillRunningError(
                "the training has not stopped; stop it yourself, then press r again"
            )
        time.sleep(POLL_SECONDS)
