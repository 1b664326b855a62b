"""From a run directory to the snapshot on screen: reading, the newest window, the diagnosis."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from perftui.diagnosis.diagnose import diagnose
from perftui.diagnosis.evidence import Evidence, gather
from perftui.diagnosis.ranks import ranks_of
from perftui.experiments.figures import figures_of
from perftui.run.memory_use import memory_use
from perftui.run.own_cost import own_cost
from perftui.run.problems import problems as problems_of
from perftui.run.reader import RankSnapshot, RunReader, RunSnapshot
from perftui.run.step_budget import step_budget
from perftui.run.table import Table
from perftui_tui import budget
from perftui_tui.fix_lookup import FixLookup
from perftui_tui.held_memory import HeldMemory
from perftui_tui.snapshot import RecordingCost, Snapshot, phase_of

if TYPE_CHECKING:
    from perftui.analysis.model import TraceAnalysis
    from perftui.report.memory import MemoryReport

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

    def __init__(
        self,
        root: Path,
        clock: Callable[[], int],
        cancelled: Callable[[], bool],
        rank_number: int = 0,
    ) -> None:
        self._rank_number = rank_number
        self._reader = RunReader(root)
        self._clock = clock
        self._cancelled = cancelled
        self._rank: int | None = None
        self._window: Path | None = None
        self._analysis: TraceAnalysis | None = None
        self._problem: str | None = None
        self._fixes = FixLookup()
        self._held = HeldMemory(cancelled)
        self._is_first = True
        self.unfinished = False
        """Whether the next read has something to add to a run that is over."""

    def read(self) -> Snapshot:
        """The run as it is now. The first picture does not wait for a window to be analysed."""
        run = self._reader.poll()
        rank = run.rank(self._rank_number)
        self._notice_another(rank)
        newest = rank.windows[-1] if rank and rank.windows else None
        is_new = newest is not None and newest != self._window
        is_new_memory = rank is not None and not self._held.knows(rank)
        self.unfinished = (is_new or is_new_memory) and self._is_first
        if newest is not None and is_new and not self._is_first:
            self._analyse(newest, run.manifest.status.is_over)
        if rank is not None and not self._is_first:
            self._held.read(rank)
        self._is_first = False
        return self._snapshot(run)

    def _notice_another(self, rank: RankSnapshot | None) -> None:
        """The window of a training says nothing of the one after it."""
        number = rank.rank if rank else None
        if number != self._rank:
            self._rank = number
            self._window = self._analysis = self._problem = None

    def _analyse(self, window: Path, is_over: bool) -> None:
        self._window = window
        opened = open_window(window, self._cancelled, is_over=is_over)
        if isinstance(opened, str):
            self._problem = opened
        else:
            self._analysis, self._problem = opened, None

    def _snapshot(self, run: RunSnapshot) -> Snapshot:
        rank = run.rank(self._rank_number)
        held, problem = self._held.of(rank) if rank else (None, None)
        return picture(
            run,
            self._rank_number,
            self._analysis,
            self._clock(),
            self._fixes,
            held=held,
            problems=tuple(one for one in (self._problem, problem) if one),
        )


def open_window(
    window: Path, cancelled: Callable[[], bool], *, is_over: bool
) -> TraceAnalysis | str:
    """The analysis of a profiled window, or why it cannot be read.

    Raises:
        LoadCancelled: ``cancelled`` said so.
    """
    from perftui.analysis.opened import never, open_trace
    from perftui.trace.errors import TraceError

    try:
        # While the training runs the disk is left to it.
        return open_trace(window, cancelled=cancelled, later=None if is_over else never)
    except (TraceError, OSError) as error:
        return f"the window {window.name} cannot be read: {error}"


def picture(
    run: RunSnapshot,
    rank_number: int,
    analysis: TraceAnalysis | None,
    now_ns: int,
    fixes: FixLookup,
    *,
    held: MemoryReport | None = None,
    problems: tuple[str, ...] = (),
    as_of: int | None = None,
) -> Snapshot:
    """``run`` judged, with the ``analysis`` of its newest window, as the screens show it.

    ``held`` is who holds its memory, ``problems`` are those of reading either; ``as_of`` is the
    time of which ``run`` speaks, where that is not the end of what is known.
    """
    rank = run.rank(rank_number)
    evidence = gather(run, analysis, rank_number)
    diagnosis = diagnose(evidence)
    train = rank.steps.where(rank.steps["kind"] == evidence.kind) if rank else None
    return Snapshot(
        source=run.root,
        phase=phase_of(run.manifest),
        title=run.manifest.script,
        now_ns=now_ns,
        as_of=as_of,
        run=run,
        rank_number=rank_number,
        analysis=analysis,
        diagnosis=diagnosis,
        budget=_budget(evidence, train),
        step_ms=tuple(ns / 1e6 for ns in train["duration"][-RECENT_STEPS:].tolist())
        if train is not None
        else (),
        train_steps=evidence.step_count,
        train=train,
        recording=_recording(run, rank) if rank else None,
        loader=evidence.loader,
        figures=figures_of(run, evidence),
        problems=(*problems, *problems_of(run)),
        main_thread=evidence.main_thread,
        window_thread=evidence.window_thread,
        syncs=evidence.syncs,
        worker_lines=evidence.worker_lines,
        gap_lines=evidence.gap_lines,
        memory=memory_use(rank.steps, rank.thinned) if rank else None,
        held=held,
        ranks=ranks_of(run),
        options=fixes.of(diagnosis.findings, evidence),
    )


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
    known = budget if isinstance(budget, float) else None
    return RecordingCost(cost.total, cost.at_most, cost.whole, known)
