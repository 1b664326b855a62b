"""One snapshot out of those of all recorders of a run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING, Any

from perftui.run.aggregates import NO_AGGREGATES, Aggregates
from perftui.run.manifest import BY_HOST, Manifest, Status
from perftui.run.table import Table

if TYPE_CHECKING:
    from perftui.run.reader import RankSnapshot, RunSnapshot


def merged(own: RunSnapshot, parts: Sequence[RunSnapshot]) -> RunSnapshot:
    """The run that ``own`` began and ``parts`` joined: all ranks, and the machine of each host.

    Of a host with several recorders the machine is sampled by one at a time; where it was sampled
    by more, each moment counts once.
    """
    if not parts:
        return own
    every = (own, *parts)
    ranks, notes = _ranks(every)
    machines = {host: _samples(host, every) for host in {h for run in every for h in run.telemetry}}
    return replace(
        own,
        manifest=_manifest(own.manifest, [part.manifest for part in parts], notes),
        ranks=ranks,
        telemetry={host: table for host, (table, _) in machines.items()},
        downsampled={host: sums for host, (_, sums) in machines.items()},
        skipped_lines=sum(run.skipped_lines for run in every),
    )


_Samples = tuple[Table, Aggregates]
"""Samples of one machine: row by row, and summed."""


def _samples(host: str, runs: Sequence[RunSnapshot]) -> _Samples:
    """What the recorders on ``host`` have sampled one after the other."""
    all_of_it = [
        (run.telemetry[host], run.downsampled.get(host, NO_AGGREGATES))
        for run in runs
        if host in run.telemetry
    ]
    begun = [(table, sums) for table, sums in all_of_it if len(table)]
    if not begun:
        return all_of_it[0]
    first, *later = sorted(begun, key=lambda one: float(one[0]["time"][0]))
    return reduce(_followed, later, first)


def _followed(before: _Samples, after: _Samples) -> _Samples:
    """``before`` and what ``after`` has sampled later than that."""
    (rows, sums), (later_rows, later_sums) = before, after
    fresh = later_rows["time"] > rows["time"][-1]
    if not fresh.any():
        return before
    # What overlaps is no longer there row by row, or is known already.
    downsampled = sums.plus(later_sums) if fresh.all() else sums
    return rows.then(later_rows.where(fresh)), downsampled


def _ranks(runs: Sequence[RunSnapshot]) -> tuple[tuple[RankSnapshot, ...], list[str]]:
    """All ranks by their numbers; where two recorders use one number, the later are counted on."""
    found: dict[int, RankSnapshot] = {}
    notes = []
    for run in runs:
        numbers = {one.rank for one in run.ranks}
        shift = max(found) + 1 if numbers & found.keys() else 0
        if shift:
            notes.append(
                f"{run.manifest.host}: rank {min(numbers)} is also used by another recorder; "
                f"renumbered to {min(numbers) + shift}"
            )
        for one in run.ranks:
            number = one.rank + shift
            found[number] = replace(one, rank=number, shift=shift, host=run.manifest.host)
    return tuple(found[number] for number in sorted(found)), notes


def _manifest(own: Manifest, parts: Sequence[Manifest], notes: Sequence[str]) -> Manifest:
    """The manifest of the first recorder with the notes of all: a run is over once all are."""
    every_note = (*own.notes, *notes, *(note for part in parts for note in _notes_of(part)))
    every = (own, *parts)
    own = replace(own, profile={**own.profile, **_of_hosts(every)})
    if own.status.is_over and not all(one.status.is_over for one in every):
        return replace(own, status=Status.RUNNING, ended_ns=None, exit_code=None, notes=every_note)
    ends = [one.ended_ns for one in every if one.ended_ns is not None]
    ended = max(ends) if own.status.is_over and ends else own.ended_ns
    return replace(own, ended_ns=ended, notes=every_note)


def _of_hosts(every: Sequence[Manifest]) -> dict[str, dict[str, Any]]:
    """What was noted of each host; where several recorders did, what the first of them noted."""
    found: dict[str, dict[str, Any]] = {}
    for name in BY_HOST:
        noted = [one.profile.get(name) for one in reversed(every)]
        hosts = {host: what for one in noted if isinstance(one, dict) for host, what in one.items()}
        if hosts:
            found[name] = hosts
    return found


def _notes_of(part: Manifest) -> Iterator[str]:
    for note in part.notes:
        yield f"{part.host}: {note}"
    if part.message:
        yield f"{part.host}: could not be started: {part.message}"
    elif part.status is Status.LOST:
        yield f"{part.host}: its recorder died"
    elif part.exit_code:
        yield f"{part.host}: ended with exit code {part.exit_code}"
