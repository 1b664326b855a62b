"""Reads a run directory that may still be growing, may be cut off, or may be old.

Output of several recorders of one run is merged into one snapshot."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from pathlib import Path
from typing import Any

import numpy as np

from perftui.run.columns import (
    EVENT_COLUMNS,
    LOCK_COLUMNS,
    STACK_COLUMNS,
    STEP_COLUMNS,
    WORKER_COLUMNS,
    WORKER_STACK_COLUMNS,
)
from perftui.run.control import Hearing, heard_label, is_elsewhere, silence_note, silent_seconds
from perftui.run.files import NewerError
from perftui.run.journal_table import KEPT_SAMPLES, KEPT_STACKS, KEPT_STEPS, JournalTable
from perftui.run.layout import RUNS_DIRECTORY, RankLayout, RunLayout, is_run_directory
from perftui.run.manifest import BY_HOST, Manifest, ManifestError, Status, named, run_state
from perftui.run.table import Table


@dataclass(frozen=True, eq=False)
class RankSnapshot:
    """One rank so far: ``steps`` by ``STEP_COLUMNS``, ``events`` by ``EVENT_COLUMNS``."""

    rank: int
    steps: Table
    events: Table
    windows: tuple[Path, ...]
    """Profiled windows by their first step."""
    workers: Table = field(default_factory=Table)
    """Work of the workers of its data loaders, by ``WORKER_COLUMNS``; of very many rows the first
    and the newest."""
    stacks: Table = field(default_factory=Table)
    """Stacks of its main thread, by ``STACK_COLUMNS``; of very many rows the first and the
    newest."""
    worker_stacks: Table = field(default_factory=Table)
    """Stacks of the workers of its data loaders, by ``WORKER_STACK_COLUMNS``."""
    window_stacks: Table = field(default_factory=Table)
    """Stacks of its main thread in windows, from inside; by ``STACK_COLUMNS``."""

    memory_files: tuple[Path, ...] = ()
    """Snapshots of the GPU's memory, the newest last."""

    lock_stacks: Table = field(default_factory=Table)
    """Stacks of its other threads that held Python's lock, by ``LOCK_COLUMNS``."""

    shift: int = 0
    """How much larger the rank's number is than the rank it claims, which another one has, too."""
    host: str = ""
    """Its host, if that is not the host of the manifest."""

    @property
    def place(self) -> int:
        """Its rank in the job: differs from its number if it replaced an earlier process."""
        for data in self.events["data"][self.events["kind"] == "follows"]:
            if isinstance(data, dict) and isinstance(data.get("rank"), int):
                return int(data["rank"]) + self.shift
        return self.rank

    def is_slow(self, window: Path) -> bool:
        """Whether the steps of ``window`` took far longer than usual, and nothing was asked of it:
        windows are opened after slow steps, too, and while other programs hold the cores steps took
        up to 20 times as long."""
        step, notes = self.steps, self.events["data"][self.events["kind"] == "window"]
        first = window.name.partition(".")[0]
        known = (note for note in notes if isinstance(note, dict))
        note = next((each for each in known if str(each.get("first_step")) == first), {})
        count = note.get("steps")
        if note.get("reason") not in _NOT_ASKED or not isinstance(count, int):
            return False
        place = step["index"] - int(first)
        own = step["duration"][(place >= 0) & (place < count)]
        usual = step["duration"][step["profiled"] == 0]
        return bool(len(own) and len(usual) and own.mean() > SLOW_STEPS * np.median(usual))


_NOT_ASKED = ("warm", "regular", "slow")
"""Reasons of windows that record nothing that a later one need not."""

SLOW_STEPS = 2
"""Times the usual step beyond which steps are no sample of the training."""


