"""NVTX ranges, and the domains that name who pushed them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from perftui.trace.nsys.columns import KEYS, OWNER
from perftui.trace.nsys.database import Database
from perftui.trace.nsys.names import Label, range_label
from perftui.trace.nsys.scan import Rows
from perftui.trace.nsys.string_tables import EVENT_TYPES, StringTables

TABLE = "NVTX_EVENTS"

_RANGES = ("NvtxPushPopRange", "NvtxStartEndRange", "NvtxtPushPopRange", "NvtxtStartEndRange")
_DOMAIN = "NvtxDomainCreate"


@dataclass
class Ranges:
    """Says which rows of ``NVTX_EVENTS`` are ranges and what they are called."""

    database: Database
    texts: StringTables
    domains: dict[tuple[int, int], str] = field(default_factory=dict)
    """Names by (global id of the process, domain), as far as they were read."""

    @property
    def keys(self) -> tuple[str, ...]:
        """SQL of the columns that ranges are named by."""
        column = self.database.column
        text = "text" if self.database.has(TABLE, "text") else "null"
        return column(TABLE, "eventType"), column(TABLE, "domainId"), column(TABLE, "textId"), text

    @property
    def where(self) -> str:
        """SQL that leaves out marks and what only names threads, categories and devices."""
        if not self.database.has(TABLE, "eventType"):
            return '"end" > "start"'
        types = self.texts.values(EVENT_TYPES, *_RANGES, _DOMAIN)
        return f"eventType in ({', '.join(map(str, types))})"

    def only(self, batches: Iterable[Rows]) -> Iterator[Rows]:
        """The ranges of each batch; what names a domain is kept apart."""
        naming = set(self.texts.values(EVENT_TYPES, _DOMAIN))
        for rows in batches:
            ranges = [row for row in rows if row[KEYS] not in naming]
            if len(ranges) < len(rows):
                for row in rows:
                    if row[KEYS] in naming:
                        self.domains[row[OWNER] >> 24, row[KEYS + 1]] = self._text(*row[KEYS + 2 :])
            yield ranges

    def label(self, _type: int, _domain: int, text_id: int, text: Any) -> Label:
        """Name and category of a range by its ``keys``."""
        return range_label(self._text(text_id, text))

    def _text(self, text_id: int, text: Any) -> str:
        return str(text) if text else self.texts.string(text_id) or "unnamed range"
