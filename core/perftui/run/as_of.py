"""A recorded run as it was known at an earlier time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from perftui.run.columns import MEMORY_SNAPSHOT
from perftui.run.manifest import Manifest, Status
from perftui.run.reader import STACKS, RankSnapshot, RunSnapshot
from perftui.run.table import Aggregates, Ints, Table


@dataclass(frozen=True, eq=False)
class Stops:
    """The times at which a run can be looked at, ns since the epoch."""

    start: int
    end: int
    """End of the run, or of its last record."""
    ends: Ints
    """End of each kept step of the shown rank, ascending."""
    index: Ints
    """The steps' own numbers."""
    summed: int = 0
    """Steps between the first and the newest of which only sums are left: the run cannot be stopped
    there."""

    def at_step(self, number: int) -> int:
        """The time at which ``number`` of the kept steps had ended: 0 is the start of the run, and
        numbers beyond the last step its end."""
        if number <= 0:
            return self.start
        return int(self.ends[number - 1]) if number <= len(self.ends) else self.end

    def steps_at(self, time: int) -> int:
        """Number of kept steps that had ended at ``time``."""
        return int(np.searchsorted(self.ends, time, side="right"))


def stops_of(run: RunSnapshot, rank: int = 0) -> Stops:
    """The times at which ``run`` can be looked at, by the steps of ``rank``."""
    rank_snapshot = run.rank(rank)
    steps = rank_snapshot.steps if rank_snapshot else Table()
    if not len(steps):
        ends = index = np.zeros(0, np.int64)
    else:
        index = steps["index"]
        # A step that another thread ends may be written late; times must not decrease.
        ends = np.maximum.accumulate(steps["start"] + steps["duration"])
    return Stops(run.manifest.started_ns, _end(run), ends, index, steps.sums.of().rows)


def _end(run: RunSnapshot) -> int:
    """End of ``run``, or of the last step of any rank."""
    steps = [rank.steps for rank in run.ranks if len(rank.steps)]
    last = [int((table["start"] + table["duration"]).max()) for table in steps]
    return max(run.manifest.started_ns, run.manifest.ended_ns or 0, *last)


def as_of(run: RunSnapshot, time: int) -> RunSnapshot:
    """The content of ``run`` at ``time`` (ns since the epoch).

    A step is known once it has ended, a window once it was saved, a sample once it was taken. Steps
    that were summed because the run is so long become known together, when the last of them has
    ended."""
    if time >= _end(run):
        return run
    ranks = tuple(cut for rank in run.ranks if (cut := _rank_as_of(rank, time)) is not None)
    return replace(
        run,
        manifest=_manifest_as_of(run.manifest, ranks),
        ranks=ranks,
        telemetry={host: _until(table, time) for host, table in run.telemetry.items()},
    )


def _manifest_as_of(manifest: Manifest, ranks: tuple[RankSnapshot, ...]) -> Manifest:
    """The manifest while the run goes on; torch's version is known from the first process note."""
    began = any("process" in rank.events["kind"].tolist() for rank in ranks)
    return replace(
        manifest,
        status=Status.RUNNING,
        ended_ns=None,
        exit_code=None,
        torch_version=manifest.torch_version if began else None,
    )


def _rank_as_of(rank: RankSnapshot, time: int) -> RankSnapshot | None:
    """The content of ``rank`` at ``time``; None for a rank that had not written anything."""
    # Notes have the time at which they were written, pauses that at which they began.
    pauses = np.where(rank.events["kind"] == "gc", rank.events["duration"], 0)
    events = rank.events.where(rank.events["time"] + pauses <= time)
    steps = _until(rank.steps, time)
    if not len(events) and not len(steps):
        return None
    tables: Any = {name: _until(getattr(rank, name), time) for name in ("workers", *STACKS)}
    # A later snapshot of memory replaces the one before it.
    newest = _files(rank.events, MEMORY_SNAPSHOT)
    return replace(
        rank,
        steps=steps,
        events=events,
        windows=_windows_known(rank, events, steps),
        memory_files=tuple(p for p in rank.memory_files if newest.get(p.name, time + 1) <= time),
        **tables,
    )


def _until(table: Table, time: int) -> Table:
    """Rows that had ended by ``time``, and sums if all of their rows had."""
    start = "start" if "start" in table else "time"
    length = next((table[name] for name in ("duration", "held") if name in table), 0)
    rows = table.where(table[start] + length <= time) if start in table else table
    return replace(rows, sums=table.sums if table.sums.of().last <= time else Aggregates())


def _windows_known(rank: RankSnapshot, events: Table, steps: Table) -> tuple[Path, ...]:
    """The windows that had been saved."""
    every, names = _files(rank.events, "window"), _files(events, "window")
    last = int(steps["index"].max(initial=-1)) if len(steps) else -1
    return tuple(
        path
        for path in rank.windows
        # A window without a note counts from its first step.
        if (path.name in names if path.name in every else int(path.name.split(".", 1)[0]) <= last)
    )


def _files(events: Table, kind: str) -> dict[str, int]:
    """Names of the files that notes of ``kind`` name, and when each was last noted."""
    notes = events.where(events["kind"] == kind)
    return {
        Path(data["file"]).name: int(when)
        for when, data in zip(notes["time"], notes["data"], strict=True)
        if isinstance(data, dict) and isinstance(data.get("file"), str)
    }
