"""``elementwise-fused``: activations and norms that are written out, in one operator each."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from perftui.fixes.fix import line_fix
from perftui.fixes.line_change import place_of
from perftui.fixes.model import Risk
from perftui.fixes.source.edits import Edit, ReplaceExpression, remove
from perftui.script.formulas import OneOperator, activation, layer_norm
from perftui.script.local_values import LocalValues
from perftui.script.names import spelling
from perftui.script.program import PatchRefusedError, Program, called_name

_FUNCTIONS = "torch.nn.functional"

_IN_THEM = frozenset({"tanh", "erf", "exp", "sigmoid", "mean"})
"""Functions of which each that is known calls one."""


def one_operator(program: Program, _: int) -> Sequence[Edit]:
    """Each activation and each layer norm that the functions of the file write out, as a call."""
    functions = [one for one in program.statements() if isinstance(one, ast.FunctionDef)]
    functions = [one for one in functions if _may_hold_one(one)]
    found = [
        _fused(program, function, node)
        for function in functions
        for node in _outermost(program, function)
    ]
    edits = [edit for one in found if not isinstance(one, str) for edit in one]
    if not edits:
        why = next((one for one in found if isinstance(one, str)), "")
        raise PatchRefusedError(why or "no line is certainly an activation or a layer norm")
    return edits


def _may_hold_one(function: ast.FunctionDef) -> bool:
    """Whether it is worth the time to look."""
    calls = (node for node in ast.walk(function) if isinstance(node, ast.Call))
    return not _IN_THEM.isdisjoint(map(called_name, calls))


def _outermost(program: Program, function: ast.FunctionDef) -> Iterator[ast.BinOp]:
    """Sums and products of ``function``, those within one that is fused left out."""
    seen: set[ast.AST] = set()
    for node in ast.walk(function):
        if node in seen or not isinstance(node, ast.BinOp) or program.scope(node) is not function:
            continue
        if _read(program, function, node) is not None:
            seen |= set(ast.walk(node))
            yield node


def _read(
    program: Program, function: ast.FunctionDef, node: ast.BinOp
) -> tuple[OneOperator, LocalValues] | None:
    for read in (layer_norm, activation):
        local = LocalValues(program, function, node)
        found = read(program, local, node)
        if found is not None:
            return found, local
    return None


def _fused(program: Program, function: ast.FunctionDef, node: ast.BinOp) -> Sequence[Edit] | str:
    """The edits that fuse ``node``, or why it is left as it is."""
    read = _read(program, function, node)
    if read is None:
        return ()
    found, local = read
    try:
        taken = local.used()
        if taken:
            local.refuse_set(found.tensor, taken[0])
        removed = [remove(program, one) for one in taken]
        text = f"{spelling(program, _FUNCTIONS)}.{found.text}"
    except PatchRefusedError as refusal:
        return str(refusal)
    return (*removed, ReplaceExpression(program.span(node), text))


ELEMENTWISE = line_fix(
    id="elementwise-fused",
    what="compute hand-written activations and norms with one operator each",
    explanation=(
        "torch's own operators compute the GELU, SiLU and layer normalisation that the script "
        "writes out by hand, in one pass through memory. The formula is the same; results differ "
        "in the last digits."
    ),
    at=place_of,
    rules=("memory-bound-elementwise",),
    title="activations and norms in one operator each",
    plan=one_operator,
    advice=f"{_FUNCTIONS}.gelu, layer_norm and the like",
    risks=(Risk.NUMERICS,),
)
