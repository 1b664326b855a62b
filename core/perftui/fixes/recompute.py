"""``recompute-off``: activations are kept instead of computed twice."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from perftui.facts.fact import Facts
from perftui.facts.source.source_search import matching_line
from perftui.fixes.fix import Fix
from perftui.fixes.line_change import LineChange, has_finding
from perftui.fixes.model import Risk
from perftui.fixes.source.edits import Edit, ReplaceExpression
from perftui.script.names import qualified_name
from perftui.script.program import PatchRefusedError, Program

_NAME = "torch.utils.checkpoint.checkpoint"
_OWN = frozenset(
    {
        "use_reentrant",
        "context_fn",
        "determinism_check",
        "debug",
        "early_stop",
        "preserve_rng_state",
    }
)
"""Arguments of ``checkpoint`` itself; all others are handed to the function."""


def called_directly(program: Program, _: int) -> Sequence[Edit]:
    """Each ``checkpoint(function, x)`` of the file as ``function(x)``."""
    calls = [call for call in program.calls() if qualified_name(program, call.func) == _NAME]
    if not calls:
        raise PatchRefusedError("no line certainly calls torch's checkpoint")
    for call in calls:
        if program.comments(call.lineno, call.end_lineno or call.lineno) and _is_long(call):
            raise PatchRefusedError(f"there is a comment inside the call at line {call.lineno}")
    return [ReplaceExpression(program.span(call), _direct(call)) for call in calls]


def _is_long(call: ast.Call) -> bool:
    """Over several lines, where a comment would be lost."""
    return call.end_lineno != call.lineno


def _direct(call: ast.Call) -> str:
    function, *arguments = call.args
    if isinstance(function, ast.Starred):
        raise PatchRefusedError(f"line {call.lineno} does not say what it calls")
    rest = [keyword for keyword in call.keywords if keyword.arg not in _OWN]
    return ast.unparse(ast.Call(function, arguments, rest))


def _change(facts: Facts) -> LineChange | None:
    is_there = has_finding(facts, "backward-recompute")
    found = matching_line(facts, r"\bcheckpoint\(") if is_there else None
    if found is None:
        return None
    return LineChange(
        "activations kept",
        *found,
        called_directly,
        "call the layers without checkpoint()",
        (Risk.MEMORY,),
    )


RECOMPUTE = Fix(
    id="recompute-off",
    what="keep activations instead of computing them twice",
    explanation=(
        "Layers are called directly, and the activations that backward needs are kept. Results "
        "are the same; memory grows by the activations of all these layers."
    ),
    change=_change,
    risks=(Risk.MEMORY,),
)
