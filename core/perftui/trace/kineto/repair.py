"""JSON as files in use misspell it, repaired so that a decoder takes it.

Windows paths are written with single backslashes, and values that are not known as ``N/A``, ``nan``
or ``None``. Both are read as what they mean; text inside strings keeps its words.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

_WORDS = r"\s*(?:N/A|-?nan(?:\(\w+\))?|-?inf|-NaN|None|undefined)(?=\s*[,}\]])"
_TOKEN = re.compile(
    rf'(?:[^"\\:,\[]+|"[^"\\]*"|[:,\[](?!{_WORDS})){{1,1000}}'  # nothing to repair, many at a time
    r'|(?P<string>"(?:[^"\\]+|\\.)*"?)'
    rf"|(?P<lead>[:,\[]){_WORDS}",
    re.ASCII | re.DOTALL,
)
_ESCAPE = re.compile(r'\\(["\\/bfnrt]|u[0-9a-fA-F]{4})?')


@dataclass
class Repaired:
    """Text that was repaired, and where its parts stood before."""

    text: str
    _repaired_ends: list[int] = field(default_factory=list)
    _original_ends: list[int] = field(default_factory=list)

    def original(self, index: int) -> int:
        """Index before mending of what stands at ``index`` now, outside of what was repaired."""
        edit = bisect_right(self._repaired_ends, index) - 1
        if edit < 0:
            return index
        return self._original_ends[edit] + index - self._repaired_ends[edit]


def repair(text: str) -> Repaired:
    """Double backslashes that escape nothing, and write values that are none as ``null``."""
    parts: list[str] = []
    repaired = Repaired("")
    copied = length = 0
    for match in _TOKEN.finditer(text):
        token = match.group()
        whole = _whole(match, token)
        if whole == token:
            continue
        parts += [text[copied : match.start()], whole]
        length += match.start() - copied + len(whole)
        copied = match.end()
        repaired._repaired_ends.append(length)
        repaired._original_ends.append(copied)
    repaired.text = "".join([*parts, text[copied:]])
    return repaired


def _whole(match: re.Match[str], token: str) -> str:
    if match.lastgroup == "lead":
        return match["lead"] + " null"
    return _ESCAPE.sub(_whole_escape, token) if match.lastgroup == "string" else token


def _whole_escape(match: re.Match[str]) -> str:
    """A backslash that escapes nothing stands for itself."""
    return match.group() if match.group(1) else "\\\\"


def decoder(fraction: Callable[[str], Any]) -> json.JSONDecoder:
    """A decoder that takes control characters in strings, NaN, Infinity and numbers of any size.

    ``fraction`` makes numbers with decimals.
    """
    return json.JSONDecoder(strict=False, parse_float=fraction, parse_int=_integer)


def exact(text: str) -> Any:
    """A number with all its digits; infinity where its exponent is beyond any meaning."""
    try:
        return Decimal(text)
    except ArithmeticError:
        return float(text)


def _integer(text: str) -> int | float:
    try:
        return int(text)
    except ValueError:  # more digits than Python is willing to convert
        return float(text)


_FLOATS = decoder(float)


def fields_before(head: bytes) -> dict[str, Any] | None:
    """Fields of a document up to its array of events, which is empty; None if unreadable."""
    return {} if head.startswith(b"[") else _object(head + b"]}")


def fields_behind(tail: bytes) -> dict[str, Any] | None:
    """Fields of a document from the end of its array of events on; None if unreadable."""
    return _object(b'{"traceEvents":[]' + tail) if tail.strip() else {}


def _object(raw: bytes) -> dict[str, Any] | None:
    """The object that the whole text spells, repaired where it must be."""
    text = raw.decode("utf-8", "replace")
    for spelled in (text, repair(text).text):
        try:
            value = _FLOATS.decode(spelled)
        except (ValueError, RecursionError):
            continue
        return value if isinstance(value, dict) else None
    return None
