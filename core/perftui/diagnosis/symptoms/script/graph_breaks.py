"""``graph-breaks``: what is compiled goes back to Python in the midst of the model."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from perftui import format as fmt
from perftui.diagnosis.limits import Limits
from perftui.diagnosis.model import Figure
from perftui.diagnosis.rule import Lost, Rule
from perftui.facts.events import notes_of
from perftui.facts.fact import Facts, NotApplicableError, fact
from perftui.facts.place import Place
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


_NAMED = 3
"""Lines in the sentence."""


def _broken(facts: Facts) -> Lost | None:
    """Graph breaks cost 0: the real cost depends on what could have been fused across them."""
    if facts.run is None:
        raise NotApplicableError
    breaks = graph_breaks(facts)
    if not breaks:
        return None
    named = ", ".join(_at(facts, each).short for each in breaks[:_NAMED])
    more = f" and {len(breaks) - _NAMED} more" if len(breaks) > _NAMED else ""
    return Lost(
        0,
        None,
        f"torch.compile breaks the graph at {fmt.several(len(breaks), 'line')}: {named}{more}.",
        tuple(
            Figure(
                f"graph break in {each.function}", each.compiled, "count", place=_at(facts, each)
            )
            for each in breaks
        ),
        place=_at(facts, breaks[0]),
        share=GRAPH_BREAKS.limits.info,
    )


def _at(facts: Facts, each: GraphBreak) -> Place:
    return facts.at(each)


GRAPH_BREAKS = Rule(
    id="graph-breaks",
    when="torch.compile cannot capture the model as one graph",
    explanation=(
        "At a graph break compiled code returns to Python and a new graph begins: nothing is "
        "fused across it, and CUDA graphs are split. The usual reasons are reading a value "
        "(.item(), an if on a tensor), printing, and calls that the compiler does not support. "
        "TORCH_LOGS=graph_breaks prints them, fullgraph=True stops at the first."
    ),
    lost=_broken,
    limits=Limits.of_hint(0.5, "What could have been fused across a break is not known."),
    answer="move the line out of the compiled function, or keep the value a tensor",
)
