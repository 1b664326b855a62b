"""Layers that are written out: activations and norms as formulas, attention with its softmax."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from perftui.script.names import bindings_of, qualified_name
from perftui.script.program import PatchRefusedError, Program, assigned_value, called_name
from perftui.script.templates import (
    LocalValues,
    Match,
    Rules,
    Templates,
    buffers,
    own_attribute,
    own_layer,
    own_stores,
)
from perftui.script.values import is_number

_POINTS = tuple(at / 7 - 3.0 for at in range(43))
"""Points at which formulas are compared: two that agree at all of them are taken as the same."""

_AGREE = 1e-7
"""Constants are often written with ten digits."""

_OPERATORS: Mapping[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}
_FUNCTIONS: Mapping[str, Callable[[float], float]] = {
    "tanh": math.tanh,
    "erf": math.erf,
    "exp": math.exp,
    "sqrt": math.sqrt,
    "square": lambda x: x * x,
    "sigmoid": lambda x: 1 / (1 + math.exp(-x)),
}
_OF_NUMBERS = ("math.", "numpy.")

ACTIVATIONS: Mapping[str, Callable[[float], float]] = {
    "gelu({})": lambda x: 0.5 * x * (1 + math.erf(x / math.sqrt(2))),
    'gelu({}, approximate="tanh")': lambda x: (
        0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    ),
    "silu({})": lambda x: x / (1 + math.exp(-x)),
}
"""Calls of ``torch.nn.functional``, each with its function."""


@dataclass(frozen=True)
class OneOperator:
    """A call of ``torch.nn.functional`` that computes the same."""

    text: str
    """``gelu(x)``."""
    tensor: str
    """``x``."""


class _NoFormulaError(ValueError):
    """The expression is not made of numbers, one tensor and known functions."""


@dataclass
class _Formula:
    """An expression of one tensor, ready to be computed."""

    program: Program
    local: LocalValues
    tensor: str = ""
    is_of_torch: bool = False
    """Whether a function or a method is in it that only tensors have."""

    def at(self, node: ast.expr, x: float) -> float:
        """The value of ``node`` where the tensor is ``x``. Raises _NoFormulaError if it is
        something else."""
        if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
            return float(node.value)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return -self.at(node.operand, x)
        if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
            return _OPERATORS[type(node.op)](self.at(node.left, x), self.at(node.right, x))
        if isinstance(node, ast.Call):
            return self._called(node, x)
        if isinstance(node, ast.Name):
            return self._named(node, x)
        if qualified_name(self.program, node) in ("math.pi", "numpy.pi"):
            return math.pi
        raise _NoFormulaError

    def _called(self, call: ast.Call, x: float) -> float:
        name, qualified = called_name(call), qualified_name(self.program, call.func) or ""
        args = list(call.args)
        of_torch = qualified.startswith("torch.")
        if not of_torch and not qualified.startswith(_OF_NUMBERS):
            if not isinstance(call.func, ast.Attribute) or qualified:
                raise _NoFormulaError
            # It is a method of a tensor.
            args.insert(0, call.func.value)
            of_torch = True
        self.is_of_torch |= of_torch
        if call.keywords or not args:
            raise _NoFormulaError
        if name == "pow" and len(args) == 2:
            return _OPERATORS[ast.Pow](self.at(args[0], x), self.at(args[1], x))
        if len(args) != 1 or name not in _FUNCTIONS:
            raise _NoFormulaError
        return _FUNCTIONS[name](self.at(args[0], x))

    def _named(self, node: ast.Name, x: float) -> float:
        value = self.local.peeked(node)
        if value is not node and node.id != self.tensor:
            mark = self.tensor, self.is_of_torch
            try:
                result = self.at(value, x)
            except _NoFormulaError:
                self.tensor, self.is_of_torch = mark
            else:
                self.local.followed(node)
                return result
        if self.tensor not in ("", node.id):
            raise _NoFormulaError
        self.tensor = node.id
        return x


def activation(program: Program, local: LocalValues, node: ast.expr) -> OneOperator | None:
    """``gelu(x)`` where ``node`` computes that; None where it is no known activation."""
    formula = _Formula(program, local)
    try:
        values = [(x, formula.at(node, x)) for x in _POINTS]
    except (_NoFormulaError, ArithmeticError, ValueError, TypeError):
        return None
    if not formula.tensor or not formula.is_of_torch:
        return None
    for text, function in ACTIVATIONS.items():
        if all(abs(function(x) - value) <= _AGREE for x, value in values):
            return OneOperator(text.format(formula.tensor), formula.tensor)
    return None


_NORM: Rules = {
    "scaled": ("$normal * $weight",),
    "normal": ("$centred / $root", "$centred * $inverse"),
    "root": ("$inner ** 0.5", "torch.sqrt($inner)", "$inner.sqrt()"),
    "inverse": ("torch.rsqrt($inner)", "$inner.rsqrt()"),
    "inner": ("$variance + $eps",),
    "variance": (
        *("$squared.mean($last, keepdim=True)", "torch.mean($squared, $last, keepdim=True)"),
        *("$x.var(-1, keepdim=True, unbiased=False)", "$x.var(-1, keepdim=True, correction=0)"),
    ),
    "squared": ("$centred ** 2", "$centred * $centred", "$centred.pow(2)", "$centred.square()"),
    "centred": ("$x - $mean",),
    "mean": ("$x.mean($last, keepdim=True)", "torch.mean($x, $last, keepdim=True)"),
    "last": ("-1", "(-1,)", "[-1]"),
}


def layer_norm(program: Program, local: LocalValues, node: ast.expr) -> OneOperator | None:
    """``layer_norm(...)`` where ``node`` computes that over the last dimension, with parameters of
    the module; else None."""
    where = {
        "x": lambda part: isinstance(part, ast.Name),
        "eps": lambda part: is_number(program, part),
    }
    for match in Templates(program, _NORM, local, where).all(node, "$scaled + $bias"):
        if _are_parameters(program, match["weight"], match["bias"]):
            local.take(match.followed)
            x, scale, shift, eps = (
                ast.unparse(match[name]) for name in ("x", "weight", "bias", "eps")
            )
            return OneOperator(f"layer_norm({x}, {scale}.shape, {scale}, {shift}, {eps})", x)
    return None


def _are_parameters(program: Program, *tensors: ast.expr) -> bool:
    """Whether they are one-dimensional parameters of the module, initially ones and zeros."""
    match: Match | None = Match()
    for tensor, filled in zip(tensors, ("torch.ones", "torch.zeros"), strict=True):
        value = own_attribute(program, tensor)
        template = f"torch.nn.Parameter({filled}($size))"
        match = Templates(program).match(value, template, known=match) if value and match else None
    return match is not None and not isinstance(match["size"], (ast.Tuple, ast.List))


_PRODUCTS = (
    *("$left @ $right", "torch.matmul($left, $right)", "torch.bmm($left, $right)"),
    *("$left.matmul($right)", "$left.bmm($right)"),
)
_SOFTMAX = ("torch.softmax($x, -1)", "torch.nn.functional.softmax($x, -1)", "$x.softmax(-1)")
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
    """The parts of ``softmax(query @ key.T * scale, masked) @ value``."""

    product: ast.expr
    """The second product, in whose place the fused function stands."""
    value: ast.expr
    query: ast.expr
    key: ast.expr
    scale: str | None = "1.0"
    """None for the fused function's own scale: one over the root of the width."""
    mask: ast.expr | None = None
    """Where it is true there is no attention."""
    causal: bool = False
    """Whether ``mask`` is true for all later positions, and for nothing else."""
    dropout: str = ""
    """The rate, empty where there is none."""
    statements: list[ast.stmt] = field(default_factory=list)
    """Assignments of what lies between, which nothing else reads."""


