"""Others' text as reports show it: without control codes, and without what is redacted.

Every form of a report passes each text of a run or a trace through here before it is cut, joined
or escaped, so that a redacted report needs no form of its own.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from perftui.trace import text as trace_text

_replace: ContextVar[Callable[[str], str] | None] = ContextVar("replace", default=None)


@contextmanager
def replacing_texts(replace: Callable[[str], str]) -> Iterator[None]:
    """Within the block, what a report shows of a text is ``replace`` of it."""
    token = _replace.set(replace)
    try:
        yield
    finally:
        _replace.reset(token)


def replaced(text: str) -> str:
    """The text, or what a redacted report has in its place."""
    replace = _replace.get()
    return text if replace is None else replace(text)


def printable(text: str) -> str:
    """The same, safe to show on a terminal."""
    return trace_text.printable(replaced(text))


def encodable(text: str) -> str:
    """The same, fit for JSON."""
    return trace_text.encodable(replaced(text))


def map_texts(value: Any, text: Callable[[str], str], name: Callable[[str], str] = str) -> Any:
    """Plain values with ``text`` of each text in them, and ``name`` of each name of a field."""
    if isinstance(value, dict):
        return {name(str(field)): map_texts(one, text, name) for field, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [map_texts(one, text, name) for one in value]
    return text(value) if isinstance(value, str) else value


WIDTH = 79


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


def wrapped(text: str, indent: str = "", first: str | None = None) -> list[str]:
    """A paragraph as lines that fit 80 columns, behind ``first`` where that is another indent;
    names with hyphens stay whole, what is longer than a line is broken."""
    before = indent if first is None else first
    return textwrap.wrap(
        text, WIDTH, initial_indent=before, subsequent_indent=indent, break_on_hyphens=False
    )


def cut(text: str, width: int) -> str:
    """The text made safe to show, in at most ``width`` characters."""
    shown = printable(text)
    return shown if len(shown) <= width else f"{shown[: width - 3]}..."
