"""A journal that survives a full disk: rows that cannot be written are counted, not raised."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from perftui.recorder.faults import FaultLog
from perftui.run.journal import Column, JournalWriter


class JournalSink:
    """Appends rows to the journal at ``path``, opened with the first of them.

    ``lost`` counts the rows that could not be written; each append tries anew, so that a journal
    goes on once there is space again. ``makes_directory`` is as for a ``JournalWriter``.
    """

    def __init__(
        self,
        path: Path,
        columns: Sequence[Column],
        faults: FaultLog,
        *,
        makes_directory: bool = True,
    ) -> None:
        self.lost = 0
        self._path = path
        self._columns = tuple(columns)
        self._faults = faults
        self._makes_directory = makes_directory
        self._journal: JournalWriter | None = None

    def append(self, rows: Sequence[Sequence[Any]]) -> None:
        """Append ``rows`` or count them as lost."""
        if not rows:
            return
        try:
            if self._journal is None:
                self._journal = JournalWriter(
                    self._path, self._columns, makes_directory=self._makes_directory
                )
            self._journal.append(rows)
        except (OSError, ValueError) as error:
            self.lost += len(rows)
            name = f"{self._path.parent.name}/{self._path.name}"
            self._faults.report(name, f"{error}; rows are lost, the training goes on")

    @property
    def size(self) -> int:
        """Bytes of the journal so far, 0 where it is not open or the file system does not say."""
        try:
            return 0 if self._journal is None else self._journal.size
        except OSError as error:
            self._faults.report(self._path.name, error)
            return 0

    def close(self) -> None:
        """Close the journal if it was ever opened."""
        if self._journal is not None:
            self._journal.close()
            self._journal = None
