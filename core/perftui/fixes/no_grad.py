"""``no-grad``: evaluation that records nothing for a backward pass."""

from __future__ import annotations

from collections.abc import Sequence

from perftui.facts.fact import Facts
from perftui.facts.script.evaluation import evaluation
from perftui.fixes.fix import Fix
from perftui.fixes.line_change import LineChange, place_of
from perftui.fixes.source.edits import Edit, wrap
from perftui.script.evaluation import evaluation_loop
from perftui.script.names import module_name
from perftui.script.program import Program


def without_gradients(program: Program, line: int) -> Sequence[Edit]:
    """The outermost loop around ``line`` that only evaluates, under ``torch.no_grad()``."""
    loop = evaluation_loop(program, line)
    header = f"with {module_name(program, 'torch')}.no_grad()"
    return (wrap(program, loop.lineno, loop.end_lineno or loop.lineno, header),)


def _change(facts: Facts) -> LineChange | None:
    found, place = evaluation(facts), place_of(facts, "evaluation", "slow-steps")
    if found is None or not found.lacks_no_grad or place is None:
        return None
    advice = f"{place.short}: evaluate under torch.no_grad()"
    return LineChange(
        "evaluation without gradients", place.file, place.line, without_gradients, advice
    )


NO_GRAD = Fix(
    id="no-grad",
    what="evaluate without recording gradients",
    explanation=(
        "Nothing is kept for a backward pass that never runs: results are the same, with less "
        "memory. A backward pass through the evaluation would raise an error."
    ),
    change=_change,
)
