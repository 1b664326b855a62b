"""From a run directory to the snapshot on screen: reading, the newest window, the diagnosis."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from perftui.diagnosis.diagnose import diagnose
from perftui.diagnosis.evidence import Evidence, gather
from perftui.experiments.figures import figures_of
from perftui.run.own_cost import own_cost
from perftui.run.problems import problems
from perftui.run.reader import RankSnapshot, RunReader, RunSnapshot
from perftui.run.step_budget import step_budget
from perftui.run.table import Table
from perftui_tui import budget
from perftui_tui.fix_lookup import FixLookup
from perftui_tui.snapshot import RecordingCost, Snapshot, phase_of

if TYPE_CHECKING:
    from perftui.analysis.model import TraceAnalysis

RECENT_STEPS = 4000
"""Steps that are charted: minutes of a quick training."""


def read_once(root: Path) -> Snapshot:
    """The run at ``root`` as it is, its windows left unread.

    Raises:
        ManifestError: it is not a readable run.
    """
    return RunView(root, time.time_ns, lambda: False).read()


class RunView:
    """Reads the run at ``root`` again and again, and remembers the analysis of its last window.

    Raises:
        ManifestError: on ``read``, where the directory is not a readable run.
    """

    def __init__(self, root: Path, clock: Callable[[], int], cancelled: Callable[[], bool]) -> None:
        self._reader = RunReader(root)
        self._clock = clock
        self._cancelled = cancelled
        self._rank: int | None = None
        self._window: Path | None = None
        self._analysis: TraceAnalysis | None = None
        self._problem: str | None = None
        self._fixes = FixLookup()
        self._is_first = True
        self.unfinished = False
        """Whether the next read has something to add to a run that is over."""

    def read(self) -> Snapshot:
        """The run as it is now. The first picture does not wait for a window to be analysed."""
        run = self._reader.poll()
        rank = run.rank()
        self._notice_another(rank)
        newest = rank.windows[-1] if rank and rank.windows else None
        is_new = newest is not None and newest != self._window
        self.unfinished = is_new and self._is_first
        if newest is not None and is_new and not self._is_first:
            self._analyse(newest, run.manifest.status.is_over)
        self._is_first = False
        return self._snapshot(run, rank)

    def _notice_another(self, rank: RankSnapshot | None) -> None:
        """The window of a training says nothing of the one after it."""
        number = rank.rank if rank else None
        if number != self._rank:
            self._rank = number
            self._window = self._analysis = self._problem = None

    def _analyse(self, window: Path, is_over: bool) -> None:
        from perftui.analysis.opened import never, open_trace
        from perftui.trace.errors import TraceError

        self._window = window
        try:
            # While the training runs the disk is left to it.
            later = None if is_over else never
            self._analysis = open_trace(window, cancelled=self._cancelled, later=later)
            self._problem = None
        except (TraceError, OSError) as error:
            self._problem = f"the window {window.name} cannot be read: {error}"

    def _snapshot(self, run: RunSnapshot, rank: RankSnapshot | None) -> Snapshot:
        evidence = gather(run, self._analysis)
        diagnosis = diagnose(evidence)
        train = rank.steps.where(rank.steps["kind"] == "train") if rank else None
        return Snapshot(
            source=run.root,
            phase=phase_of(run.manifest),
            title=run.manifest.script,
            now_ns=self._clock(),
            run=run,
            analysis=self._analysis,
            diagnosis=diagnosis,
            budget=_budget(evidence, train),
            step_ms=tuple(ns / 1e6 for ns in train["duration"][-RECENT_STEPS:].tolist())
            if train is not None
            else (),
            train_steps=evidence.train_steps,
            train=train,
            recording=_recording(run, rank) if rank else None,
            loader=evidence.loader,
            figures=figures_of(run.manifest, evidence),
            problems=self._problems(run),
            main_thread=evidence.main_thread,
            gap_lines=evidence.gap_lines,
            options=self._fixes.of(diagnosis.findings, evidence),
        )

    def _problems(self, run: RunSnapshot) -> tuple[str, ...]:
        own = (self._problem,) if self._problem else ()
        return (*own, *problems(run))


def _budget(evidence: Evidence, train: Table | None) -> budget.Budget | None:
    if evidence.share is not None:
        return budget.of_run(evidence.share, f"{evidence.share.count} steady steps")
    if train is None:
        return None
    share = step_budget(train, np.ones(len(train), dtype=np.bool_))
    return budget.of_run(share, f"{share.count} steps, warming up") if share else None


def _recording(run: RunSnapshot, rank: RankSnapshot) -> RecordingCost | None:
    cost = own_cost(rank.steps, rank.thinned)
    if cost is None:
        return None
    budget = run.manifest.profile.get("overhead")
    return RecordingCost(cost.total, cost.whole, budget if isinstance(budget, float) else None)
