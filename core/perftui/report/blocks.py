"""Blocks of lines, the parts that every report in text is made of."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator

from perftui.report.shown import printable, replaced

_WIDTH = 79


def joined(blocks: Iterable[Iterable[str]]) -> str:
    """The blocks that have lines, an empty line between them."""
    shown = (list(map(replaced, block)) for block in blocks)
    return "\n\n".join("\n".join(block) for block in shown if block) + "\n"


def listed(title: str, lines: Iterable[str]) -> Iterator[str]:
    """``title`` and indented lines made safe to show; nothing without lines."""
    found = list(lines)
    if found:
        yield title
    for line in found:
        yield f"  {printable(line)}"


def wrapped(text: str, indent: str = "") -> list[str]:
    """A paragraph as lines that fit 80 columns; names with hyphens stay whole."""
    return textwrap.wrap(
        text, _WIDTH, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False
    )


def cut(text: str, width: int) -> str:
    """The text made safe to show, in at most ``width`` characters."""
    shown = printable(text)
    return shown if len(shown) <= width else f"{shown[: width - 3]}..."
