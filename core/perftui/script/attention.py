"""Attention that is written out in one function: two products with a softmax between them."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, field

from perftui.script.local_values import LocalValues, own_layer, own_stores
from perftui.script.names import qualified_name
from perftui.script.numbers import is_number
from perftui.script.program import PatchRefusedError, Program, assigned_value, called_name
from perftui.script.templates import Templates

_PRODUCTS = (
    *("$left @ $right", "torch.matmul($left, $right)", "torch.bmm($left, $right)"),
    *("$left.matmul($right)", "$left.bmm($right)"),
)
_SOFTMAX = ("torch.softmax($x, -1)", "torch.nn.functional.softmax($x, -1)", "$x.softmax(-1)")
_DROPOUT = "torch.nn.functional.dropout"
_INFINITY = frozenset({"inf", "float('inf')", "math.inf", "torch.inf", "np.inf", "numpy.inf"})
_WIDTHS = {
    "root": ("math.sqrt($width)", "numpy.sqrt($width)", "$width ** 0.5"),
    "inverse": ("1 / $root", "$width ** -0.5"),
    "width": ("$tensor.shape[-1]", "$tensor.size(-1)"),
}
_TRIANGLES = {
    "lower": (
        *("torch.tril($ones, **_)", "torch.tril($ones, 0, **_)"),
        *("$ones.tril()", "$ones.tril(0)"),
    ),
    "upper": ("torch.triu($ones, 1, **_)", "$ones.triu(1)"),
    "ones": ("torch.ones($n, $n, **_)", "torch.ones(($n, $n), **_)", "torch.ones([$n, $n], **_)"),
}
_SAME = frozenset({"bool", "to", "type", "view", "unsqueeze", "reshape", "cuda", "float"})
"""Methods after which the same places of a mask are true."""


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
    templates = Templates(program)
    for node in ast.walk(function):
        if not isinstance(node, ast.expr) or program.scope(node) is not function:
            continue
        product = templates.match(node, *_PRODUCTS)
        if product is None:
            continue
        local = LocalValues(program, function, node)
        weights = local.followed(product["left"])
        if _softmaxed(program, local, weights) is not None:
            found.append((node, product["right"], local, weights))
    if len(found) != 1:
        raise PatchRefusedError(
            f"{len(found)} products of a softmax over the last dimension are in {function.name}()"
        )
    return _read(program, *found[0])


def _read(
    program: Program, product: ast.expr, value: ast.expr, local: LocalValues, weights: ast.expr
) -> Attention:
    dropout, weights = _without_dropout(program, local, weights)
    scores, mask = _without_mask(local, local.followed(_scores(program, weights)))
    scores, factor, divides = _without_scale(program, local, scores)
    inner = Templates(program).match(scores, *_PRODUCTS)
    if inner is None:
        raise PatchRefusedError(
            f"line {scores.lineno} adds something to the scores or changes them"
        )
    query, turned = inner["left"], local.followed(inner["right"])
    key = Templates(program).match(
        turned, "$key.mT", "$key.transpose(-2, -1)", "$key.transpose(-1, -2)"
    )
    if key is None:
        raise PatchRefusedError(
            f"line {turned.lineno} may not transpose the last two dimensions of the keys"
        )
    found = Attention(product, value, query, key["key"], dropout=dropout, mask=mask)
    if factor is not None:
        found.scale = _scale(program, found, factor, divides=divides)
    if mask is not None:
        found.causal = _is_causal(program, local, mask)
    found.statements = local.used()
    local.refuse_changed(query, found.key, value, mask, factor)
    # The keys may be turned in a statement of their own, before which they have the same name.
    local.refuse_taken_out(query, value, mask, factor)
    return found


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
    templates = Templates(program)
    if found := templates.match(weights, *_SOFTMAX):
        return found["x"]
    if isinstance(weights, ast.Call) and len(weights.args) == 1:
        layer = own_layer(program, weights.func, "Softmax")
        if layer is not None and templates.match(layer, "$kind(-1)"):
            return weights.args[0]
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
    divides = isinstance(scores.op, ast.Div)
    sides = [(scores.left, scores.right), *([] if divides else [(scores.right, scores.left)])]
    for product, factor in sides:
        if Templates(program).match(local.peeked(product), *_PRODUCTS):
            return local.followed(product), factor, divides
    raise PatchRefusedError(f"line {scores.lineno} may not scale the scores")


def _scale(program: Program, found: Attention, factor: ast.expr, *, divides: bool) -> str | None:
    """None where it is the root of the width, as the fused function scales by itself."""
    tensors = {ast.unparse(found.query), ast.unparse(found.key)}
    where = {"tensor": lambda one: ast.unparse(one) in tensors}
    if Templates(program, _WIDTHS, where=where).match(factor, "$root" if divides else "$inverse"):
        return None
    text = ast.unparse(factor)
    if not is_number(program, factor):
        raise PatchRefusedError(f"{text} may not be a plain number")
    return f"1.0 / ({text})" if divides else text


def _is_causal(program: Program, local: LocalValues, mask: ast.expr) -> bool:
    """Whether ``mask`` is certain to be true for later positions only, of as many as there are."""

    def triangle(name: str) -> Callable[[ast.expr], bool]:
        return lambda node: _is_triangle(program, local.peeked(node), name)

    where = {name: triangle(name) for name in ("lower", "upper")}
    forms = ("$lower == 0", "$upper == 1", "~$lower", "$_.logical_not($lower)", "$upper")
    return Templates(program, where=where).match(local.peeked(mask), *forms) is not None


def _is_triangle(program: Program, node: ast.expr, name: str) -> bool:
    """Whether ``node`` is ``tril(ones(n, n))``, which is the ``lower`` one, or ``triu(ones(n, n),
    1)``, also where a buffer keeps it and as many rows as columns are taken."""
    if isinstance(node, ast.Subscript) and _is_square(node.slice):
        kept = _buffer(program, node.value)
        if kept is None:
            return False
        node = kept
    while True:
        if isinstance(node, ast.Subscript) and _only_adds(node.slice):
            node = node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr not in _SAME:
                break
            node = node.func.value
        else:
            break
    return Templates(program, _TRIANGLES).match(node, f"${name}") is not None


def _only_adds(index: ast.expr) -> bool:
    """``[None, None]``, also with ``:`` or ``...``."""
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    return {ast.unparse(part) for part in parts} <= {"None", ":", "..."}


def _is_square(index: ast.expr) -> bool:
    """``[:, :, :n, :n]``, ``[:n, :n]`` or ``[None, None, :n, :n]``."""
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    ends = [ast.unparse(part) for part in parts[-2:]]
    first = [ast.unparse(part) for part in parts[:-2]]
    is_begun = len(ends) == 2 and ends[0] == ends[1] and ends[0][:1] == ":" and len(ends[0]) > 1
    return is_begun and ":" not in ends[0][1:] and set(first) <= {":", "None", "..."}


def _buffer(program: Program, node: ast.expr) -> ast.expr | None:
    """What ``self.mask`` is registered as, where its class does that once."""
    if not isinstance(node, ast.Attribute) or ast.unparse(node.value) != "self":
        return None
    owner = program.owner(node)
    registered = [
        call.args[1]
        for call in program.calls("register_buffer")
        if owner is not None
        and owner in program.ancestors(call)
        and len(call.args) >= 2
        and isinstance(call.args[0], ast.Constant)
        and call.args[0].value == node.attr
    ]
    if len(registered) != 1 or own_stores(program, node):
        return None
    (value,) = registered
    if isinstance(value, ast.Name):
        scope = program.scope(value)
        bindings = [one for one in program.bindings(value.id) if program.scope(one) is scope]
        return assigned_value(program, bindings[0]) if len(bindings) == 1 else None
    return value
