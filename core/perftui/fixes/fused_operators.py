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
from perftui.script.program import PatchRefusedError, Program, called_name
from perftui.script.templates import LocalValues
from perftui.script.training import statement_at

_FUSED = "torch.nn.functional.scaled_dot_product_attention"


def attention_fused(program: Program, line: int) -> Sequence[Edit]:
    """The attention in the function around ``line`` as one call."""
    statement = statement_at(program, line)
    around = (statement, *program.ancestors(statement))
    function = next((one for one in around if isinstance(one, ast.FunctionDef)), None)
    if function is None:
        raise PatchRefusedError(f"line {line} is in no function")
    if any(one.arg == "create_graph" for call in program.calls() for one in call.keywords):
        raise PatchRefusedError("create_graph: the fused operator has no second derivative")
    found = attention_of(program, function)
    _refuse_view(program, found.product)
    text = _call(program, found)
    refuse_unbound(program, program.statement(found.product), text.partition("(")[0], before=True)
    removed = [remove(program, one) for one in found.statements]
    return [*removed, ReplaceExpression(program.span(found.product), text)]


def _call(program: Program, found: Attention) -> str:
    given = [ast.unparse(one) for one in (found.query, found.key, found.value)]
    if found.causal:
        given.append("is_causal=True")
    elif found.mask is not None:
        inverse = spelling(program, "torch.logical_not")
        given.append(f"attn_mask={inverse}({ast.unparse(found.mask)})")
    if found.dropout:
        given.append(f"dropout_p={found.dropout}")
    if found.scale is not None:
        given.append(f"scale={found.scale}")
    return f"{spelling(program, _FUSED)}({', '.join(given)})"


def _refuse_view(program: Program, product: ast.expr) -> None:
    """``view`` needs the result in the order of memory that the product has, and others do not."""
    above = program.parents[product]
    uses: list[ast.AST] = [above]
    if isinstance(above, ast.Assign) and isinstance(above.targets[0], ast.Name):
        uses += [program.parents[use] for use in program.loads(above.targets[0].id)]
    for use in uses:
        if isinstance(use, ast.Attribute) and use.attr in ("view", "view_as"):
            raise PatchRefusedError(f"line {use.lineno} takes a view of the result")
    if isinstance(above, ast.Call) and called_name(above) == "as_strided":
        raise PatchRefusedError(f"line {above.lineno} takes a view of the result")


ATTENTION = line_fix(
    id="attention-fused",
    what="compute attention in one operator",
    explanation=(
        "scaled_dot_product_attention computes both matrix products, the scale, the mask and the "
        "softmax, and does not store the scores of all pairs. The formula is the same; results "
        "differ in the last digits. Attention dropout drops different values. A fully masked row "
        "gives zeros or NaN, depending on the version of torch."
    ),
    rules=("unfused-attention",),
    title="attention in one operator",
    plan=attention_fused,
    advice=f"{_FUSED}(q, k, v)",
    risks=(Risk.NUMERICS, Risk.DROPOUT),
)


_FUNCTIONS = "torch.nn.functional"

_IN_THEM = frozenset({"tanh", "erf", "exp", "sigmoid", "mean"})
"""Functions of which each that is known calls one."""


def one_operator(program: Program, _: int) -> Sequence[Edit]:
    """Each activation and each layer norm that the functions of the file write out, as a call."""

    def edits_of(found: tuple[ast.BinOp, OneOperator, LocalValues]) -> Iterator[Edit]:
        node, fused, local = found
        taken = local.used()
        if taken:
            local.refuse_set(fused.tensor, taken[0])
        removed = [remove(program, one) for one in taken]
        text = f"{spelling(program, _FUNCTIONS)}.{fused.text}"
        yield from removed
        yield ReplaceExpression(program.span(node), text)

    functions = [one for one in program.statements() if isinstance(one, ast.FunctionDef)]
    calls = {one: [n for n in ast.walk(one) if isinstance(n, ast.Call)] for one in functions}
    # Others are not worth the time to look.
    known = (one for one in functions if not _IN_THEM.isdisjoint(map(called_name, calls[one])))
    fused = (found for one in known for found in _outermost(program, one))
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
            if found := read(program, local, node):
                seen |= set(ast.walk(node))
                yield node, found, local
                break


ELEMENTWISE = line_fix(
    id="elementwise-fused",
    what="compute hand-written activations and norms with one operator each",
    explanation=(
        "torch's own operators compute the GELU, SiLU and layer normalisation that the script "
        "writes out by hand, in one pass through memory. The formula is the same; results differ "
        "in the last digits."
    ),
    rules=("memory-bound-elementwise",),
    title="activations and norms in one operator each",
    plan=one_operator,
    advice=f"{_FUNCTIONS}.gelu, layer_norm and the like",
    risks=(Risk.NUMERICS,),
)


_CHECKPOINT = "torch.utils.checkpoint.checkpoint"
_OF_CHECKPOINT = (
    *("use_reentrant", "context_fn", "determinism_check", "debug", "early_stop"),
    "preserve_rng_state",
)
"""Arguments of ``checkpoint`` itself; all others are handed to the function."""


def called_directly(program: Program, _: int) -> Sequence[Edit]:
    """Each ``checkpoint(function, x)`` of the file as ``function(x)``."""
    calls = [call for call in program.calls() if qualified_name(program, call.func) == _CHECKPOINT]
    if not calls:
        raise PatchRefusedError("no line certainly calls torch's checkpoint")
    for call in calls:
        last = call.end_lineno or call.lineno
        if last > call.lineno and program.comments(call.lineno, last):
            raise PatchRefusedError(f"there is a comment inside the call at line {call.lineno}")
    return [ReplaceExpression(program.span(call), _direct(call)) for call in calls]


def _direct(call: ast.Call) -> str:
    function, *arguments = call.args
    if isinstance(function, ast.Starred):
        raise PatchRefusedError(f"line {call.lineno} does not say what it calls")
    rest = [keyword for keyword in call.keywords if keyword.arg not in _OF_CHECKPOINT]
    return ast.unparse(ast.Call(function, arguments, rest))


def _checkpoint(facts: Facts, rule: str) -> NamedLine | None:
    found = matching_line(facts, r"\bcheckpoint\(") if has_finding(facts, rule) else None
    return NamedLine(found.file, found.line) if found else None


RECOMPUTE = line_fix(
    id="recompute-off",
    what="keep activations instead of computing them twice",
    explanation=(
        "Layers are called directly, and the activations that backward needs are kept. Results "
        "are the same; memory grows by the activations of all these layers."
    ),
    at=_checkpoint,
    rules=("backward-recompute",),
    title="activations kept",
    plan=called_directly,
    advice="call the layers without checkpoint()",
    risks=(Risk.MEMORY,),
)