@dataclass(frozen=True, eq=False)
class RunSnapshot:
    """The content of a run directory at one moment; immutable and complete."""

    root: Path
    manifest: Manifest
    ranks: tuple[RankSnapshot, ...]
    telemetry: dict[str, Table]
    """Samples by host: a ``time`` column in ns and one column for each metric. All are float64,
    which keeps a time of today to 128 ns on either side."""
    skipped_lines: int
    """Damaged journal lines that were skipped."""

    def rank(self, rank: int = 0) -> RankSnapshot | None:
        """The rank of that number, or the first there is, or None before any has written.

        Of trainings that ran one after the other, the newest that has steps."""
        same = self.trainings(rank)
        active = [snapshot for snapshot in same if len(snapshot.steps)]
        chosen = active[-1:] or same[-1:] or self.ranks[:1]
        return chosen[0] if chosen else None

    def windows(self, rank: int = 0) -> tuple[Path, ...]:
        """The profiled windows of ``rank``, the one to judge by first: the newest, but those of
        slow steps last. Of several ranks windows belong together, so the newest comes first."""
        chosen = self.rank(rank)
        if chosen is None:
            return ()
        newest_first = chosen.windows[::-1]
        is_alone = len(self.ranks) == 1
        return tuple(sorted(newest_first, key=chosen.is_slow)) if is_alone else newest_first

    def trainings(self, rank: int = 0) -> tuple[RankSnapshot, ...]:
        """The processes that had that rank, one after the other."""
        return tuple(snapshot for snapshot in self.ranks if snapshot.place == rank)

    @property
    def world(self) -> int:
        """Number of processes that train side by side."""
        return len({snapshot.place for snapshot in self.ranks})


STACKS = {
    "stacks": STACK_COLUMNS,
    "worker_stacks": WORKER_STACK_COLUMNS,
    "window_stacks": STACK_COLUMNS,
    "lock_stacks": LOCK_COLUMNS,
}
"""Columns of the journals of stacks."""

_JOURNALS = {
    "steps": partial(JournalTable, expected=STEP_COLUMNS, kept=KEPT_STEPS),
    "events": partial(JournalTable, expected=EVENT_COLUMNS),
    "workers": partial(JournalTable, expected=WORKER_COLUMNS, kept=KEPT_STEPS),
    **{
        name: partial(JournalTable, expected=columns, kept=KEPT_STACKS)
        for name, columns in STACKS.items()
    },
}
"""Readers of a rank's journals, by their names in ``RankLayout`` and in ``RankSnapshot``."""


class RunReader:
    """Tails the run directory at ``root``; ``poll`` returns a fresh snapshot. It raises
    ManifestError if there is no readable manifest, or a journal is of a newer version than this."""

    def __init__(self, root: Path) -> None:
        self.layout = RunLayout(root)
        self._ranks: dict[int, dict[str, JournalTable]] = {}
        self._telemetry: dict[str, JournalTable] = {}
        self._hearing = Hearing(self.layout.heartbeat)
        self._parts: dict[Path, RunReader] = {}
        self._seen: dict[Path, RunSnapshot] = {}

    def poll(self) -> RunSnapshot:
        """Read everything added since the last call."""
        # Before the journals: those of a run that has ended are whole.
        manifest = named(run_state(self.layout.root), self.layout.root)
        try:
            own = self._snapshot(manifest)
        except NewerError as error:
            raise ManifestError(str(error)) from error
        # Output of other recorders of the run; if it cannot be read now, it stays as it was.
        for part in self.layout.parts():
            reader = self._parts.setdefault(part.root, RunReader(part.root))
            with suppress(ManifestError):
                self._seen[part.root] = reader.poll()
        return merged(own, list(self._seen.values()))

    def _snapshot(self, manifest: Manifest) -> RunSnapshot:
        for path in self.layout.telemetry_files():
            host = path.stem.removeprefix("telemetry-")
            if host not in self._telemetry:
                self._telemetry[host] = JournalTable(path, (), floats=True, kept=KEPT_SAMPLES)
        known = sorted({*self._ranks, *self.layout.ranks()})
        ranks = tuple(self._rank(rank, self.layout.rank(rank)) for rank in known)
        telemetry = {host: table.poll() for host, table in self._telemetry.items()}
        if is_elsewhere(manifest):
            self._hearing.poll()
            note = silence_note(manifest, self._hearing.silent)
            manifest = replace(manifest, notes=(*manifest.notes, note)) if note else manifest
        journals = [table for tables in self._ranks.values() for table in tables.values()]
        return RunSnapshot(
            self.layout.root,
            manifest,
            ranks,
            telemetry,
            sum(table.skipped for table in (*self._telemetry.values(), *journals)),
        )

    def _rank(self, rank: int, layout: RankLayout) -> RankSnapshot:
        if rank not in self._ranks:
            journals = {name: table(getattr(layout, name)) for name, table in _JOURNALS.items()}
            self._ranks[rank] = journals
        tables: Any = {name: table.poll() for name, table in self._ranks[rank].items()}
        windows, memory_files = tuple(layout.window_files()), tuple(layout.memory_files())
        return RankSnapshot(rank, **tables, windows=windows, memory_files=memory_files)


