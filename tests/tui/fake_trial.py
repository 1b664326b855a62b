"""A trial by pairs that makes no runs: its ratios are known, and each pair waits to be let go."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from perftui.experiments.trial_runs import (
    Arm,
    Began,
    NextRun,
    Pair,
    Progress,
    Purpose,
    TrialCancelledError,
    TrialRun,
    unseen,
)
from perftui.experiments.trial_verdict import is_decided, judge
from perftui.fixes.option import FixOption
from perftui.run.reader import RunSnapshot

MS = 1_000_000
FASTER = (2.0, 2.1, 2.15, 2.05, 2.2, 2.1)
UNCLEAR = (0.9, 1.2, 1.1, 0.95, 1.05, 1.1)


def progress_of(*ratios: float, notes: tuple[str, ...] = ()) -> Progress:
    """A trial whose pairs had these ratios, with 150 ms a step after the change."""
    pairs = tuple(
        Pair(
            TrialRun(Arm.BEFORE, Path("before"), round(150 * MS * ratio)),
            TrialRun(Arm.AFTER, Path("after"), 150 * MS),
        )
        for ratio in ratios
    )
    return Progress(pairs, judge([pair.ratio for pair in pairs]), notes=notes)


class Gate:
    """Where each pair waits to be let go, and a trial that is cancelled stops its training."""

    def __init__(self) -> None:
        self.stopped = threading.Event()
        """Set once the training of a cancelled trial has ended."""
        self.may_stop = threading.Event()
        self.may_stop.set()
        self._free = threading.Semaphore(0)

    def let(self, pairs: int) -> None:
        """Let so many pairs come to their end."""
        for _ in range(pairs):
            self._free.release()

    def wait(self, cancelled: threading.Event) -> None:
        """Wait for the next pair to be let go.

        Raises:
            TrialCancelledError: ``cancelled`` was set before.
        """
        while not self._free.acquire(timeout=0.02):
            if cancelled.is_set():
                assert self.may_stop.wait(30)
                self.stopped.set()
                raise TrialCancelledError


class FakeTrial(Gate):
    """Stands in for ``perftui.experiments.trial.trial``."""

    def __init__(self, *ratios: float) -> None:
        super().__init__()
        self.ratios = ratios
        self.error: Exception | None = None
        """Raised in place of the first pair."""
        self.tried: FixOption | None = None
        """What is tried in place of what was asked for."""
        self.asked: list[tuple[Path, str, Path, int]] = []

    def __call__(
        self,
        run: RunSnapshot,
        option: FixOption,
        directory: Path,
        steps: int,
        cancelled: threading.Event,
        began: Began = unseen,
    ) -> Iterator[Progress]:
        self.asked.append((run.root, option.fix, directory, steps))
        began(NextRun(Purpose.WARM_UP))
        for count in range(1, len(self.ratios) + 1):
            for arm in Arm:
                began(NextRun(Purpose.PAIR, count, arm))
            self.wait(cancelled)
            if self.error is not None:
                raise self.error
            progress = replace(progress_of(*self.ratios[:count]), option=self.tried)
            yield progress
            if is_decided(progress.verdict):
                return
