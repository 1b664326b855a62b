"""Where ``torch.compile`` stops a graph and goes on in another, as torch itself reports."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from perftui.facts.events import notes_of
from perftui.facts.fact import Facts, fact
from perftui.trace.text import printable

_RESUMED = re.compile(r"torch_dynamo_resume_in_(.+)_at_(\d+)")
"""What the compiler calls the rest of a function behind the line at which it had to stop."""


@dataclass(frozen=True)
class GraphBreak:
    """One line of the script at which compiled code goes back to Python, in each call."""

    function: str
    file: str
    line: int
    compiled: int
    """How often what follows was compiled."""


@fact
def graph_breaks(facts: Facts) -> tuple[GraphBreak, ...]:
    """In the order in which they were met; lines of installed packages are left out."""
    notes = notes_of(facts.events, "compile")
    met = Counter(place for note in notes if (place := _place(note)) is not None)
    return tuple(GraphBreak(*place, compiled=count) for place, count in met.items())


def _place(note: Mapping[str, object]) -> tuple[str, str, int] | None:
    """Function, file and line."""
    if note.get("forward") is False:
        return None
    resumed, file = _RESUMED.match(str(note.get("function"))), str(note.get("file") or "")
    if resumed is None or not file or "-packages/" in file:
        return None
    return printable(resumed[1]), printable(file), int(resumed[2])
