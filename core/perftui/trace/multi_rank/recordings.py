"""The traces of a directory as recordings: what all ranks wrote at one time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from perftui.trace.multi_rank.rank_files import RankFile

SAME_TIME_NS = 10 * 10**9
"""Two workers that claim one rank within so long are one recording: a training that was started
again has first to import torch and to warm up. Chosen; not measured."""


@dataclass(frozen=True)
class Recording:
    """Files of one directory that belong together, by rank and then path.

    A trace of no rank and with no time in its name is a recording of its own.
    """

    files: tuple[RankFile, ...]

    @property
    def directory(self) -> Path:
        """The directory that the recording lies in."""
        return self.files[0].directory

    @property
    def ranks(self) -> tuple[int, ...]:
        """Ranks that are there, in order."""
        return tuple(sorted({file.rank for file in self.files if file.rank is not None}))

    @property
    def world_sizes(self) -> tuple[int, ...]:
        """Numbers of ranks that the files name: more than one where they disagree."""
        return tuple(sorted({file.world_size for file in self.files if file.world_size}))

    @property
    def world_size(self) -> int | None:
        """Ranks of the training; None where no file names it, or they disagree."""
        return self.world_sizes[0] if len(self.world_sizes) == 1 else None

    @property
    def missing(self) -> tuple[range, ...]:
        """Ranks of the training that are not there; none where its size is not known."""
        edges = [-1, *(rank for rank in self.ranks if rank < (self.world_size or 0))]
        after = [*edges[1:], self.world_size or 0]
        gaps = (range(low + 1, high) for low, high in zip(edges, after, strict=True))
        return tuple(gap for gap in gaps if gap)

    @property
    def duplicates(self) -> tuple[tuple[RankFile, ...], ...]:
        """Files that claim one rank, newest first, for each such rank."""
        return tuple(files for rank in self.ranks if len(files := self.of(rank)) > 1)

    def of(self, rank: int) -> tuple[RankFile, ...]:
        """The files of a rank, newest first."""
        own = (file for file in self.files if file.rank == rank)
        return tuple(sorted(own, key=lambda file: (file.time_ns, file.changed_ns), reverse=True))


def find_recordings(files: Iterable[RankFile]) -> tuple[Recording, ...]:
    """Group ``files``; newest first.

    Files with a time in their names are one recording up to where a worker or its rank comes again,
    as the TensorBoard plugin counts a worker's spans. Files without one are one recording, or one
    for each series of names (``step1_rank*``) where that leaves no rank twice and none alone.
    """
    stamped, ranked, others = defaultdict(list), defaultdict(list), []
    for file in files:
        if file.name.stamp is not None:
            stamped[file.directory].append(file)
        elif file.rank is not None:
            ranked[file.directory].append(file)
        else:
            others.append([file])
    groups = [group for found in stamped.values() for group in _by_time(found)]
    groups += [group for found in ranked.values() for group in _by_series(found)]
    made = [_recording(group) for group in (*groups, *others)]
    # Times of change are when files were copied: they are compared only with one another.
    by_name = all(file.name.stamp is not None for each in made for file in each.files)
    return tuple(sorted(made, key=lambda each: _newest(each, by_name), reverse=True))


def _newest(recording: Recording, by_name: bool) -> tuple[int, int, str]:
    named = max(file.time_ns for file in recording.files)
    changed = max(file.changed_ns for file in recording.files)
    return (named if by_name else changed), named, str(recording.files[0].path)


def _recording(files: Iterable[RankFile]) -> Recording:
    def order(file: RankFile) -> tuple[bool, int, str]:
        return file.rank is None, file.rank or 0, str(file.path)

    return Recording(tuple(sorted(files, key=order)))


def _by_time(files: Sequence[RankFile]) -> list[list[RankFile]]:
    groups: list[list[RankFile]] = []
    for file in sorted(files, key=lambda file: (file.time_ns, str(file.path))):
        if not groups or _comes_again(file, groups[-1]):
            groups.append([])
        groups[-1].append(file)
    return groups


def _comes_again(file: RankFile, group: Sequence[RankFile]) -> bool:
    for other in group:
        if file.name.worker == other.name.worker and file.name.stamp != other.name.stamp:
            return True
        same = file.rank is not None and file.rank == other.rank
        if same and file.time_ns - other.time_ns > SAME_TIME_NS:
            return True
    return False


def _by_series(files: Sequence[RankFile]) -> list[list[RankFile]]:
    series = defaultdict(list)
    for file in files:
        series[file.name.series].append(file)
    groups = list(series.values())
    if all(1 < len(group) == len({file.rank for file in group}) for group in groups):
        return groups
    return [list(files)]