def merged(own: RunSnapshot, parts: Sequence[RunSnapshot]) -> RunSnapshot:
    """The run that ``own`` began and ``parts`` joined: all ranks, and the machine of each host.

    Several recorders on a host take turns sampling the machine; if samples overlap, each moment
    counts once."""
    if not parts:
        return own
    every = (own, *parts)
    ranks, notes = _ranks(every)
    hosts = {host for run in every for host in run.telemetry}
    return replace(
        own,
        manifest=_manifest(own.manifest, [part.manifest for part in parts], notes),
        ranks=ranks,
        telemetry={host: _samples(host, every) for host in hosts},
        skipped_lines=sum(run.skipped_lines for run in every),
    )


def _samples(host: str, runs: Sequence[RunSnapshot]) -> Table:
    """Samples of the recorders on ``host``, one after the other."""
    tables = [run.telemetry[host] for run in runs if host in run.telemetry]
    filled = sorted((one for one in tables if len(one)), key=lambda one: float(one["time"][0]))
    return reduce(_followed, filled) if filled else tables[0]


def _followed(before: Table, after: Table) -> Table:
    """``before`` and the later samples of ``after``."""
    fresh = after["time"] > before["time"][-1]
    # Overlapping samples are summed already, or known.
    return before.then(after if fresh.all() else after.where(fresh))


def _ranks(runs: Sequence[RunSnapshot]) -> tuple[tuple[RankSnapshot, ...], list[str]]:
    """All ranks by number; if two recorders share a number, the later recorder's are shifted."""
    ranks: dict[int, RankSnapshot] = {}
    notes = []
    for run in runs:
        numbers = {rank.rank for rank in run.ranks}
        shift = max(ranks) + 1 if numbers & ranks.keys() else 0
        if shift:
            notes.append(
                f"{run.manifest.host}: rank {min(numbers)} is also used by another recorder; "
                f"renumbered to {min(numbers) + shift}"
            )
        for rank in run.ranks:
            number = rank.rank + shift
            ranks[number] = replace(rank, rank=number, shift=shift, host=run.manifest.host)
    return tuple(ranks[number] for number in sorted(ranks)), notes


def _manifest(own: Manifest, parts: Sequence[Manifest], notes: Sequence[str]) -> Manifest:
    """The first recorder's manifest with the notes of all: a run is over once all are."""
    every_note = (*own.notes, *notes, *(note for part in parts for note in _notes_of(part)))
    every = (own, *parts)
    own = replace(own, profile={**own.profile, **_of_hosts(every)})
    if own.status.is_over and not all(other.status.is_over for other in every):
        return replace(own, status=Status.RUNNING, ended_ns=None, exit_code=None, notes=every_note)
    ends = [other.ended_ns for other in every if other.ended_ns is not None]
    ended = max(ends) if own.status.is_over and ends else own.ended_ns
    return replace(own, ended_ns=ended, notes=every_note)


def _of_hosts(every: Sequence[Manifest]) -> dict[str, dict[str, Any]]:
    """Entries of ``profile`` by host; the first recorder of a host prevails."""
    result: dict[str, dict[str, Any]] = {}
    for name in BY_HOST:
        rows = [manifest.profile.get(name) for manifest in reversed(every)]
        hosts = {host: fact for row in rows if isinstance(row, dict) for host, fact in row.items()}
        if hosts:
            result[name] = hosts
    return result


