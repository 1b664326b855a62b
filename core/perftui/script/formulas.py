"""Activations and layer norms that are written out as formulas."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from perftui.script.local_values import LocalValues, own_attribute
from perftui.script.names import qualified_name
from perftui.script.numbers import is_number
from perftui.script.program import Program, called_name
from perftui.script.templates import Match, Rules, Templates

_POINTS = tuple(at / 7 - 3.0 for at in range(43))
"""Where a formula is computed: two that agree at all of these are the same, made of so little."""

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
"""How each is written of ``torch.nn.functional``."""


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
        """The value of ``node`` where the tensor is ``x``.

        Raises:
            _NoFormulaError: it is something else.
        """
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
        name, named = called_name(call), qualified_name(self.program, call.func) or ""
        given = list(call.args)
        of_torch = named.startswith("torch.")
        if not of_torch and not named.startswith(_OF_NUMBERS):
            if not isinstance(call.func, ast.Attribute) or named:
                raise _NoFormulaError
            # A method of a tensor.
            given.insert(0, call.func.value)
            of_torch = True
        self.is_of_torch |= of_torch
        if call.keywords or not given:
            raise _NoFormulaError
        if name == "pow" and len(given) == 2:
            return _OPERATORS[ast.Pow](self.at(given[0], x), self.at(given[1], x))
        if len(given) != 1 or name not in _FUNCTIONS:
            raise _NoFormulaError
        return _FUNCTIONS[name](self.at(given[0], x))

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
    """``gelu(x)`` where ``node`` is that of a tensor ``x``; None where it is none that is known."""
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
    """``layer_norm(x, self.weight.shape, ...)`` where ``node`` is that, over the last dimension and
    with parameters of the module; None where it is not."""
    where = {
        "x": lambda one: isinstance(one, ast.Name),
        "eps": lambda one: is_number(program, one),
    }
    for found in Templates(program, _NORM, local, where).all(node, "$scaled + $bias"):
        if _are_parameters(program, found["weight"], found["bias"]):
            local.take(found.followed)
            x, scale, shift, eps = (
                ast.unparse(found[name]) for name in ("x", "weight", "bias", "eps")
            )
            return OneOperator(f"layer_norm({x}, {scale}.shape, {scale}, {shift}, {eps})", x)
    return None


def _are_parameters(program: Program, *given: ast.expr) -> bool:
    """Whether they are parameters of the module, one number for each of the last dimension."""
    known: Match | None = Match()
    for one, filled in zip(given, ("torch.ones", "torch.zeros"), strict=True):
        made = own_attribute(program, one)
        template = f"torch.nn.Parameter({filled}($size))"
        known = Templates(program).match(made, template, known=known) if made and known else None
    return known is not None and not isinstance(known["size"], (ast.Tuple, ast.List))
