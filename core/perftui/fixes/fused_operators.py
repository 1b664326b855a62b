"""Layers that are written out, in one operator each; activations that are kept."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from perftui.facts.fact import Facts
from perftui.facts.source.source_calls import matching_line
from perftui.fixes.fix import NamedLine, has_finding, line_fix
from perftui.fixes.option import Risk
from perftui.fixes.source.edits import Edit, ReplaceExpression, edits_at, remove
from perftui.script.layers import Attention, OneOperator, activation, attention_of, layer_norm
from perftui.script.names import qualified_name, refuse_unbound, spelling
from perftui.script.program import PatchRefusedError, Program, called_name, called_names
from perftui.script.templates import LocalValues
from perftui.script.training import statement_at

_FUSED = "torch.nn.functional.scaled_dot_product_attention"


@line_fix(
    what="compute attention in one operator",
    title="attention in one operator",
    advice=f"{_FUSED}(q, k, v)",
    risks=(Risk.NUMERICS, Risk.DROPOUT),
)
def attention_fused(program: Program, line: int) -> Sequence[Edit]:
    """scaled_dot_product_attention computes both matrix products, the scale, the mask and the
    softmax, and does not store the scores of all pairs. The formula is the same; results differ in
    the last digits. Attention dropout drops different values. A fully masked row gives zeros or
    NaN, depending on the version of torch."""
    # The attention in the function around ``line`` as one call.
    statement = statement_at(program, line)
    around = (statement, *program.ancestors(statement))
    function = next((node for node in around if isinstance(node, ast.FunctionDef)), None)
    if function is None:
        raise PatchRefusedError(f"line {line} is in no function")
    if any(kw.arg == "create_graph" for call in program.calls() for kw in call.keywords):
        raise PatchRefusedError("create_graph: the fused operator has no second derivative")
    parts = attention_of(program, function)
    _refuse_view(program, parts.product)
    text = _call(program, parts)
    refuse_unbound(program, program.statement(parts.product), text.partition("(")[0], before=True)
    removed = [remove(program, node) for node in parts.statements]
    return [*removed, ReplaceExpression(program.span(parts.product), text)]


def _call(program: Program, parts: Attention) -> str:
    args = [ast.unparse(node) for node in (parts.query, parts.key, parts.value)]
    if parts.causal:
        args.append("is_causal=True")
    elif parts.mask is not None:
        inverse = spelling(program, "torch.logical_not")
        args.append(f"attn_mask={inverse}({ast.unparse(parts.mask)})")
    if parts.dropout:
        args.append(f"dropout_p={parts.dropout}")
    if parts.scale is not None:
        args.append(f"scale={parts.scale}")
    return f"{spelling(program, _FUSED)}({', '.join(args)})"


def _refuse_view(program: Program, product: ast.expr) -> None:
    """Refuse a view of the result: ``view`` needs the memory order that the product has."""
    above = program.parents[product]
    uses: list[ast.AST] = [above]
    if isinstance(above, ast.Assign) and isinstance(above.targets[0], ast.Name):
        uses += [program.parents[use] for use in program.loads(above.targets[0].id)]
    for use in uses:
        if isinstance(use, ast.Attribute) and use.attr in ("view", "view_as"):
            raise PatchRefusedError(f"line {use.lineno} takes a view of the result")
    if isinstance(above, ast.Call) and called_name(above) == "as_strided":
        raise PatchRefusedError(f"line {above.lineno} takes a view of the result")


_FUNCTIONS = "torch.nn.functional"

_IN_THEM = frozenset({"tanh", "erf", "exp", "sigmoid", "mean"})
"""Functions of which every known activation and norm calls one."""


@line_fix(
    what="compute hand-written activations and norms with one operator each",
    title="activations and norms in one operator each",
    advice=f"{_FUNCTIONS}.gelu, layer_norm and the like",
    risks=(Risk.NUMERICS,),
)
def elementwise_fused(program: Program, _: int) -> Sequence[Edit]:
    """torch's own operators compute the GELU, SiLU and layer normalisation that the script writes
    out by hand, in one pass through memory. The formula is the same; results differ in the last
    digits."""

    # Each activation and each layer norm that the functions of the file write out, as a call.
    def edits_of(match: tuple[ast.BinOp, OneOperator, LocalValues]) -> Iterator[Edit]:
        node, fused, local = match
        taken = local.used()
        if taken:
            local.refuse_set(fused.tensor, taken[0])
        removed = [remove(program, node) for node in taken]
        text = f"{spelling(program, _FUNCTIONS)}.{fused.text}"
        yield from removed
        yield ReplaceExpression(program.span(node), text)

    functions = [node for node in program.statements() if isinstance(node, ast.FunctionDef)]
    # The other functions are not worth the time.
    likely = (f for f in functions if not _IN_THEM.isdisjoint(called_names(f)))
    fused = (match for f in likely for match in _outermost(program, f))
    return edits_at(fused, edits_of, "no line is certainly an activation or a layer norm")


def _outermost(
    program: Program, function: ast.FunctionDef
) -> Iterator[tuple[ast.BinOp, OneOperator, LocalValues]]:
    """Sums and products of ``function`` that one operator computes, those within one left out."""
    seen: set[ast.AST] = set()
    for node in ast.walk(function):
        if node in seen or not isinstance(node, ast.BinOp) or program.scope(node) is not function:
            continue
        for read in (layer_norm, activation):
            local = LocalValues(program, function, node)
            if layer := read(program, local, node):
                seen |= set(ast.walk(node))
                yield node, layer, local
                break


_CHECKPOINT = "torch.utils.checkpoint.checkpoint"
_OF_CHECKPOINT = (
    *("use_reentrant", "context_fn", "determinism_check", "debug", "early_stop"),
    "preserve_rng_state",
)
"""Arguments of ``checkpoint`` itself; all others are handed to the function."""


def _direct(call: ast.Call) -> str:
    function, *arguments = call.args
    if isinstance(function, ast.Starred):
        raise PatchRefusedError(f"line {call.lineno} does not say what it calls")
    keywords = [keyword for keyword in call.keywords if keyword.arg not in _OF_CHECKPOINT]
    return ast.unparse(ast.Call(function, arguments, keywords))


def _checkpoint(facts: Facts, rule: str) -> NamedLine | None:
    match = matching_line(facts, r"\bcheckpoint\(") if has_finding(facts, rule) else None
    return NamedLine(match.file, match.line) if match else None


@line_fix(
    what="keep activations instead of computing them twice",
    at=_checkpoint,
    title="activations kept",
    advice="call the layers without checkpoint()",
    risks=(Risk.MEMORY,),
)
def recompute_off(program: Program, _: int) -> Sequence[Edit]:
    """Layers are called directly, and the activations that backward needs are kept. Results are the
    same; memory grows by the activations of all these layers."""
    # Each ``checkpoint(function, x)`` of the file as ``function(x)``.
    calls = [call for call in program.calls() if qualified_name(program, call.func) == _CHECKPOINT]
    if not calls:
        raise PatchRefusedError("no line certainly calls torch's checkpoint")
    for call in calls:
        last = call.end_lineno or call.lineno
        if last > call.lineno and program.comments(call.lineno, last):
            raise PatchRefusedError(f"there is a comment inside the call at line {call.lineno}")
    return [ReplaceExpression(program.span(call), _direct(call)) for call in calls]
