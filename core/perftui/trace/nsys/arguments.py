"""All columns of single rows, read from the export when they are asked for."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from perftui.trace.errors import TraceError
from perftui.trace.model import Int32, Int64
from perftui.trace.nsys.database import Database, quoted
from perftui.trace.nsys.string_tables import COPY_KINDS, EVENT_TYPES, MEMORY_KINDS, StringTables

_STRINGS = ("shortName", "demangledName", "mangledName", "nameId", "textId", "jsonTextId")
_LABELS = {
    "copyKind": COPY_KINDS,
    "srcKind": MEMORY_KINDS,
    "dstKind": MEMORY_KINDS,
    "memKind": MEMORY_KINDS,
    "eventType": EVENT_TYPES,
    "launchType": "ENUM_CUDA_KERNEL_LAUNCH_TYPE",
    "overheadType": "ENUM_CUPTI_OVERHEAD_TYPE",
}


@dataclass(frozen=True, eq=False)
class RowReader:
    """Reads the row of an export behind a row of the trace.

    Raises TraceError if the file is gone, has changed or is damaged there.
    """

    database: Database
    tables: tuple[str, ...]
    table: Int32
    """Of each row of the trace, the index into ``tables``."""
    row_id: Int64
    domains: Mapping[tuple[int, int], str]
    """Names of NVTX domains by (global id of the process, domain)."""

    def __call__(self, row: int) -> Mapping[str, Any]:
        """Columns that are not NULL; ids of strings and constants as what they stand for, first."""
        table = self.tables[int(self.table[row])]
        with self.database.connect() as connection:
            try:
                cursor = connection.execute(
                    f"select * from {quoted(table)} where rowid = ?",  # noqa: S608 - quoted
                    (int(self.row_id[row]),),
                )
                found = cursor.fetchone()
            except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
                raise TraceError(f"{self.database.path}: {table} is damaged ({error})") from error
            if found is None:
                raise TraceError(f"{self.database.path} has changed since it was opened")
            columns = (column[0] for column in cursor.description)
            raw = {
                key: value for key, value in zip(columns, found, strict=True) if value is not None
            }
            return self._readable(raw, StringTables(self.database, connection))

    def _readable(self, raw: Mapping[str, Any], texts: StringTables) -> Mapping[str, Any]:
        spelled, others = {}, {}
        for key, value in raw.items():
            text = _text(texts, key, value)
            if text:
                spelled[key] = text
            else:
                others[key] = f"{len(value)} bytes" if isinstance(value, bytes) else value
        domain = self._domain(raw.get("globalTid"), raw.get("domainId"))
        return {**spelled, **({"domain": domain} if domain else {}), **others}

    def _domain(self, owner: Any, domain: Any) -> str | None:
        # SQLite puts anything into any column, and so does damage.
        if not isinstance(owner, int) or not isinstance(domain, int):
            return None
        return self.domains.get((owner >> 24, domain))


def _text(texts: StringTables, key: str, value: Any) -> str | None:
    if not isinstance(value, int):
        return None
    if key in _STRINGS:
        return texts.string(value)
    return texts.label(_LABELS[key], value) if key in _LABELS else None
