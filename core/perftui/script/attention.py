"""Masks of attention that leave out all later positions, and nothing else."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from perftui.script.local_values import LocalValues, own_layer
from perftui.script.names import qualified_name
from perftui.script.numbers import is_number, is_root_of_width
from perftui.script.program import PatchRefusedError, Program, assigned_value, called_name

_SAME = frozenset({"bool", "to", "type", "view", "unsqueeze", "reshape", "cuda", "float"})
"""Methods after which the same places of a mask are true."""


def is_causal(program: Program, local: LocalValues, mask: ast.expr) -> bool:
    """Whether ``mask`` is certain to be true for later positions only, of as many as there are."""
    mask = local.peeked(mask)
    if isinstance(mask, ast.Compare) and len(mask.ops) == 1 and isinstance(mask.ops[0], ast.Eq):
        wanted = ast.unparse(mask.comparators[0])
        return (wanted, _triangle(program, local, mask.left)) in (("0", "lower"), ("1", "upper"))
    if isinstance(mask, ast.UnaryOp) and isinstance(mask.op, ast.Invert):
        return _triangle(program, local, mask.operand) == "lower"
    if isinstance(mask, ast.Call) and called_name(mask) == "logical_not" and len(mask.args) == 1:
        return _triangle(program, local, mask.args[0]) == "lower"
    return _triangle(program, local, mask) == "upper"


def _triangle(program: Program, local: LocalValues, node: ast.expr) -> str:
    """``lower`` of ``tril(ones(n, n))``, ``upper`` of ``triu(ones(n, n), 1)``, also where a buffer
    keeps it and as many rows as columns are taken; else empty."""
    node = local.peeked(node)
    if isinstance(node, ast.Subscript) and _is_square(node.slice):
        kept = _buffer(program, node.value)
        return _made(program, kept) if kept is not None else ""
    return _made(program, node)


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
    owner = next((one for one in program.ancestors(node) if isinstance(one, ast.ClassDef)), None)
    if owner is None:
        return None
    stores = [
        one
        for one in ast.walk(owner)
        if isinstance(one, ast.Attribute)
        and one.attr == node.attr
        and not isinstance(one.ctx, ast.Load)
    ]
    registered = [
        call
        for call in ast.walk(owner)
        if isinstance(call, ast.Call)
        and called_name(call) == "register_buffer"
        and len(call.args) >= 2
        and isinstance(call.args[0], ast.Constant)
        and call.args[0].value == node.attr
    ]
    if len(registered) != 1 or stores:
        return None
    value = registered[0].args[1]
    if isinstance(value, ast.Name):
        scope = program.scope(value)
        bindings = [one for one in program.bindings(value.id) if program.scope(one) is scope]
        return assigned_value(program, bindings[0]) if len(bindings) == 1 else None
    return value


def _made(program: Program, node: ast.expr) -> str:
    while True:
        if isinstance(node, ast.Subscript) and _only_adds(node.slice):
            node = node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr not in _SAME:
                break
            node = node.func.value
        else:
            break
    if not isinstance(node, ast.Call):
        return ""
    function = called_name(node)
    named = qualified_name(program, node.func)
    others = [ast.unparse(one) for one in node.args]
    others += [ast.unparse(one.value) for one in node.keywords if one.arg == "diagonal"]
    if named in ("torch.tril", "torch.triu") and node.args:
        inner: ast.expr = node.args[0]
        others = others[1:]
    elif isinstance(node.func, ast.Attribute) and function in ("tril", "triu"):
        inner = node.func.value
    else:
        return ""
    if not _is_square_of_ones(program, inner):
        return ""
    if function == "tril":
        return "lower" if others in ([], ["0"]) else ""
    return "upper" if others == ["1"] else ""


def _only_adds(index: ast.expr) -> bool:
    """``[None, None]``, also with ``:`` or ``...``."""
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    return {ast.unparse(part) for part in parts} <= {"None", ":", "..."}


def _is_square_of_ones(program: Program, node: ast.expr) -> bool:
    """``torch.ones(n, n)``, whatever its device and type."""
    if not isinstance(node, ast.Call) or qualified_name(program, node.func) != "torch.ones":
        return False
    sizes = node.args
    if len(sizes) == 1 and isinstance(sizes[0], (ast.Tuple, ast.List)):
        sizes = sizes[0].elts
    return len(sizes) == 2 and ast.unparse(sizes[0]) == ast.unparse(sizes[1])


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
