"""What a report is about: a run, a trace, or a run and its newest window."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from perftui.analysis.model import TraceAnalysis
from perftui.analysis.open_trace import Work, never, open_trace
from perftui.facts.fact import Facts, RankPaths
from perftui.facts.ranks.traced_ranks import TracedRank, facts_beside, rank_of_trace, read_ranks
from perftui.run.layout import RunLayout
from perftui.run.manifest import ManifestError
from perftui.run.reader import RunReader, RunSnapshot, newest_run
from perftui.trace.model import Progress, TraceError
from perftui.trace.recordings import choose_rank
from perftui.trace.remote import named

if TYPE_CHECKING:
    from perftui.trace.nsys.report import ExportProgress
    from perftui.trace.rank_files import RankFile

_WINDOW = "a profiled window"


class SubjectError(ValueError):
    """There is nothing to report on; the message says why and what to give instead."""


@dataclass(frozen=True, eq=False)
class Subject:
    """A run, the analysis of a trace, or both; never neither."""

    path: Path
    """The chosen run directory or trace file."""
    run: RunSnapshot | None = None
    analysis: TraceAnalysis | None = None
    notes: tuple[str, ...] = ()
    """What was skipped in choosing, and what could not be read."""
    rank: int = 0
    """The run's rank whose steps and window are shown."""
    beside: RankPaths = ()
    """The traces of all ranks of the directory that was chosen, that of ``analysis`` among them."""
    ranks: ReadRanks | None = None
    """The contents of those traces, if they have been read already."""

    @property
    def name(self) -> str:
        """The path, or the URL of a remote trace; not yet safe to show."""
        return named(str(self.path))

    @property
    def facts(self) -> Facts:
        """All facts of the subject."""
        if self.ranks is not None and self.analysis is not None:
            return facts_beside(self.analysis, *self.ranks)
        return Facts(self.run, self.analysis, self.rank, self.beside)


def load_subject(
    path: Path,
    exporting: ExportProgress | None = None,
    rank: int = 0,
    progress: Progress | None = None,
) -> Subject:
    """Read what ``path`` names.

    A run directory (or its ``run.json``) gives the run and the newest window of ``rank`` that can
    be read, or else, where ``exporting`` is given, the newest report of ``nsys`` that it holds; a
    directory of runs, or one that holds ``.perftui/runs``, gives the newest run; any other
    directory gives the lowest rank of its newest recording; a file is a trace. ``exporting`` is
    called with how far ``nsys`` has come where it must export that first, ``progress`` with what
    was read of the file that is named. Raises SubjectError if nothing of that is there, or it
    cannot be read, or the run has no such rank."""
    if not path.exists():
        raise SubjectError(f"{path}: no such file or directory")
    if path.is_file() and path != RunLayout(path.parent).manifest:
        return Subject(path, analysis=_open(path, exporting, progress=progress))
    directory = path.parent if path.is_file() else path
    root = newest_run(directory)
    return _of_directory(directory) if root is None else subject_of(load_run(root), exporting, rank)


def load_run(root: Path) -> RunSnapshot:
    """The run in the directory ``root``, without its windows. Raises SubjectError if it cannot be
    read."""
    try:
        return RunReader(root).poll()
    except ManifestError as error:
        raise SubjectError(str(error)) from error


def subject_of(run: RunSnapshot, exporting: ExportProgress | None = None, rank: int = 0) -> Subject:
    """``run`` with the newest window of ``rank`` that can be read, as ``load_subject`` reads it.
    Raises SubjectError if the run has no such rank."""
    places = sorted({row.place for row in run.ranks})
    if rank and rank not in places:
        some = ", ".join(map(str, places)) or "none yet"
        raise SubjectError(f"the run has no rank {rank}; its ranks are: {some}")
    windows = [(path, _WINDOW) for path in run.windows(rank)]
    # Exporting them may take minutes: only if somebody sees its progress.
    reports = reversed(RunLayout(run.root).nsys_reports() if exporting else ())
    notes: list[str] = []
    for path, what in (*windows, *((path, "a report of nsys") for path in reports)):
        opened = _read_or_reason(path, what, exporting)
        if not isinstance(opened, str):
            return Subject(run.root, run, opened, tuple(notes), rank)
        notes.append(opened)
    return Subject(run.root, run, None, tuple(notes or ["no window was profiled"]), rank)


def _read_or_reason(path: Path, what: str, exporting: ExportProgress | None) -> TraceAnalysis | str:
    """The analysis of a trace, or why it is left out: a killed training may leave half a file.

    A window is not kept for the next time: the training may still run, and need the disk."""
    try:
        return _open(path, exporting, never if what == _WINDOW else None)
    except SubjectError as error:
        return f"{what} was left out: {error}"


def _of_directory(directory: Path) -> Subject:
    chosen = choose_rank(directory)
    if chosen is None:
        raise SubjectError(
            f"{directory} contains neither a run nor a trace; name the directory of a run, or a "
            "trace written by torch.profiler"
        )
    beside = paths_of(chosen.ranks)
    return Subject(chosen.path, analysis=_open(chosen.path), notes=chosen.notes, beside=beside)


def paths_of(ranks: Sequence[RankFile]) -> RankPaths:
    """The traces of the ranks that are known, by number."""
    return tuple((file.rank, file.path) for file in ranks if file.rank is not None)


def _open(
    path: Path,
    exporting: ExportProgress | None = None,
    later: Callable[[Work], None] | None = None,
    progress: Progress | None = None,
) -> TraceAnalysis:
    try:
        return open_trace(path, progress, later=later, exporting=exporting)
    except TraceError as error:
        name = named(str(path))
        text = str(error) if name in str(error) else f"{name}: {error}"
        raise SubjectError(text) from error


ReadRanks = tuple[tuple[TracedRank, ...], tuple[str, ...]]
"""All ranks of a directory whose traces could be read, and sentences about the other traces."""


def read_beside(
    subject: Subject, tell: Progress | None = None, scheduler: str = ""
) -> ReadRanks | None:
    """The ranks beside the open trace of ``subject``, and itself; None where there are no others.
    ``tell`` is called with the number of traces read and of all traces. Raises ClusterError if the
    cluster at ``scheduler`` cannot be used."""
    opened, beside = subject.analysis, subject.beside
    shown = next((pair[0] for pair in beside if opened and pair[1] == opened.trace.path), None)
    if opened is None or shown is None or len(beside) < 2:
        return None
    ranks, problems = [rank_of_trace(opened, shown)], []
    others = tuple(pair for pair in beside if pair[0] != shown)
    for done, (rank, result) in enumerate(read_ranks(others, scheduler=scheduler), 2):
        if isinstance(result, str):
            problems.append((rank, result))
        else:
            ranks.append(result)
        if tell is not None:
            tell(done, len(beside))
    return tuple(ranks), tuple(why for _, why in sorted(problems))
