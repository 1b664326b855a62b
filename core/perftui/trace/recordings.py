"""Traces of a directory grouped into recordings, each of all ranks at one time; which to open."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from perftui.trace.formats import cannot_open, unreadable_files
from perftui.trace.model import TraceError
from perftui.trace.rank_files import RankFile, find_ranks

SAME_TIME_NS = 10 * 10**9
"""Two workers that claim one rank within so long are one recording: a restarted training first has
to import torch and to warm up. Chosen; not measured."""


@dataclass(frozen=True)
class TraceFiles:
    """Files of one recording in one directory, by rank and then path.

    A trace without a rank and without a time in its name is a recording of its own.
    """

    files: tuple[RankFile, ...]

    @property
    def directory(self) -> Path:
        """Directory of the recording."""
        return self.files[0].directory

    @property
    def ranks(self) -> tuple[int, ...]:
        """Present ranks, in order."""
        return tuple(sorted({file.rank for file in self.files if file.rank is not None}))

    @property
    def world_sizes(self) -> tuple[int, ...]:
        """Numbers of ranks named in the files: more than one if they disagree."""
        return tuple(sorted({file.world_size for file in self.files if file.world_size}))

    @property
    def world_size(self) -> int | None:
        """Ranks of the training; None if no file names it, or they disagree."""
        return self.world_sizes[0] if len(self.world_sizes) == 1 else None

    @property
    def missing(self) -> tuple[range, ...]:
        """Missing ranks of the training; empty if its size is unknown."""
        edges = [-1, *(rank for rank in self.ranks if rank < (self.world_size or 0))]
        after = [*edges[1:], self.world_size or 0]
        gaps = (range(low + 1, high) for low, high in zip(edges, after, strict=True))
        return tuple(gap for gap in gaps if gap)

    @property
    def duplicates(self) -> tuple[tuple[RankFile, ...], ...]:
        """For each rank claimed by several files, those files, newest first."""
        return tuple(files for rank in self.ranks if len(files := self.of(rank)) > 1)

    def of(self, rank: int) -> tuple[RankFile, ...]:
        """The files of a rank, newest first."""
        own = (file for file in self.files if file.rank == rank)
        return tuple(sorted(own, key=lambda file: (file.time_ns, file.changed_ns), reverse=True))


def find_recordings(files: Iterable[RankFile]) -> tuple[TraceFiles, ...]:
    """Group ``files``; newest first.

    Files with a time in their names are one recording until a worker or its rank repeats, as the
    TensorBoard plugin counts a worker's spans. Files without one are one recording, or one for each
    series of names (``step1_rank*``) if that leaves no rank twice and none alone.
    """
    stamped, ranked, others = defaultdict(list), defaultdict(list), []
    for file in files:
        if file.name.stamp is not None:
            stamped[file.directory].append(file)
        elif file.rank is not None:
            ranked[file.directory].append(file)
        else:
            others.append([file])
    groups: list[list[RankFile]] = []
    for files_ in stamped.values():
        last: list[RankFile] = []
        for file in sorted(files_, key=lambda file: (file.time_ns, str(file.path))):
            if not last or any(_comes_again(file, other) for other in last):
                last = []
                groups.append(last)
            last.append(file)
    for files_ in ranked.values():
        series = defaultdict(list)
        for file in files_:
            series[file.name.series].append(file)
        alone = [*series.values()]
        apart = all(1 < len(group) == len({file.rank for file in group}) for group in alone)
        groups += alone if apart else [files_]
    result = [
        TraceFiles(tuple(sorted(group, key=lambda f: (f.rank is None, f.rank or 0, str(f.path)))))
        for group in (*groups, *others)
    ]
    # Times of change may be times of copying: they are only compared with each other.
    by_name = all(file.name.stamp is not None for part in result for file in part.files)
    return tuple(sorted(result, key=lambda part: _newest(part, by_name), reverse=True))


def _newest(recording: TraceFiles, by_name: bool) -> tuple[int, int, str]:
    time_named = max(file.time_ns for file in recording.files)
    changed = max(file.changed_ns for file in recording.files)
    return (time_named if by_name else changed), time_named, str(recording.files[0].path)


def _comes_again(file: RankFile, other: RankFile) -> bool:
    if file.name.worker == other.name.worker and file.name.stamp != other.name.stamp:
        return True
    same = file.rank is not None and file.rank == other.rank
    return same and file.time_ns - other.time_ns > SAME_TIME_NS


_NAMED = 4
"""Files that a note names at most, and ranks that it names as doubled."""


@dataclass(frozen=True)
class RankChoice:
    """One trace of a directory."""

    path: Path
    notes: tuple[str, ...]
    """Other traces, missing and doubtful ones, in words; not yet safe to show."""
    ranks: tuple[RankFile, ...]
    """The newest file of each rank of the recording, in order; empty if no rank is known."""


def choose_rank(directory: Path, rank: int | None = None) -> RankChoice | None:
    """The trace of ``rank``, by default of the lowest, in the newest complete recording.

    Recordings in the same directory take precedence over the newest if it lacks ranks and they do
    not. If no trace names its rank the newest trace is chosen; None if there is no trace. One that
    cannot be opened is left out, with a note. Raises TraceError if there is no such directory, no
    trace of that rank in it, or none that opens."""
    files = find_ranks(directory)
    left_out: list[str] = []
    while files:
        choice = _chosen(directory, files, rank)
        why = cannot_open(choice.path)
        if not why:
            notes = (f"left out: {each}" for each in left_out)
            return replace(choice, notes=(*choice.notes, *notes))
        left_out.append(why)
        files = tuple(file for file in files if file.path != choice.path)
        if not files or rank is not None:
            raise TraceError(left_out[0])
    return None


def _chosen(directory: Path, files: Sequence[RankFile], rank: int | None) -> RankChoice:
    recordings = find_recordings(files)
    candidates = [recording for recording in recordings if rank is None or rank in recording.ranks]
    if rank is not None and not candidates:
        newest = recordings[0]
        if not newest.ranks:
            raise TraceError(f"no trace in {directory} records its rank; name the file")
        present = _spelled([range(present_rank, present_rank + 1) for present_rank in newest.ranks])
        size = f" of {newest.world_size}" if newest.world_size else ""
        raise TraceError(f"{directory} holds no trace of rank {rank}; there are {present}{size}")
    chosen = _newest_complete(candidates)
    ranks = tuple(chosen.of(one_rank)[0] for one_rank in chosen.ranks)
    locked = unreadable_files(directory)
    unread = (f"cannot be read: {_names(path.name for path in locked)}",) if locked else ()
    if ranks:
        opened = ranks[0] if rank is None else chosen.of(rank)[0]
    else:
        opened = max(chosen.files, key=lambda file: (file.time_ns, file.changed_ns, str(file.path)))
    return RankChoice(
        path=opened.path,
        notes=(*_notes(directory, recordings, chosen, opened), *unread),
        ranks=ranks,
    )


def _newest_complete(recordings: Sequence[TraceFiles]) -> TraceFiles:
    """``recordings`` are newest first; completeness is judged within one directory."""
    siblings = [files for files in recordings if files.directory == recordings[0].directory]
    all_ranks = {rank for files in siblings for rank in files.ranks}
    workers = max(len(files.files) for files in siblings)
    for files in siblings:
        complete = not files.missing if files.world_size else all_ranks <= set(files.ranks)
        if complete and (files.ranks or len(files.files) == workers):
            return files
    return recordings[0]


def _notes(
    directory: Path, recordings: Sequence[TraceFiles], chosen: TraceFiles, opened: RankFile
) -> Iterator[str]:
    if opened.rank is not None:
        if len(chosen.files) > 1 or chosen.missing:
            yield _heading(chosen, opened)
        yield from _doubts(chosen)
    elif len(chosen.files) > 1:
        names = f"{len(chosen.files)} traces were recorded together, and none records its rank"
        yield f"{names}; this is {opened.path.name}"
    others = [files for files in recordings if files is not chosen]
    if not others:
        return
    if not any(files.ranks for files in recordings) and len(chosen.files) == 1:
        yield f"the newest of {sum(len(files.files) for files in recordings)} traces in {directory}"
        return
    kind = "newest" if chosen is recordings[0] else "newest complete"
    names_ = _names(str(files.files[0].path.relative_to(directory)) for files in others)
    yield f"the {kind} of {len(recordings)} recordings in {directory}; others begin with {names_}"


def _heading(chosen: TraceFiles, opened: RankFile) -> str:
    count = len(chosen.ranks)
    text = f"{count} rank" if count == 1 else f"{count} ranks"
    if chosen.missing:
        is_one = sum(map(len, chosen.missing)) == 1
        verb = "is" if is_one else "are"
        text += f" (of {chosen.world_size}: {_spelled(chosen.missing)} {verb} missing)"
    text += f"; this is rank {opened.rank}"
    if opened.source == "name":
        text += " by the file's name"
    return f"{text}, --rank N opens another" if count > 1 else text


def _doubts(chosen: TraceFiles) -> Iterator[str]:
    for files in chosen.duplicates[:_NAMED]:
        names = _names(file.path.name for file in files)
        yield f"{len(files)} files claim rank {files[0].rank}, the first is opened: {names}"
    if len(chosen.duplicates) > _NAMED:
        yield f"{len(chosen.duplicates)} ranks in all are claimed by more than one file"
    if len(chosen.world_sizes) > 1:
        sizes = " and ".join(str(size) for size in chosen.world_sizes)
        yield f"the files disagree about the number of ranks: {sizes}"
    beyond = [rank for rank in chosen.ranks if chosen.world_size and rank >= chosen.world_size]
    if beyond:
        yield f"rank {beyond[0]} is claimed, of {chosen.world_size} ranks"
    unknown = [file.path.name for file in chosen.files if file.rank is None]
    if unknown:
        yield f"no rank is known of {_names(unknown)}"


def _names(names: Iterable[str]) -> str:
    items = list(names)
    more = len(items) - _NAMED
    return ", ".join(items[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def _spelled(gaps: Iterable[range]) -> str:
    """``1, 3-5``: neighbours are joined."""
    joined: list[list[int]] = []
    for gap in gaps:
        if joined and joined[-1][1] == gap.start - 1:
            joined[-1][1] = gap.stop - 1
        else:
            joined.append([gap.start, gap.stop - 1])
    return ", ".join(str(low) if low == high else f"{low}-{high}" for low, high in joined)
