"""Events out of text that a strict parser refuses, one at a time.

An event that cannot be read is left out, and reading resumes at the next text that looks like the
start of one. Files in use hold bare ``NaN``, ``Infinity`` and ``N/A``, Windows paths with single
backslashes, control characters, and bytes that are no UTF-8; those are read as what they mean.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

_START = re.compile(r'[,\[]\s*(?=\{\s*"(?:ph|cat|name|pid|tid|ts|dur|id|bp|s|args)"\s*:)', re.ASCII)
"""Before the brace of an event. An object nested in an event follows a colon."""

_BETWEEN = re.compile(r"\s*,?\s*", re.ASCII)
_SURROGATE = re.compile("[\ud800-\udfff]")
_ESCAPE = re.compile(r'\\(["\\/bfnrt]|u[0-9a-fA-F]{4})?')
_NOT_AVAILABLE = re.compile(r"(:\s*)(?:N/A|-?nan|-?inf|None|undefined)(?=\s*[,}\]])")


@dataclass
class Recovered:
    """What was read of one stretch of text; offsets are bytes from its start."""

    objects: list[dict[str, Any]] = field(default_factory=list)
    consumed: int = 0
    """How far the text need not be looked at again."""
    closed: bool = False
    """Whether the array of events ends at ``consumed``."""
    skipped: list[int] = field(default_factory=list)
    """Where the events begin that could not be read."""


def recover(raw: bytes, last: bool, fraction: Callable[[str], Any] = Decimal) -> Recovered:
    """Read the text, which begins with an event, and take every event that is whole.

    Unless ``last``, the text goes on after its end, and the last event is left for later.
    ``fraction`` makes numbers with decimals: by default it keeps every digit.
    """
    # Control characters may stand in strings; NaN and Infinity are read without asking.
    return _Walk(raw, last, json.JSONDecoder(strict=False, parse_float=fraction)).run()


class _Walk:
    def __init__(self, raw: bytes, last: bool, decoder: json.JSONDecoder) -> None:
        # One character for every byte that is no UTF-8, so that offsets can be computed back.
        self._bytes = raw.decode("utf-8", "surrogateescape")
        self._text = _SURROGATE.sub("�", self._bytes)
        self._last = last
        self._decoder = decoder
        self._found = Recovered()

    def run(self) -> Recovered:
        at = self._next(0)
        if self._text.startswith("]", at):
            at, self._found.closed = at + 1, True
        while at < len(self._text) and not self._found.closed:
            following = self._take(at)
            if following is None:
                break
            at = following
        self._found.consumed = self._offset(at)
        return self._found

    def _offset(self, index: int) -> int:
        return len(self._bytes[:index].encode("utf-8", "surrogateescape"))

    def _take(self, at: int) -> int | None:
        """Read or skip the event at ``at``; where the next begins, None to wait for more text."""
        resume = self._resume(at + 1)
        decoded = self._decode(at, resume)
        if decoded is None:
            if resume == len(self._text) and not self._last:
                return None
            self._found.skipped.append(self._offset(at))
            return resume
        value, end = decoded
        return self._follow(value, self._next(end))

    def _follow(self, value: dict[str, Any], following: int) -> int | None:
        """Take an event, and find what comes after it."""
        behind = self._text[following : following + 1]
        if not behind and not self._last:
            return None
        self._found.objects.append(value)
        if behind == "]":
            self._found.closed = True
            return following + 1
        return following if behind in {"{", ""} else self._resume(following)

    def _next(self, at: int) -> int:
        between = _BETWEEN.match(self._text, at)
        return between.end() if between else at

    def _resume(self, at: int) -> int:
        match = _START.search(self._text, max(0, at - 1))
        return match.end() if match else len(self._text)

    def _decode(self, at: int, resume: int) -> tuple[dict[str, Any], int] | None:
        decoded = self._object_at(self._text, at)
        if decoded is not None:
            return decoded
        piece = self._text[at:resume]
        mended = _NOT_AVAILABLE.sub(r"\1null", _ESCAPE.sub(_whole_escape, piece))
        decoded = self._object_at(mended, 0)
        if decoded is None:
            return None
        return decoded[0], resume - (len(mended) - decoded[1])

    def _object_at(self, text: str, at: int) -> tuple[dict[str, Any], int] | None:
        try:
            value, end = self._decoder.raw_decode(text, at)
        except (ValueError, ArithmeticError, RecursionError):
            return None
        return (value, end) if isinstance(value, dict) else None


def _whole_escape(match: re.Match[str]) -> str:
    """A backslash that escapes nothing stands for itself."""
    return match.group() if match.group(1) else "\\\\"
