"""What a report shows of others' text: without control codes, and without what is redacted.

Every form of a report passes each text of a run or a trace through here before it is cut, joined
or escaped, so that a redacted report needs no form of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

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
