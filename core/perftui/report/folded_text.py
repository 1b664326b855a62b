"""Folded stacks as text: frames from the outermost on, a space, and a whole number."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from perftui.report.shown import printable

Stack = tuple[Sequence[str], int]
"""Names from the outermost on, and how much of it there is."""

UNNAMED = "(no name)"

_NUMBER_LAST = re.compile(r"\s+(?=\d+(?:\.\d*)?\Z)")
"""In front of a number at the end: flamegraph.pl and inferno take it for the count of a second
profile."""


def folded_text(stacks: Iterable[Stack]) -> str:
    """A line for each stack whose number is above 0, equal ones added up, in order of the text."""
    totals: Counter[str] = Counter()
    for names, number in stacks:
        if number > 0:
            totals[";".join(map(frame, names))] += number
    return "".join(f"{stack} {totals[stack]}\n" for stack in sorted(totals))


def frame(name: str) -> str:
    """A name as one frame: a colon for each semicolon, an escape for each control character."""
    text = printable(name).replace(";", ":").strip()
    return _NUMBER_LAST.sub("_", text) or UNNAMED
