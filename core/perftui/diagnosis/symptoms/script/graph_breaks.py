"""``graph-breaks``: what is compiled goes back to Python in the midst of the model."""

from __future__ import annotations

from perftui import format as fmt
from perftui.diagnosis.limits import Limits
from perftui.diagnosis.model import Figure
from perftui.diagnosis.rule import Lost, Rule
from perftui.facts.fact import Facts, NotApplicableError
from perftui.facts.place import Place
from perftui.facts.script.graph_breaks import GraphBreak, graph_breaks

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
