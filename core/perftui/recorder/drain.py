"""Follows every agent of a run through the spool and records its reports."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from perftui.recorder.loader_workers import LoaderWorkers
from perftui.recorder.rank_journals import RankJournals
from perftui.recorder.sink import FaultLog
from perftui.recorder.spool import Note, NotesTail, RingError, RingHeader, RingReader
from perftui.run.layout import RankLayout, RunLayout
from perftui.run.manifest import is_alive
from perftui.wire.spool import Spool

NOTES_LOST = (
    "the agent could not write all of its notes: windows, warnings and facts about data loaders "
    "are missing (the training can no longer write files)"
)

REPLACED_UNREAD = (
    "the process replaced itself (exec) before its records were read; steps are missing"
)


@dataclass(eq=False)
class _Process:
    """One training process: its ring once it has one, its notes, and the journals of both."""

    pid: int
    tail: NotesTail
    notes: list[Note] = field(default_factory=list)
    """Notes not written yet, because the rank is not known before there is a ring."""
    ring: RingReader | None = None
    refused: str = ""
    """Why its ring cannot be read."""
    rings: int = 0
    """Number of rings seen so far."""
    journals: RankJournals | None = None
    workers: LoaderWorkers | None = None


class SpoolDrain:
    """Moves the agents' reports into the run directory, a poll at a time.

    ``on_process`` is called with each ``process`` note (interpreter, torch, devices) as it arrives.
    A process whose rank is taken already gets the next free number from its world size on, so that
    the directory of no later rank is touched.

    A failure with one process is reported, in its own journal too, and does not affect the others.
    Notes of processes that have no ring go to rank 0.
    """

    def __init__(
        self,
        spool: Spool,
        layout: RunLayout,
        faults: FaultLog,
        on_process: Callable[[Note], object],
    ) -> None:
        self._spool = spool
        self._layout = layout
        self._faults = faults
        self._on_process = on_process
        self._processes: dict[int, _Process] = {}
        self._ranks: set[int] = set()
        self._holders: dict[int, int] = {}
        """The newest process by the rank that it claims."""
        self._strays = RankJournals(layout.rank(0), spool, faults)
        """Journals of all processes that have no ring."""

    def training(self) -> dict[int, RankLayout]:
        """Rank directory of each training process, by its number. Any thread may ask."""
        items = list(self._processes.items())
        return {pid: item.journals.layout for pid, item in items if item.journals is not None}

    def loading(self) -> dict[int, tuple[RankLayout, int]]:
        """Rank directory and loader number of each worker, by its process. Any thread may ask."""
        return {
            pid: (process.journals.layout, loader)
            for process in list(self._processes.values())
            if process.journals is not None and process.workers is not None
            for pid, loader in process.workers.serving().items()
        }

    def poll(self) -> None:
        """Drain everything there is now."""
        self._find()
        for process in self._processes.values():
            self._attempt(process, self._drain)

    def finish(self) -> None:
        """Drain the rest and close."""
        self.poll()
        for process in self._processes.values():
            for work in (self._write_notes, self._finish_workers, self._finish_journals):
                self._attempt(process, work)
        self._strays.finish()

    def leave_behind(self) -> set[int]:
        """The command has ended: report of trainings that go on that they are no longer recorded.

        Returns their processes.
        """
        # The last process to begin may not have been seen yet.
        self.poll()
        going_on = set()
        for process in self._processes.values():
            if process.journals is not None and is_alive(process.pid):
                going_on.add(process.pid)
                process.journals.warn(
                    f"process {process.pid} kept running after the command ended; it is not "
                    "recorded from then on"
                )
        return going_on

    def _attempt(self, process: _Process, work: Callable[..., object], *arguments: object) -> None:
        try:
            work(process, *arguments)
        except Exception as error:  # noqa: BLE001 - a bug here must not end the other recordings
            kind, whose = type(error).__name__, f"process {process.pid}"
            self._faults.report(f"{whose}: {kind}", error)
            self._journals(process).warn(f"some records of {whose} are lost: {kind}: {error}")

    def _journals(self, process: _Process) -> RankJournals:
        return process.journals or self._strays

    def _drain(self, process: _Process) -> None:
        process.notes += self._read_notes(process.tail)
        if process.ring is not None and process.journals is not None:
            self._drain_ring(process.ring, process.journals)
            self._write_notes(process)
            if process.workers is not None:
                process.workers.poll()
        elif any(note.kind == "error" for note in process.notes):
            # It will make no ring: tell viewers that it is not recorded.
            self._write_notes(process)

    def _write_notes(self, process: _Process) -> None:
        # Taken out first: a failure would repeat at every turn.
        notes, process.notes = process.notes, []
        self._journals(process).notes(notes)
        if process.workers is not None:
            process.workers.notes(notes)

    def _finish_workers(self, process: _Process) -> None:
        if process.workers is not None and (lost := process.workers.finish()):
            self._journals(process).warn(f"{lost} rows of workers could not be written")

    def _finish_journals(self, process: _Process) -> None:
        journals = self._journals(process)
        if process.ring is None and process.refused:
            journals.warn(f"process {process.pid} is not recorded: {process.refused}")
        if process.tail.damaged:
            journals.warn(f"{process.tail.damaged} of the agent's notes could not be read")
        if process.journals is not None:
            process.journals.finish()
        if process.ring is not None:
            process.ring.close()

    def _find(self) -> None:
        for path in self._spool.notes_files():
            self._process(int(path.stem.removeprefix("notes-")))
        for path in sorted(self._spool.rings(), key=lambda path: int(path.name[5:])):
            process = self._process(int(path.name.removeprefix("ring-")))
            self._attempt(process, self._look_at_ring, path)

    def _look_at_ring(self, process: _Process, path: Path) -> None:
        ring, journals = process.ring, process.journals
        if ring is not None and journals is not None and ring.is_replaced():
            # A process that replaced itself (``exec``) trains anew under its old number.
            self._drain_ring(ring, journals)
            journals.begin_anew()
            ring.close()
            process.ring = None
        if process.ring is None:
            self._open_ring(process, path)

    def _process(self, pid: int) -> _Process:
        if pid not in self._processes:
            self._processes[pid] = _Process(pid, NotesTail(self._spool.notes(pid)))
        return self._processes[pid]

    def _open_ring(self, process: _Process, path: Path) -> None:
        try:
            ring = RingReader(path)
        except (RingError, OSError) as error:
            self._faults.report(path.name, error)
            process.refused = str(error)
            return
        journals = process.journals or self._begin(process, ring.header)
        process.ring = ring
        if ring.header.rings_before > process.rings:
            journals.warn(REPLACED_UNREAD)
        process.rings = ring.header.rings_before + 1

    def _begin(self, process: _Process, header: RingHeader) -> RankJournals:
        rank = claimed = max(header.rank, 0)
        if rank in self._ranks:
            rank = next(n for n in itertools.count(header.world_size) if n not in self._ranks)
        self._ranks.add(rank)
        layout = self._layout.rank(rank)
        journals = process.journals = RankJournals(layout, self._spool, self._faults)
        process.workers = LoaderWorkers(self._spool, header.pid, layout.workers, self._faults)
        before = self._processes.get(self._holders.get(claimed, -1))
        self._holders[claimed] = header.pid
        if before is not None and self._was_over(before, header.wall_ns):
            journals.follow(claimed)
        elif rank != header.rank:
            journals.warn(
                f"process {header.pid} reports rank {header.rank}, which another process already "
                f"has; it is recorded as rank {rank}"
            )
        return journals

    def _was_over(self, process: _Process, when: int) -> bool:
        """Whether ``process`` has ended and was idle from ``when`` on (wall clock, ns)."""
        if process.ring is None or process.journals is None:
            return False
        self._drain_ring(process.ring, process.journals)
        return process.journals.last_end <= when and not is_alive(process.ring.header.pid)

    def _drain_ring(self, ring: RingReader, journals: RankJournals) -> None:
        lost = ring.lost
        journals.records(ring.poll())
        journals.missed(ring.lost - lost)
        if ring.lost_notes:
            journals.warn(NOTES_LOST)

    def _read_notes(self, tail: NotesTail) -> list[Note]:
        try:
            notes = tail.poll()
        except OSError as error:
            self._faults.report(tail.path.name, error)
            return []
        for note in notes:
            if note.kind == "process":
                self._on_process(note)
        return notes
