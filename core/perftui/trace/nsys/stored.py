"""The reader of arguments of an export as columns, so that it can be kept with the trace."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from perftui.trace.cache.exports import touch
from perftui.trace.model import Int32, Int64
from perftui.trace.nsys.arguments import RowReader
from perftui.trace.nsys.database import Database


@dataclass(frozen=True, eq=False)
class StoredRows:
    """A ``RowReader`` but for where its database lies."""

    export: str | None
    """Name of the kept export of a report; None where the trace is the database itself."""
    identity: tuple[int, int]
    columns: Mapping[str, tuple[str, ...]]
    """Of each table of the database."""
    tables: tuple[str, ...]
    table: Int32
    row_id: Int64
    domains: tuple[tuple[int, int, str], ...]
    """Global id of the process, domain, name."""

    def reader(self, path: Path, directory: Path) -> RowReader | None:
        """The reader for the trace at ``path``, whose export is kept in ``directory``; None if
        that export is gone or is another one by now."""
        place = path if self.export is None else directory / self.export
        database = Database(place, self.identity, self.columns)
        if self.export is not None:
            if not database.is_there():
                return None
            with suppress(OSError):
                touch(place)
        domains = {(process, domain): name for process, domain, name in self.domains}
        return RowReader(database, self.tables, self.table, self.row_id, domains)


def stored_rows(reader: RowReader, path: Path, directory: Path) -> StoredRows | None:
    """What is kept of the reader of the trace at ``path``; None if its export is not kept in
    ``directory``."""
    place = reader.database.path
    if place != path and place.parent != directory:
        return None
    return StoredRows(
        export=None if place == path else place.name,
        identity=reader.database.identity,
        columns=reader.database.tables,
        tables=reader.tables,
        table=reader.table,
        row_id=reader.row_id,
        domains=tuple((*key, name) for key, name in reader.domains.items()),
    )
