"""Trials and tunings that make no runs: their ratios are known, each pair waits to be let go."""

import os
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from perftui.experiments import job
from perftui.experiments.trial import MOST_PAIRS
from perftui.experiments.trial_runs import (
    NO_PAIRS,
    Arm,
    NextRun,
    Pair,
    Progress,
    Purpose,
    TrialCancelledError,
    TrialRun,
    TrialSetup,
)
from perftui.experiments.trial_verdict import judge
from perftui.fixes.option import FixOption, Risk
from perftui.recorder.launch import Launch
from perftui.run.reader import RunSnapshot
from tests.tui.recorded import ENDED, START, write_run

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
        self.error: Exception | None = None
        """Raised in place of the first pair."""

    def let(self, pairs: int) -> None:
        """Let so many pairs come to their end."""
        for _ in range(pairs):
            self._free.release()

    def pairs(self, ratios: Sequence[float], setup: TrialSetup) -> Iterator[Progress]:
        """How things stand after each pair, until they tell or ``error`` is raised."""
        setup.began(NextRun(Purpose.WARM_UP))
        for count in range(1, len(ratios) + 1):
            for arm in Arm:
                setup.began(NextRun(Purpose.PAIR, count, arm))
            self.wait(setup.cancelled)
            if self.error is not None:
                raise self.error
            progress = progress_of(*ratios[:count])
            yield progress
            if progress.verdict.outcome.is_decided:
                return

    def wait(self, cancelled: threading.Event) -> None:
        """Wait for the next pair to be let go. Raises TrialCancelledError if ``cancelled`` was set
        before."""
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
        self.tried: FixOption | None = None
        """What is tried in place of what was asked for."""
        self.asked: list[tuple[Path, str, Path, int]] = []

    def __call__(
        self, run: RunSnapshot, option: FixOption, setup: TrialSetup, earlier: Progress = NO_PAIRS
    ) -> Iterator[Progress]:
        del earlier
        self.asked.append((run.root, option.fix, setup.directory, setup.steps))
        for progress in self.pairs(self.ratios, setup):
            yield replace(progress, option=self.tried)


def try_on_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let trials run on a thread in place of a process of their own."""

    def start(root: Path) -> None:
        threading.Thread(target=job.work, args=(root, threading.Event()), daemon=True).start()

    monkeypatch.setattr("perftui.experiments.job.start_process", start)


def play_trial(monkeypatch: pytest.MonkeyPatch, fake: FakeTrial) -> FakeTrial:
    """Let trials play ``fake``."""
    try_on_a_thread(monkeypatch)
    monkeypatch.setattr("perftui.experiments.job.trial", fake)
    return fake


SAME = (1.0, 1.01, 0.99, 1.0, 1.01, 0.99)
TOGETHER = (2.3, 2.2, 2.25, 2.4, 2.3, 2.35)
BASE = "20231115-221320-train"
"""The run that is recorded with four workers."""


class PlayedRuns(Gate):
    """Stands in for the runs of ``perftui.experiments.tune``: four workers are faster than
    none, eight are not faster than four."""

    def __init__(self, script: Path) -> None:
        super().__init__()
        self._script = script
        self.ratios: dict[str, Sequence[float]] = {
            "num_workers 0 -> 4": FASTER,
            "num_workers 4 -> 8": SAME,
        }
        self.may_record = threading.Event()
        self.may_record.set()

    def paired_runs(
        self,
        _: Launch,
        after: Launch,
        setup: TrialSetup,
        most_pairs: int = MOST_PAIRS,
        risks: Sequence[Risk] = (),
        earlier: Sequence[Pair] = (),
    ) -> Iterator[Progress]:
        """The pairs of one fix, or of all that was kept."""
        del risks, earlier
        return self.pairs(self.ratios.get(after.name or "", TOGETHER)[:most_pairs], setup)

    def record(self, launch: Launch, _: TrialSetup) -> Path:
        """The run with four workers."""
        assert self.may_record.wait(30)
        # As it was when that run began.
        os.utime(self._script, ns=(START - 10**9, START - 10**9))
        changes = {"script": self._script, "loader_line": 4, "cwd": str(launch.cwd), **ENDED}
        return write_run(launch.runs, run_id=BASE, workers=4, wait_ms=40, **changes)


def play(monkeypatch: pytest.MonkeyPatch, script: Path) -> PlayedRuns:
    """Let tuning play its runs."""
    played = PlayedRuns(script)
    # Without a choice of workers nothing is run to find their number.
    monkeypatch.setattr("perftui.experiments.trial.counts_to_try", lambda _: ())
    for where in ("tune", "trial"):
        monkeypatch.setattr(f"perftui.experiments.{where}.paired_runs", played.paired_runs)
    monkeypatch.setattr("perftui.experiments.tune.record", played.record)
    return played
