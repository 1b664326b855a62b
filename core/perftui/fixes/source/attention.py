"""Attention that is written out in one function: two products with a softmax between them."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from perftui.fixes.source.attention_mask import is_causal
from perftui.fixes.source.local_values import LocalValues, own_layer
from perftui.fixes.source.names import qualified_name
from perftui.fixes.source.numbers import is_number, is_root_of_width
from perftui.fixes.source.program import PatchRefusedError, Program, called_name

_MATRIX_PRODUCTS = frozenset({"torch.matmul", "torch.bmm"})
_SOFTMAX = frozenset({"torch.softmax", "torch.nn.functional.softmax"})
_DROPOUT = "torch.nn.functional.dropout"
_INFINITY = frozenset({"inf", "float('inf')", "math.inf", "torch.inf", "np.inf", "numpy.inf"})


@dataclass
class Attention:
    """What ``softmax(query @ key.T * scale, masked) @ value`` is made of."""

    product: ast.expr
    """The second product, in whose place the fused function stands."""
    value: ast.expr
    query: ast.expr
    key: ast.expr
    scale: str | None = "1.0"
    """None for what the fused function takes by itself: one over the root of the width."""
    mask: ast.expr | None = None
    """Where it is true there is no attention."""
    causal: bool = False
    """Whether ``mask`` is true for all later positions, and for nothing else."""
    dropout: str = ""
    """The rate, empty where there is none."""
    statements: list[ast.stmt] = field(default_factory=list)
    """Assignments of what lies between, which nothing else reads."""


def attention_of(program: Program, function: ast.FunctionDef) -> Attention:
    """The only attention that is written out in ``function``.

    Raises:
        PatchRefusedError: there is none or more than one, or it is not certain to be the same as
            the fused function's.
    """
    found = []
    for node in ast.walk(function):
        if not isinstance(node, ast.expr) or program.scope(node) is not function:
            continue
        factors = _factors(program, node)
        if factors is None:
            continue
        local = LocalValues(program, function, node)
        weights = local.followed(factors[0])
        if _softmaxed(program, local, weights) is not None:
            found.append((node, factors, local, weights))
    if len(found) != 1:
        raise PatchRefusedError(
            f"{len(found)} products of a softmax over the last dimension are in {function.name}()"
        )
    product, (_, value), local, weights = found[0]
    return _read(program, local, product, value, weights)


def _read(
    program: Program, local: LocalValues, product: ast.expr, value: ast.expr, weights: ast.expr
) -> Attention:
    dropout, weights = _without_dropout(program, local, weights)
    scores = _scores(program, weights)
    scores, mask = _without_mask(local, local.followed(scores))
    scores, factor, divides = _without_scale(program, local, scores)
    factors = _factors(program, scores)
    if factors is None:
        raise PatchRefusedError(
            f"line {scores.lineno} adds something to the scores or changes them"
        )
    query, turned = factors[0], local.followed(factors[1])
    found = Attention(product, value, query, _turned(turned), dropout=dropout, mask=mask)
    if factor is not None:
        found.scale = _scale(program, local, found, factor, divides=divides)
    if mask is not None:
        found.causal = is_causal(program, local, mask)
    found.statements = local.used()
    local.refuse_changed(query, found.key, value, mask, factor)
    # The keys may be turned in a statement of their own, before which they have the same name.
    local.refuse_taken_out(query, value, mask, factor)
    return found


def _factors(program: Program, node: ast.expr) -> tuple[ast.expr, ast.expr] | None:
    """``a`` and ``b`` of a product of matrices."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
        return node.left, node.right
    if not isinstance(node, ast.Call) or node.keywords:
        return None
    if qualified_name(program, node.func) in _MATRIX_PRODUCTS and len(node.args) == 2:
        return node.args[0], node.args[1]
    if isinstance(node.func, ast.Attribute) and node.func.attr in ("matmul", "bmm"):
        return (node.func.value, node.args[0]) if len(node.args) == 1 else None
    return None


def _softmaxed(program: Program, local: LocalValues, weights: ast.expr) -> ast.expr | None:
    """The scores, where ``weights`` are their softmax, dropped out or not."""
    try:
        return _scores(program, _without_dropout(program, local, weights)[1])
    except PatchRefusedError:
        return None


