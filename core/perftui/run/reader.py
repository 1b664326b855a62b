"""Reads a run directory that may still be growing, may be cut off, or may be old."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perftui.run.columns import EVENT_COLUMNS, STEP_COLUMNS
from perftui.run.journal import Column, JournalReader
from perftui.run.layout import RankLayout, RunLayout
from perftui.run.liveness import with_liveness
from perftui.run.manifest import Manifest, ManifestError, read_manifest
from perftui.run.table import GrowingTable, Table
from perftui.run.versioned import NewerError

STEP_TEXT = frozenset({"kind"})
EVENT_TEXT = frozenset({"kind", "data"})


@dataclass(frozen=True, eq=False)
class RankSnapshot:
    """One rank so far: ``steps`` by ``STEP_COLUMNS``, ``events`` by ``EVENT_COLUMNS``."""

    rank: int
    steps: Table
    events: Table
    windows: tuple[Path, ...]


@dataclass(frozen=True, eq=False)
class RunSnapshot:
    """Everything a run directory says at one moment; immutable and complete."""

    root: Path
    manifest: Manifest
    ranks: tuple[RankSnapshot, ...]
    telemetry: dict[str, Table]
    """By host; a ``time`` column in ns and one column for each metric. All are float64, which keeps
    a time of today to 128 ns on either side."""
    output_bytes: int
    skipped_lines: int
    """Damaged journal lines that were left out."""

    def rank(self, rank: int = 0) -> RankSnapshot | None:
        """That rank, or the first there is, or None before any has written."""
        for snapshot in self.ranks:
            if snapshot.rank == rank:
                return snapshot
        return self.ranks[0] if self.ranks else None


class _JournalTable:
    """A journal and the table it fills."""

    def __init__(
        self, path: Path, expected: tuple[Column, ...], floats: bool, text: frozenset[str]
    ) -> None:
        self.journal = JournalReader(path)
        self._expected = expected
        self._floats = floats
        self._text = text
        self._table: GrowingTable | None = None

    @property
    def skipped(self) -> int:
        """Lines that were left out: damaged ones and those that do not fit their columns."""
        return self.journal.skipped + (self._table.refused if self._table else 0)

    def poll(self) -> Table:
        """Everything up to the end of the journal: a run that is over is read only once."""
        before = -1
        while before != self.journal.position:
            before = self.journal.position
            self._take(self.journal.poll())
        if self._table is None:
            return GrowingTable(self._expected, self._floats, self._text).freeze()
        return self._table.freeze()

    def _take(self, rows: list[list[Any]]) -> None:
        if self._table is None:
            if not self.journal.columns:
                return
            self._table = GrowingTable(self.journal.columns, self._floats, self._text)
        self._table.extend(rows)


class _RankReader:
    def __init__(self, layout: RankLayout, rank: int) -> None:
        self.rank = rank
        self._layout = layout
        self.steps = _JournalTable(layout.steps, STEP_COLUMNS, False, STEP_TEXT)
        self.events = _JournalTable(layout.events, EVENT_COLUMNS, False, EVENT_TEXT)

    def poll(self) -> RankSnapshot:
        return RankSnapshot(
            self.rank,
            self.steps.poll(),
            self.events.poll(),
            tuple(self._layout.window_files()),
        )


class RunReader:
    """Tails the run directory at ``root``; ``poll`` returns a fresh snapshot.

    Raises:
        ManifestError: on ``poll``, where there is no readable manifest, or a journal is of a newer
            version than this.
    """

    def __init__(self, root: Path) -> None:
        self.layout = RunLayout(root)
        self._ranks: dict[int, _RankReader] = {}
        self._telemetry: dict[str, _JournalTable] = {}

    def poll(self) -> RunSnapshot:
        """Read what has been added since the last call."""
        manifest = read_manifest(self.layout.manifest)
        try:
            return self._snapshot(manifest)
        except NewerError as error:
            raise ManifestError(str(error)) from error

    def _snapshot(self, manifest: Manifest) -> RunSnapshot:
        for rank in self.layout.ranks():
            if rank not in self._ranks:
                self._ranks[rank] = _RankReader(self.layout.rank(rank), rank)
        for path in self.layout.telemetry_files():
            host = path.stem.removeprefix("telemetry-")
            if host not in self._telemetry:
                self._telemetry[host] = _JournalTable(path, (), True, frozenset())
        ranks = tuple(self._ranks[rank].poll() for rank in sorted(self._ranks))
        telemetry = {host: table.poll() for host, table in self._telemetry.items()}
        return RunSnapshot(
            self.layout.root,
            with_liveness(manifest),
            ranks,
            telemetry,
            _size(self.layout.output),
            sum(table.skipped for table in self._tables()),
        )

    def _tables(self) -> list[_JournalTable]:
        tables = list(self._telemetry.values())
        for rank in self._ranks.values():
            tables += [rank.steps, rank.events]
        return tables


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