def attention_of(program: Program, function: ast.FunctionDef) -> Attention:
    """The only attention written out in ``function``; refused without one, with several, or if it
    may differ from the fused function's."""
    sites = []
    templates = Templates(program)
    for node in ast.walk(function):
        if not isinstance(node, ast.expr) or program.scope(node) is not function:
            continue
        product = templates.match(node, *_PRODUCTS)
        if product is None:
            continue
        local = LocalValues(program, function, node)
        weights = local.followed(product["left"])
        with suppress(PatchRefusedError):
            # The softmax of scores, with or without dropout.
            _scores(program, _without_dropout(program, local, weights)[1])
            sites.append((node, product["right"], local, weights))
    if len(sites) != 1:
        raise PatchRefusedError(
            f"{len(sites)} products of a softmax over the last dimension are in {function.name}()"
        )
    return _read(program, *sites[0])


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
    result = Attention(product, value, query, key["key"], dropout=dropout, mask=mask)
    if factor is not None:
        result.scale = _scale(program, result, factor, divides=divides)
    if mask is not None:
        result.causal = _is_causal(program, local, mask)
    result.statements = local.used()
    local.refuse_changed(query, result.key, value, mask, factor)
    # The keys may be transposed in a statement of their own that keeps their name.
    local.refuse_taken_out(query, value, mask, factor)
    return result


