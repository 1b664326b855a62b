"""A tuning whose runs are not made: what each gains is known, and each pair waits to be let go."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from perftui.experiments.trial import MOST_PAIRS
from perftui.experiments.trial_runs import Arm, Began, NextRun, Progress, Purpose, unseen
from perftui.experiments.trial_verdict import is_decided
from perftui.fixes.option import Risk
from perftui.recorder.launch import Launch
from tests.tui.fake_trial import FASTER, Gate, progress_of
from tests.tui.recorded import ENDED, START, write_run

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
        self.error: Exception | None = None
        """Raised in place of the first pair."""
        self.may_record = threading.Event()
        self.may_record.set()

    def paired_runs(
        self,
        _: Launch,
        after: Launch,
        __: Path,
        ___: int,
        cancelled: threading.Event,
        most_pairs: int = MOST_PAIRS,
        risks: Sequence[Risk] = (),
        began: Began = unseen,
    ) -> Iterator[Progress]:
        """The pairs of one fix, or of all that was kept."""
        del risks
        ratios = self.ratios.get(after.name or "", TOGETHER)[:most_pairs]
        began(NextRun(Purpose.WARM_UP))
        for count in range(1, len(ratios) + 1):
            for arm in Arm:
                began(NextRun(Purpose.PAIR, count, arm))
            self.wait(cancelled)
            if self.error is not None:
                raise self.error
            progress = progress_of(*ratios[:count])
            yield progress
            if is_decided(progress.verdict):
                return

    def record(self, launch: Launch, _: int, __: threading.Event) -> Path:
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
