"""``attention-fused``: attention that is written out, in one operator."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from perftui.fixes.fix import line_fix
from perftui.fixes.line_change import place_of
from perftui.fixes.model import Risk
from perftui.fixes.source.edits import Edit, ReplaceExpression, remove
from perftui.script.attention import Attention, attention_of
from perftui.script.names import refuse_unbound, spelling
from perftui.script.program import PatchRefusedError, Program, called_name
from perftui.script.training import statement_at

_FUSED = "torch.nn.functional.scaled_dot_product_attention"


def fused(program: Program, line: int) -> Sequence[Edit]:
    """The attention in the function around ``line`` as one call."""
    statement = statement_at(program, line)
    function = next(
        (
            one
            for one in (statement, *program.ancestors(statement))
            if isinstance(one, ast.FunctionDef)
        ),
        None,
    )
    if function is None:
        raise PatchRefusedError(f"line {line} is in no function")
    if any(one.arg == "create_graph" for call in program.calls() for one in call.keywords):
        raise PatchRefusedError("create_graph: the fused operator has no second derivative")
    found = attention_of(program, function)
    _refuse_view(program, found.product)
    text = _call(program, found)
    around = next(one for one in program.ancestors(found.product) if isinstance(one, ast.stmt))
    refuse_unbound(program, around, text.partition("(")[0], before=True)
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
    at=place_of,
    rules=("unfused-attention",),
    title="attention in one operator",
    plan=fused,
    advice=f"{_FUSED}(q, k, v)",
    risks=(Risk.NUMERICS, Risk.DROPOUT),
)
