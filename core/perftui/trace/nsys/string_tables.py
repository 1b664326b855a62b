"""What the ids of an export stand for: its strings, and the labels of its enumerations."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, field

from perftui.trace.nsys.database import STRINGS, Database

COPY_KINDS = "ENUM_CUDA_MEMCPY_OPER"
MEMORY_KINDS = "ENUM_CUDA_MEM_KIND"
SYNC_KINDS = "ENUM_CUPTI_SYNC_TYPE"
EVENT_TYPES = "ENUM_NSYS_EVENT_TYPE"

_COPIES = (
    *("UNKNOWN", "HTOD", "DTOH", "HTOA", "ATOH", "ATOA", "ATOD", "DTOA", "DTOD", "HTOH", "PTOP"),
    *("UVM_HTOD", "UVM_DTOH", "UVM_DTOD"),
)
_MEMORIES = (
    *("Pageable", "Pinned", "Device", "Array", "Managed", "Device Static", "Managed Static"),
    "Unknown",
)
_SYNCS = ("Unknown", "Event sync", "Stream wait sync", "Stream sync", "Context sync")
_KNOWN: Mapping[str, Mapping[int, tuple[str, str]]] = {
    COPY_KINDS: {i: (f"CUDA_MEMCPY_KIND_{name}", name) for i, name in enumerate(_COPIES)},
    MEMORY_KINDS: {i: ("", label) for i, label in enumerate(_MEMORIES)},
    SYNC_KINDS: {i: ("", label) for i, label in enumerate(_SYNCS)},
    EVENT_TYPES: {
        59: ("NvtxPushPopRange",) * 2,
        60: ("NvtxStartEndRange",) * 2,
        70: ("NvtxtPushPopRange",) * 2,
        71: ("NvtxtStartEndRange",) * 2,
        75: ("NvtxDomainCreate",) * 2,
    },
}
"""For exports without these tables: (name, label) by id. NVIDIA, "SQLite Export Schema Reference"
of Nsight Systems 2021.5; the same in every file seen since."""

_MANAGED = _MEMORIES.index("Managed")
"""Was the last kind, "Unknown", before Nsight Systems 2021.3 (``MEM_KIND_STRS_CTE`` in the reports
of 2021.1)."""


@dataclass
class StringTables:
    """Looks up strings and enumerations of one export; each is read once."""

    database: Database
    connection: sqlite3.Connection
    damage: str | None = None
    """SQLite's error where strings could not be read."""
    _strings: dict[int, str | None] = field(default_factory=dict)
    _enumerations: dict[str, Mapping[int, tuple[str, str]]] = field(default_factory=dict)

    def string(self, key: int) -> str | None:
        """The text of an id; None where there is none."""
        if key not in self._strings:
            self._strings[key] = self._read_string(key)
        return self._strings[key]

    def name(self, enumeration: str, value: int) -> str:
        """The constant's name, such as ``CUDA_MEMCPY_KIND_HTOD``; empty where it is not known."""
        return self._enumeration(enumeration).get(value, ("", ""))[0]

    def label(self, enumeration: str, value: int) -> str:
        """The constant in texts, such as ``Pageable``; empty where it is not known."""
        return self._enumeration(enumeration).get(value, ("", ""))[1]

    def values(self, enumeration: str, *names: str) -> list[int]:
        """Ids of the constants with these names."""
        constants = self._enumeration(enumeration).items()
        return [value for value, (name, _) in constants if name in names]

    def _read_string(self, key: int) -> str | None:
        if not self.database.has(STRINGS, "id", "value"):
            return None
        try:
            found = self.connection.execute(
                f"select value from {STRINGS} where id = ?",  # noqa: S608 - a constant's name
                (key,),
            ).fetchone()
        except sqlite3.DatabaseError as error:
            self.damage = str(error)
            return None
        return None if found is None or found[0] is None else str(found[0])

    def _enumeration(self, table: str) -> Mapping[int, tuple[str, str]]:
        if table not in self._enumerations:
            self._enumerations[table] = self._read_enumeration(table) or self._known(table)
        return self._enumerations[table]

    def _known(self, table: str) -> Mapping[int, tuple[str, str]]:
        known = _KNOWN.get(table, {})
        if table == MEMORY_KINDS and self.database.has("TARGET_INFO_CUDA_GPU"):
            return {**known, _MANAGED: ("", "Unknown")}
        return known

    def _read_enumeration(self, table: str) -> dict[int, tuple[str, str]]:
        if not self.database.has(table, "id", "name"):
            return {}
        label = "label" if self.database.has(table, "label") else "name"
        try:
            rows = self.connection.execute(
                f"select id, name, {label} from {table}"  # noqa: S608 - constants' names
            ).fetchall()
        except sqlite3.DatabaseError as error:
            self.damage = str(error)
            return {}
        return {key: (str(name), str(text)) for key, name, text in rows if isinstance(key, int)}
