"""``gc-freeze``: what lives before the training is not looked at by the garbage collector."""

from __future__ import annotations

from collections.abc import Sequence

from perftui.facts.fact import Facts
from perftui.facts.script.pauses import gc_pauses
from perftui.facts.settings import settings
from perftui.fixes.fix import Fix
from perftui.fixes.line_change import LineChange, has_finding, place_of_loop
from perftui.fixes.model import Risk
from perftui.fixes.source.edits import Edit, insert_after_imports, insert_before
from perftui.script.names import qualified_name, spelling
from perftui.script.program import PatchRefusedError, Program
from perftui.script.training import training_loop

LEAST_PAUSE = 5_000_000
"""Mean time of a full collection, ns, from which on it looks at many objects that stay: the 170,000
of torch alone take it some tens of ms."""


def frozen(program: Program, _: int) -> Sequence[Edit]:
    """``gc.freeze()`` before the loop that trains, and the import of ``gc`` where that lacks."""
    loop = training_loop(program)
    if any(qualified_name(program, call.func) == "gc.freeze" for call in program.calls("freeze")):
        raise PatchRefusedError("the file already freezes objects")
    try:
        name = spelling(program, "gc.freeze")
    except PatchRefusedError:
        if program.bindings("gc"):
            raise
        added = insert_after_imports(program, "import gc")
        return (added, insert_before(program, loop, "gc.freeze()", known=("gc",)))
    return (insert_before(program, loop, f"{name}()"),)


def _change(facts: Facts) -> LineChange | None:
    pauses, known = gc_pauses.or_none(facts), settings(facts)
    if (
        not has_finding(facts, "gc-pauses")
        or pauses is None
        or pauses.longest_full_mean < LEAST_PAUSE
    ):
        return None
    if known is not None and known.gc is not None and known.gc.frozen:
        return None
    return LineChange(
        "gc.freeze() before the training",
        *place_of_loop(facts),
        frozen,
        "gc.freeze() once everything is loaded, before the loop that trains",
        (Risk.MEMORY,),
    )


FREEZE = Fix(
    id="gc-freeze",
    what="look for garbage among new objects only",
    explanation=(
        "Python's garbage collector skips all objects that exist when the training begins. They "
        "are freed as before once nothing refers to them, except for reference cycles among them. "
        "Nothing else changes."
    ),
    change=_change,
    risks=(Risk.MEMORY,),
)
