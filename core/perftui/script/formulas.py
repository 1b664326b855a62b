"""Formulas of one tensor that are an activation of torch's, whatever order they are written in."""

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


class _Norm:
    """Reads one expression as ``(x - mean) / sqrt(variance + eps) * weight + bias``."""

    def __init__(self, program: Program, local: LocalValues) -> None:
        self._program, self._local = program, local
        self._tensor = ""

    def read(self, node: ast.expr) -> OneOperator | None:
        """``layer_norm(x, ...)``; None where it is not that."""
        if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Add):
            return None
        for scaled, bias in ((node.left, node.right), (node.right, node.left)):
            product = self._local.followed(scaled)
            if not isinstance(product, ast.BinOp) or not isinstance(product.op, ast.Mult):
                continue
            for normal, weight in ((product.left, product.right), (product.right, product.left)):
                eps = self._normal(normal) if self._are_parameters(weight, bias) else None
                if eps is not None:
                    scale, shift = ast.unparse(weight), ast.unparse(bias)
                    text = f"layer_norm({self._tensor}, {scale}.shape, {scale}, {shift}, {eps})"
                    return OneOperator(text, self._tensor)
        return None

    def _are_parameters(self, *given: ast.expr) -> bool:
        """Whether they are parameters of the module, one number for each of the last dimension."""
        sizes = set()
        for one, filled in zip(given, ("torch.ones", "torch.zeros"), strict=True):
            made = own_attribute(self._program, one)
            if not isinstance(made, ast.Call) or len(made.args) != 1 or made.keywords:
                return False
            if qualified_name(self._program, made.func) != "torch.nn.Parameter":
                return False
            values = made.args[0]
            if not isinstance(values, ast.Call) or values.keywords or len(values.args) != 1:
                return False
            if qualified_name(self._program, values.func) != filled:
                return False
            sizes.add(ast.unparse(values.args[0]))
        return len(sizes) == 1 and not next(iter(sizes)).startswith(("(", "["))

    def _normal(self, node: ast.expr) -> str | None:
        """The epsilon of ``(x - mean) / sqrt(variance + eps)``."""
        node = self._local.followed(node)
        if not isinstance(node, ast.BinOp):
            return None
        centred, other = node.left, self._local.followed(node.right)
        if isinstance(node.op, ast.Div):
            inner = self._root(other, "sqrt")
        elif isinstance(node.op, ast.Mult):
            inner = self._root(other, "rsqrt")
        else:
            return None
        if inner is None or not self._is_centred(centred):
            return None
        return self._epsilon(self._local.followed(inner))

    def _root(self, node: ast.expr, name: str) -> ast.expr | None:
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
            return node.left if (name, ast.unparse(node.right)) == ("sqrt", "0.5") else None
        if not isinstance(node, ast.Call) or called_name(node) != name or node.keywords:
            return None
        if qualified_name(self._program, node.func) == f"torch.{name}" and len(node.args) == 1:
            return node.args[0]
        is_method = isinstance(node.func, ast.Attribute) and not node.args
        return node.func.value if isinstance(node.func, ast.Attribute) and is_method else None

    def _epsilon(self, node: ast.expr) -> str | None:
        if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Add):
            return None
        variance, eps = self._local.followed(node.left), node.right
        if not is_number(self._program, eps) or not self._is_variance(variance):
            return None
        return ast.unparse(eps)

    def _is_centred(self, node: ast.expr) -> bool:
        """``x - x.mean(-1, keepdim=True)``."""
        node = self._local.followed(node)
        if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Sub):
            return False
        mean = self._mean_of(self._local.followed(node.right))
        if not isinstance(node.left, ast.Name) or not isinstance(mean, ast.Name):
            return False
        if node.left.id != mean.id or self._tensor not in ("", mean.id):
            return False
        self._tensor = mean.id
        return True

    def _mean_of(self, node: ast.expr) -> ast.expr | None:
        """``x`` of ``x.mean(-1, keepdim=True)``."""
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            return None
        given = [ast.unparse(one) for one in node.args]
        inner: ast.expr = node.func.value
        if qualified_name(self._program, node.func) == "torch.mean" and node.args:
            inner, given = node.args[0], given[1:]
        named = {one.arg: ast.unparse(one.value) for one in node.keywords}
        given += [named.pop("dim")] if "dim" in named else []
        is_last = given in (["-1"], ["(-1,)"], ["[-1]"]) and named == {"keepdim": "True"}
        return inner if node.func.attr == "mean" and is_last else None

    def _is_variance(self, node: ast.expr) -> bool:
        """``((x - mean) ** 2).mean(-1, keepdim=True)``, or ``x.var`` of as many as there are."""
        squared = self._mean_of(node)
        if squared is not None:
            return self._is_square_of_centred(self._local.followed(squared))
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            return False
        named = {one.arg: ast.unparse(one.value) for one in node.keywords}
        given = [*map(ast.unparse, node.args), *([named.pop("dim")] if "dim" in named else [])]
        is_biased = named.pop("unbiased", "") == "False" or named.pop("correction", "") == "0"
        is_it = isinstance(node.func.value, ast.Name) and node.func.value.id == self._tensor
        is_whole = given == ["-1"] and named == {"keepdim": "True"}
        return node.func.attr == "var" and is_it and is_biased and is_whole

    def _is_square_of_centred(self, node: ast.expr) -> bool:
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
            return ast.unparse(node.right) == "2" and self._is_centred(node.left)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
            return all(self._is_centred(one) for one in (node.left, node.right))
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            return False
        given = [ast.unparse(one) for one in node.args]
        is_square = (node.func.attr, given) in (("pow", ["2"]), ("square", []))
        return is_square and not node.keywords and self._is_centred(node.func.value)


def layer_norm(program: Program, local: LocalValues, node: ast.expr) -> OneOperator | None:
    """``layer_norm(x, self.weight.shape, ...)`` where ``node`` is that, over the last dimension and
    with parameters of the module; None where it is not."""
    return _Norm(program, local).read(node)
