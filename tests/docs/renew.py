"""Writes the tables of docs that are made from the code: ``python -m tests.docs.renew``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from perftui.report.explain import table
from perftui.telemetry.metrics import tables
from tests.docs.documents import ROOT

TABLES: Mapping[str, Callable[[], str]] = {"docs/findings.md": table, "docs/metrics.md": tables}
"""The documents that end in tables, and what makes these."""


def renewed(text: str, made: str) -> str:
    """The document ``text`` with ``made`` in place of its tables."""
    before, _, _ = text.partition(made.splitlines()[0])
    return f"{before}{made}\n"


def main() -> None:
    """Renew every document, and print which ones have changed."""
    for name, make in TABLES.items():
        path = Path(ROOT, name)
        old = path.read_text(encoding="utf-8")
        new = renewed(old, make())
        path.write_text(new, encoding="utf-8")
        print(f"{name}: {'unchanged' if new == old else 'renewed'}")


if __name__ == "__main__":
    main()