def _notes_of(part: Manifest) -> Iterator[str]:
    for note in part.notes:
        yield f"{part.host}: {note}"
    if part.message:
        yield f"{part.host}: could not be started: {part.message}"
    elif part.status is Status.LOST:
        yield f"{part.host}: its recorder died"
    elif part.exit_code:
        yield f"{part.host}: ended with exit code {part.exit_code}"


@dataclass(frozen=True)
class RunEntry:
    """One run directory. ``manifest`` is None if it cannot be read; ``problem`` says why."""

    root: Path
    manifest: Manifest | None
    problem: str | None = None
    silent: float | None = None
    """Seconds since the last sign of life of a recorder on another host, if there ever was one."""

    @property
    def run_id(self) -> str:
        """The name of its directory."""
        return self.root.name


class RunNotFoundError(LookupError):
    """No run matches, or several do; the message lists the candidates."""


def list_runs(runs: Path) -> list[RunEntry]:
    """Every run under ``runs``, newest first by start, damaged ones by the time in their name.

    A directory that does not exist holds none."""
    try:
        # Hidden directories are being deleted; links lead elsewhere.
        paths = [path for path in runs.iterdir() if not path.name.startswith(".")]
        roots = [path for path in paths if path.is_dir() and not path.is_symlink()]
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted(map(entry_of, roots), key=_age, reverse=True)


def find_run(runs: Path, identifier: str) -> RunEntry:
    """The run whose id is ``identifier``, or the only one that begins or ends with it. Raises
    RunNotFoundError if none matches, or several do."""
    entries = list_runs(runs)
    exact = [entry for entry in entries if entry.run_id == identifier]
    near = exact or [
        entry
        for entry in entries
        if entry.run_id.startswith(identifier) or entry.run_id.endswith(f"-{identifier}")
    ]
    if len(near) == 1:
        return near[0]
    if near:
        names = ", ".join(entry.run_id for entry in near[:5])
        raise RunNotFoundError(f"{identifier!r} could be any of {len(near)} runs: {names}")
    raise RunNotFoundError(f"no run {identifier!r} in {runs}")


def newest_run(directory: Path) -> Path | None:
    """``directory`` if it is a run, else the newest readable one in it or its ``.perftui/runs``.

    None where there is no such run."""
    if is_run_directory(directory):
        return directory
    runs = [
        (entry.manifest.started_ns, entry.root)
        for parent in (directory, directory / RUNS_DIRECTORY)
        for entry in list_runs(parent)
        if entry.manifest is not None
    ]
    return max(runs)[1] if runs else None


def recorded_where(entry: RunEntry) -> str | None:
    """``recording on node7, last heard 3 s ago``; None if that is this host, or the run is over."""
    if entry.manifest is None or not is_elsewhere(entry.manifest):
        return None
    heard = "" if entry.silent is None else f", {heard_label(entry.silent)}"
    return f"recording on {entry.manifest.host}{heard}"


def entry_of(root: Path) -> RunEntry:
    """The run in the directory ``root``."""
    try:
        manifest = run_state(root)
        silent = None
        if is_elsewhere(manifest):
            silent = silent_seconds(RunLayout(root).heartbeat, time.time_ns())
        return RunEntry(root, named(manifest, root), silent=silent)
    except ManifestError as error:
        return RunEntry(root, None, str(error))


def _age(entry: RunEntry) -> tuple[int, str]:
    started = entry.manifest.started_ns if entry.manifest else _time_in(entry.run_id)
    return started, entry.run_id


def _time_in(run_id: str) -> int:
    """Local time at the beginning of a name, as ns since the epoch; 0 if there is none.

    An hour is ambiguous when clocks are set back, so a manifest is asked first."""
    try:
        return int(time.mktime(time.strptime(run_id[:15], "%Y%m%d-%H%M%S"))) * 1_000_000_000
    except (ValueError, OverflowError):
        return 0