def _without_dropout(
    program: Program, local: LocalValues, weights: ast.expr
) -> tuple[str, ast.expr]:
    """The rate of a dropout around ``weights``, empty where there is none, and what is in it."""
    if not isinstance(weights, ast.Call) or not weights.args:
        return "", weights
    if qualified_name(program, weights.func) == "torch.nn.functional.dropout":
        kwargs = {keyword.arg: keyword.value for keyword in weights.keywords}
        kwargs |= dict(zip(("p", "training"), weights.args[1:3], strict=False))
        if not set(kwargs) <= {"p", "training"} or len(weights.args) > 3:
            raise PatchRefusedError("it is not certain which arguments dropout has")
        rate = ast.unparse(kwargs["p"]) if "p" in kwargs else "0.5"
        training = ast.unparse(kwargs["training"]) if "training" in kwargs else "True"
        text = rate if training == "True" else f"{rate} if {training} else 0.0"
        return text, local.followed(weights.args[0])
    layer = own_layer(program, weights.func, "Dropout")
    if layer is None or len(weights.args) != 1:
        return "", weights
    if any(keyword.arg != "p" for keyword in layer.keywords) or len(layer.args) > 1:
        raise PatchRefusedError("it is not certain which arguments dropout has")
    name = ast.unparse(weights.func)
    return f"{name}.p if {name}.training else 0.0", local.followed(weights.args[0])


def _scores(program: Program, weights: ast.expr) -> ast.expr:
    """The argument of a softmax over the last dimension; refused where ``weights`` may be anything
    else."""
    templates = Templates(program)
    if match := templates.match(weights, *_SOFTMAX):
        return match["x"]
    if isinstance(weights, ast.Call) and len(weights.args) == 1:
        layer = own_layer(program, weights.func, "Softmax")
        if layer is not None and templates.match(layer, "$kind(-1)"):
            return weights.args[0]
    raise PatchRefusedError("it may not be a softmax over the last dimension")


def _without_mask(local: LocalValues, scores: ast.expr) -> tuple[ast.expr, ast.expr | None]:
    fills = ("masked_fill", "masked_fill_")
    if not isinstance(scores, ast.Call) or called_name(scores) not in fills:
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


def _scale(program: Program, parts: Attention, factor: ast.expr, *, divides: bool) -> str | None:
    """The scale as text; None for the root of the width, which the fused function uses itself."""
    tensors = {ast.unparse(parts.query), ast.unparse(parts.key)}
    where = {"tensor": lambda part: ast.unparse(part) in tensors}
    if Templates(program, _WIDTHS, where=where).match(factor, "$root" if divides else "$inverse"):
        return None
    text = ast.unparse(factor)
    if not is_number(program, factor):
        raise PatchRefusedError(f"{text} may not be a plain number")
    return f"1.0 / ({text})" if divides else text


def _is_causal(program: Program, local: LocalValues, mask: ast.expr) -> bool:
    """Whether ``mask`` is certain to be true for exactly the later positions."""

    def triangle(name: str) -> Callable[[ast.expr], bool]:
        return lambda node: _is_triangle(program, local.peeked(node), name)

    where = {name: triangle(name) for name in ("lower", "upper")}
    forms = ("$lower == 0", "$upper == 1", "~$lower", "$_.logical_not($lower)", "$upper")
    return Templates(program, where=where).match(local.peeked(mask), *forms) is not None


def _is_triangle(program: Program, node: ast.expr, name: str) -> bool:
    """Whether ``node`` is ``tril(ones(n, n))``, which is the ``lower`` one, or ``triu(ones(n, n),
    1)``, also where a buffer keeps it and as many rows as columns are taken."""
    if isinstance(node, ast.Subscript) and _is_square(node.slice):
        buffer = _buffer(program, node.value)
        if buffer is None:
            return False
        node = buffer
    while True:
        # These only add dimensions.
        if isinstance(node, ast.Subscript) and set(_indices(node.slice)) <= {"None", ":", "..."}:
            node = node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr not in _SAME:
                break
            node = node.func.value
        else:
            break
    return Templates(program, _TRIANGLES).match(node, f"${name}") is not None


def _indices(index: ast.expr) -> list[str]:
    return [ast.unparse(part) for part in (index.elts if isinstance(index, ast.Tuple) else [index])]


def _is_square(index: ast.expr) -> bool:
    """``[:, :, :n, :n]``, ``[:n, :n]`` or ``[None, None, :n, :n]``."""
    first, ends = _indices(index)[:-2], _indices(index)[-2:]
    is_begun = len(ends) == 2 and ends[0] == ends[1] and ends[0][:1] == ":" and len(ends[0]) > 1
    return is_begun and ":" not in ends[0][1:] and set(first) <= {":", "None", "..."}


def _buffer(program: Program, node: ast.expr) -> ast.expr | None:
    """The value that the class registers as the buffer ``self.mask``, if it does that once."""
    if not isinstance(node, ast.Attribute) or ast.unparse(node.value) != "self":
        return None
    registered = buffers(program, program.owner(node), node.attr)
    if len(registered) != 1 or own_stores(program, node):
        return None
    (value,) = registered
    if isinstance(value, ast.Name):
        bindings = bindings_of(program, value)
        return assigned_value(program, bindings[0]) if len(bindings) == 1 else None
    return value