def _without_dropout(
    program: Program, local: LocalValues, weights: ast.expr
) -> tuple[str, ast.expr]:
    """The rate of a dropout around ``weights``, empty where there is none, and what is in it."""
    if not isinstance(weights, ast.Call) or not weights.args:
        return "", weights
    if qualified_name(program, weights.func) == _DROPOUT:
        given = {keyword.arg: keyword.value for keyword in weights.keywords}
        given |= dict(zip(("p", "training"), weights.args[1:3], strict=False))
        if not set(given) <= {"p", "training"} or len(weights.args) > 3:
            raise PatchRefusedError("it is not certain which arguments dropout has")
        rate = ast.unparse(given["p"]) if "p" in given else "0.5"
        training = ast.unparse(given["training"]) if "training" in given else "True"
        text = rate if training == "True" else f"{rate} if {training} else 0.0"
        return text, local.followed(weights.args[0])
    layer = own_layer(program, weights.func, "Dropout")
    if layer is None or len(weights.args) != 1:
        return "", weights
    if any(one.arg != "p" for one in layer.keywords) or len(layer.args) > 1:
        raise PatchRefusedError("it is not certain which arguments dropout has")
    name = ast.unparse(weights.func)
    return f"{name}.p if {name}.training else 0.0", local.followed(weights.args[0])


def _scores(program: Program, weights: ast.expr) -> ast.expr:
    """What ``weights`` are the softmax of, over the last dimension.

    Raises:
        PatchRefusedError: they are not certain to be that.
    """
    if isinstance(weights, ast.Call):
        layer = own_layer(program, weights.func, "Softmax")
        arguments = list(weights.args)
        inner, made = arguments[0] if arguments else None, weights
        if layer is not None:
            arguments, made = [*arguments[1:], *layer.args], layer
        elif qualified_name(program, weights.func) in _SOFTMAX:
            arguments = arguments[1:]
        elif isinstance(weights.func, ast.Attribute) and weights.func.attr == "softmax":
            inner = weights.func.value
        else:
            inner = None
        given = {one.arg for one in made.keywords} <= {"dim"}
        dimensions = [ast.unparse(one) for one in (*arguments, *(k.value for k in made.keywords))]
        if inner is not None and given and dimensions == ["-1"]:
            return inner
    raise PatchRefusedError("it may not be a softmax over the last dimension")


def _without_mask(local: LocalValues, scores: ast.expr) -> tuple[ast.expr, ast.expr | None]:
    if not isinstance(scores, ast.Call) or called_name(scores) not in (
        "masked_fill",
        "masked_fill_",
    ):
        return scores, None
    if len(scores.args) != 2 or scores.keywords or not isinstance(scores.func, ast.Attribute):
        raise PatchRefusedError("it is not certain what is masked")
    mask, fill = scores.args
    text = ast.unparse(fill)
    negative = text == "float('-inf')" or (text[:1] == "-" and text[1:] in _INFINITY)
    if not negative:
        raise PatchRefusedError(f"scores are masked by {text}, not by minus infinity")
    return local.followed(scores.func.value), mask


def _without_scale(
    program: Program, local: LocalValues, scores: ast.expr
) -> tuple[ast.expr, ast.expr | None, bool]:
    """The product, what it is scaled by, and whether it is divided by that."""
    if not isinstance(scores, ast.BinOp) or not isinstance(scores.op, (ast.Mult, ast.Div)):
        return scores, None, False
    left, divides = local.followed(scores.left), isinstance(scores.op, ast.Div)
    if _factors(program, left) is not None:
        return left, scores.right, divides
    right = local.followed(scores.right)
    if divides or _factors(program, right) is None:
        raise PatchRefusedError(f"line {scores.lineno} may not scale the scores")
    return right, scores.left, False


def _turned(key: ast.expr) -> ast.expr:
    """``k`` of ``k.transpose(-2, -1)``."""
    if isinstance(key, ast.Attribute) and key.attr == "mT":
        return key.value
    if isinstance(key, ast.Call) and isinstance(key.func, ast.Attribute) and not key.keywords:
        dimensions = sorted(ast.unparse(one) for one in key.args)
        if key.func.attr == "transpose" and dimensions == ["-1", "-2"]:
            return key.func.value
    raise PatchRefusedError(
        f"line {key.lineno} may not transpose the last two dimensions of the keys"
    )


def _scale(
    program: Program, local: LocalValues, found: Attention, factor: ast.expr, *, divides: bool
) -> str | None:
    widths = [found.query, found.key]
    if is_root_of_width(program, local, factor, widths, inverse=not divides):
        return None
    if not is_number(program, factor):
        raise PatchRefusedError(f"{ast.unparse(factor)} may not be a plain number")
    text = ast.unparse(factor)
    return f"1.0 / ({text})" if divides else text
