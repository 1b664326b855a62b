"""Parts of the documents that are made from the program.

``python -m tests.docs.generated`` writes them anew. Such a part stands between
``<!-- generated: KIND WORDS -->`` and ``<!-- end -->``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from perftui.telemetry import host_sources
from tests.docs import key_tables, reference
from tests.docs.documents import DOCUMENTS, ROOT

KINDS = {
    "findings-table": reference.findings_table,
    "findings": reference.findings,
    "fixes-table": reference.fixes_table,
    "fixes": reference.fixes,
    "metrics": host_sources.tables,
    "about": key_tables.about,
    "keys": key_tables.keys,
    "numbers": key_tables.numbers,
    "tools": reference.tools,
}

_PART = re.compile(r"(<!-- generated: (.+?) -->\n\n).*?\n?(<!-- end -->)", re.DOTALL)


def parts(document: Path) -> Iterator[str]:
    """The kind and words of each part that a document has."""
    for found in _PART.finditer(document.read_text(encoding="utf-8")):
        yield found[2]


def generated(document: Path) -> str:
    """The text of a document with each such part made anew."""
    return _PART.sub(_made, document.read_text(encoding="utf-8"))


def _made(found: re.Match[str]) -> str:
    kind, *words = found[2].split()
    return f"{found[1]}{KINDS[kind](*words)}\n\n{found[3]}"


def main() -> None:
    """Renew every document, and print which ones have changed."""
    for document in DOCUMENTS:
        text = generated(document)
        if text != document.read_text(encoding="utf-8"):
            document.write_text(text, encoding="utf-8")
            print(f"{document.relative_to(ROOT)} renewed")


if __name__ == "__main__":
    main()
