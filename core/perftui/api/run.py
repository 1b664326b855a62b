"""A recorded run, for scripts and notebooks."""

from __future__ import annotations

from functools import cached_property
from os import PathLike
from pathlib import Path

from perftui.api.judged import Judged
from perftui.api.step_table import step_table
from perftui.api.table import Table
from perftui.api.trace import Trace
from perftui.report.recorded import Recorded, recording_of
from perftui.report.subject import Subject, SubjectError, load_run, subject_of
from perftui.run.history import newest_run
from perftui.run.layout import RunLayout
from perftui.run.manifest import Manifest
from perftui.run.reader import RunSnapshot


class Run(Judged):
    """A run as it was when it was opened, seen from one of its ranks; made by ``open_run``.

    ``perftui.open_run(run.path)`` reads it again, as far as it has come.
    """

    def __init__(self, snapshot: RunSnapshot, rank: int = 0) -> None:
        self._snapshot = snapshot
        self.rank = rank
        """The rank whose steps, windows and findings are shown."""

    @property
    def path(self) -> Path:
        """The directory of the run."""
        return self._snapshot.root

    @property
    def manifest(self) -> Manifest:
        """What was run, where, and how it ended: ``run_id``, ``command``, ``host``, ``status``,
        ``exit_code``, ``torch_version``... Times are ns since the epoch."""
        return self._snapshot.manifest

    @property
    def id(self) -> str:
        """The id of the run."""
        return self.manifest.run_id

    @property
    def script(self) -> str:
        """The script, or ``-m MODULE``."""
        return self.manifest.script

    @property
    def state(self) -> str:
        """``running``, ``exited 0``, ``stopped``..."""
        return self.manifest.state

    @cached_property
    def ranks(self) -> tuple[int, ...]:
        """The ranks of the run, in order; empty before the training has begun."""
        return tuple(sorted({one.place for one in self._snapshot.ranks}))

    def of_rank(self, rank: int) -> Run:
        """The same run, seen from another rank.

        Raises:
            ValueError: it has no such rank.
        """
        if rank not in self.ranks:
            some = ", ".join(map(str, self.ranks)) or "none yet"
            raise SubjectError(f"the run has no rank {rank}; its ranks are: {some}")
        return self if rank == self.rank else Run(self._snapshot, rank)

    @cached_property
    def steps(self) -> Table:
        """A row for each step of the rank, also of evaluation; empty before the first.

        Of a run of more than about 300,000 steps those in the middle are missing; ``breakdown``
        counts all.
        """
        found = self._snapshot.rank(self.rank)
        return step_table(found.steps if found else None)

    @cached_property
    def windows(self) -> tuple[Recorded, ...]:
        """The profiled steps of the rank, in order; ``perftui.load_trace(window.file)`` opens
        one. ``stall`` is how long the training waited for it, ns."""
        return recording_of(self._snapshot, self.rank).windows

    @cached_property
    def trace(self) -> Trace | None:
        """The newest of these windows that can be read; None where there is none."""
        analysis = self._subject.analysis
        if analysis is None:
            return None
        return Trace(Subject(analysis.trace.path, analysis=analysis), self._subject.facts)

    @cached_property
    def _subject(self) -> Subject:
        return subject_of(self._snapshot, rank=self.rank)

    def _judged(self) -> Subject:
        return self._subject

    def __repr__(self) -> str:
        return f"<Run {self.id}: {self.script}, {self.state}, {len(self.steps)} steps>"


def open_run(path: str | PathLike[str]) -> Run:
    """The run in the directory ``path``, or the newest one in a directory of runs, or in one that
    holds ``.perftui/runs``. Its steps are read at once, its windows when they are first needed.

    Raises:
        ValueError: there is no run, or it cannot be read.
    """
    given = Path(path)
    directory = given.parent if given == RunLayout(given.parent).manifest else given
    root = newest_run(directory) if directory.is_dir() else None
    if root is not None:
        return Run(load_run(root))
    if not given.exists():
        raise SubjectError(f"{given}: no such file or directory")
    hint = "perftui.load_trace opens traces" if given.is_file() else "name the directory of a run"
    raise SubjectError(f"{given} is not a run; {hint}")
