"""What the app asks of recorders: a window, an end, another size, and a recorded run once more."""

from __future__ import annotations

import contextlib
import threading
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from perftui.run.control import ASK, CAPTURE, RESIZE, STOP, request
from perftui.run.layout import RunLayout
from perftui.run.manifest import StopReason, run_state, wait_until_over

if TYPE_CHECKING:
    from textual.geometry import Size

    from perftui.facts.question import Question
    from perftui.fixes.option import FixOption
    from perftui.run.reader import RunSnapshot
    from perftui_tui.actions.host import Host
    from perftui_tui.reading.snapshot import Snapshot


class RecorderRequests:
    """Writes requests to the run directory, which the recorder polls."""

    def __init__(self, app: Host) -> None:
        self._app = app
        self._windows_awaited: int | None = None
        self._size: Size | None = None
        self._sent_size: Size | None = None

    def watch(self, snapshot: Snapshot) -> None:
        """Ask for what the diagnosis lacks, notify of a window that was asked for, and send the
        terminal's size to a new run."""
        self._send_size()
        ask_for_evidence(snapshot)
        if self._windows_awaited is not None and _window_count(snapshot) > self._windows_awaited:
            self._windows_awaited = None
            self._app.notify("captured: Timeline and Ops show the new window")

    def capture(self, snapshot: Snapshot) -> None:
        if self._request(CAPTURE):
            self._windows_awaited = _window_count(snapshot)
            self._app.notify("requested: a window will be profiled, of steps if there are any soon")

    def stop(self) -> None:
        """Ask for an interrupt of our own training, whichever run is on screen."""
        self._request(STOP, self._app.own, reason=StopReason.USER)

    def started(self, size: Size) -> None:
        """A run has been started in a terminal of ``size``."""
        self._sent_size = size

    def resized(self, size: Size) -> None:
        """Give the script's terminal the size of ours: progress bars follow it."""
        # The first size is the one the script was started with.
        self._sent_size = self._sent_size or size
        self._size = size
        self._send_size()

    def _send_size(self) -> None:
        size, newest = self._size, self._app.newest
        if size is None or size == self._sent_size or newest is None or newest.run is None:
            return
        if newest.phase.is_live:
            self._sent_size = size
            self._request(RESIZE, rows=size.height, columns=size.width)

    def _request(self, kind: str, root: Path | None = None, **data: int | str) -> bool:
        """Write a request for the recorder; False, with a warning, where that fails."""
        try:
            request(RunLayout(root or self._app.target), kind, **data)
        except OSError as error:
            self._app.warn(f"the run cannot be reached: {error}")
            return False
        return True


def ask_for_evidence(snapshot: Snapshot) -> Question | None:
    """Have the next window record what would tell most of what the diagnosis leaves open; returns
    what was asked."""
    from perftui.diagnosis.asking import question_to_ask

    if snapshot.facts is None or snapshot.facts.run is not snapshot.run or not snapshot.goes_on:
        return None
    question = question_to_ask(snapshot.diagnosis, snapshot.facts)
    if question is not None:
        # A directory that cannot be written to, as another person's, is only read.
        with contextlib.suppress(OSError):
            request(RunLayout(snapshot.source), ASK, evidence=question.evidence)
    return question


def _window_count(snapshot: Snapshot) -> int:
    rank = snapshot.rank
    return len(rank.windows) if rank else 0


def run_again(
    run: RunSnapshot,
    option: FixOption | None,
    is_written: bool,
    size: tuple[int, int],
    cancelled: threading.Event,
) -> Path | None:
    """Stop ``run`` if it goes on, start it again, and return the new directory; None where
    ``cancelled`` was set before it was started.

    It is repeated as it was where ``option`` is None, else with that, which may be in the source
    already (``is_written``). ``size`` is that of its terminal, columns and rows.

    Raises:
        TrialError: the training did not stop within ``STOP_SECONDS``.
        ValueError: the option cannot be tried without writing it.
        OSError: the new run cannot be started.
    """
    from perftui.experiments.rerun import repeat_launch, rerun_launch
    from perftui.recorder.launch import start

    launch = rerun_launch(run, option, is_written=is_written) if option else repeat_launch(run)
    stop_training(run.root, cancelled, StopReason.RERUN)
    return None if cancelled.is_set() else start(replace(launch, columns=size[0], rows=size[1]))


def stop_training(root: Path, cancelled: threading.Event, reason: StopReason) -> None:
    """Ask the training at ``root`` to stop where it goes on, and wait until it has, or until
    ``cancelled`` is set. Raises TrialError if it did not stop within ``STOP_SECONDS``."""
    from perftui.experiments.trial_runs import STOP_SECONDS, TrialError

    if run_state(root).status.is_over:
        return
    request(RunLayout(root), STOP, reason=reason)
    manifest = wait_until_over(root, STOP_SECONDS, cancelled)
    if not manifest.status.is_over and not cancelled.is_set():
        raise TrialError("the training did not stop; stop it yourself, then try again")
