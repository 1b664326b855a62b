"""A loop that goes over parameters: what it goes over, what it does, and whether it averages."""

from __future__ import annotations

import ast
import copy
import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from perftui.script.program import (
    PatchRefusedError,
    Program,
    assigned_value,
    bound_name,
    called_name,
)
from perftui.script.templates import Templates

_Node = TypeVar("_Node", bound=ast.AST)
SAME = frozenset({"detach", "to", "float", "cpu", "cuda", "clone"})
"""Methods that give a tensor's own values."""
_FIGURES = frozenset({"norm", "square", "pow", "sum", "item"})
"""Methods that only compute."""
_OF_PARAMETERS = ("parameters", "named_parameters")
_ASKS = ("isinstance", "is_floating_point", "startswith", "endswith")


@dataclass
class ParameterLoop:
    """``loop`` with its conditions and its local names taken apart."""

    program: Program
    loop: ast.For
    conditions: list[str] = field(default_factory=list)
    statements: Sequence[ast.stmt] = ()
    """What each turn does, in the loop's own names alone."""
    values: dict[str, ast.expr] = field(default_factory=dict)

    def of_turn(self, node: ast.expr) -> bool:
        """Whether ``node`` reads a name that the loop gives a value."""
        names = {bound_name(one) for one in ast.walk(self.loop)}
        return any(isinstance(one, ast.Name) and one.id in names for one in ast.walk(node))

    def original(self, node: ast.expr) -> ast.expr:
        """The expression of the file that says the same as ``node``, which has a place there."""
        text = ast.dump(node)
        same = (one for one in ast.walk(self.loop) if isinstance(one, type(node)))
        return next((one for one in same if ast.dump(one) == text), node)

    def rows(self, *columns: ast.expr) -> str:
        """A list with a tuple of ``columns`` for each turn."""
        target = ast.unparse(self.loop.target)
        target = target[1:-1] if isinstance(self.loop.target, ast.Tuple) else target
        chosen = f" if {' and '.join(self.conditions)}" if self.conditions else ""
        values = ", ".join(map(ast.unparse, columns))
        return f"[({values}) for {target} in {ast.unparse(self.loop.iter)}{chosen}]"


def parameter_loop(program: Program, loop: ast.For) -> ParameterLoop | None:
    """``loop`` taken apart; None where it is not certain to go once over each parameter."""
    return taken_apart(program, loop) if goes_over_parameters(program, loop.iter) else None


def taken_apart(program: Program, loop: ast.For) -> ParameterLoop | None:
    """``loop`` with its conditions and local names apart from what it does; None where some turns
    may not come to their end."""
    if loop.orelse:
        return None
    found = ParameterLoop(program, loop)
    statements = list(loop.body)
    while statements:
        first, others = statements[0], statements[1:]
        if isinstance(first, ast.If) and not first.orelse and _is_plain(first.test):
            if len(first.body) == 1 and isinstance(first.body[0], ast.Continue):
                found.conditions.append(_text(found, first.test, negated=True))
                statements = others
                continue
            if not others:
                found.conditions.append(_text(found, first.test))
                statements = list(first.body)
                continue
        # What is not there raises by itself where it is read.
        is_asserted = isinstance(first, ast.Assert) and _is_membership(first.test)
        if not is_asserted and not (others and _takes(found, first)):
            break
        statements = others
    if any(isinstance(n, (ast.Break, ast.Continue)) for s in statements for n in ast.walk(s)):
        return None
    found.statements = [_replaced(found, one) for one in statements]
    return found


def refuse_read_later(found: ParameterLoop) -> None:
    """Nothing where none of the loop's own and local names is read behind it.

    Raises:
        PatchRefusedError: one is.
    """
    program, loop = found.program, found.loop
    scope, within = program.scope(loop), set(ast.walk(loop))
    targets = {name for node in ast.walk(loop.target) if (name := bound_name(node))}
    for name in sorted(targets.union(found.values)):
        for use in program.loads(name):
            if use in within or program.scope(use) is not scope or use.lineno < loop.lineno:
                continue
            if not any(_binds(above, name) for above in program.ancestors(use)):
                raise PatchRefusedError(f"line {use.lineno} reads {name} after the loop")


def goes_over_parameters(program: Program, over: ast.expr) -> bool:
    """Whether ``over`` gives the parameters of a model, each once, or pairs of two models'."""
    if isinstance(over, ast.Call):
        if called_name(over) == "zip" and over.args:
            return all(goes_over_parameters(program, one) for one in over.args)
        if called_name(over) in ("list", "dict", "OrderedDict", "tuple") and len(over.args) == 1:
            return goes_over_parameters(program, over.args[0])
        owner = over.func.value if isinstance(over.func, ast.Attribute) else None
        if called_name(over) in ("items", "values", "keys") and owner is not None:
            return not isinstance(owner, ast.Call) and goes_over_parameters(program, owner)
        return called_name(over) in _OF_PARAMETERS
    if isinstance(over, (ast.ListComp, ast.DictComp)) and len(over.generators) == 1:
        return goes_over_parameters(program, over.generators[0].iter)
    values = _values(program, over)
    return bool(values) and all(
        not isinstance(one, (ast.Name, ast.Attribute)) and goes_over_parameters(program, one)
        for one in values
    )


def _values(program: Program, name: ast.expr) -> list[ast.expr]:
    """All that the file assigns to a name or an attribute; none where one of them is not plain."""
    stores: list[ast.AST] = program.bindings(name.id) if isinstance(name, ast.Name) else []
    if isinstance(name, ast.Attribute):
        stores = [*program.attributes(name.attr, ast.Store)]
    values = [assigned_value(program, one) for one in stores]
    found = [one for one in values if one is not None]
    return found if len(found) == len(stores) else []


def _takes(found: ParameterLoop, statement: ast.stmt) -> bool:
    """Whether ``statement`` only gives local names to values, which are then kept for them."""
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return False
    target, value = statement.targets[0], statement.value
    pairs = [(target, value)]
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        pairs = list(zip(target.elts, value.elts, strict=False))
    names = [one.id for one, _ in pairs if isinstance(one, ast.Name)]
    if len(names) < len(pairs) or any(name in found.values for name in names):
        return False
    calls = (node for node in ast.walk(value) if isinstance(node, ast.Call))
    if any(called_name(call) not in SAME | _FIGURES for call in calls):
        return False
    found.values |= {
        name: _replaced(found, one) for name, (_, one) in zip(names, pairs, strict=True)
    }
    return True


class _Values(ast.NodeTransformer):
    def __init__(self, values: dict[str, ast.expr]) -> None:
        self._values = values

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """What a local name stands for."""
        is_read = isinstance(node.ctx, ast.Load)
        return copy.deepcopy(self._values[node.id]) if is_read and node.id in self._values else node


def _replaced(found: ParameterLoop, node: _Node) -> _Node:
    """``node`` with values in place of local names, as a copy."""
    replaced: _Node = _Values(found.values).visit(copy.deepcopy(node))
    return replaced


def _text(found: ParameterLoop, test: ast.expr, *, negated: bool = False) -> str:
    test = _replaced(found, test)
    if negated and isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return ast.unparse(test.operand)
    return ast.unparse(ast.UnaryOp(ast.Not(), test) if negated else test)


def _is_plain(test: ast.expr) -> bool:
    """Whether ``test`` may be asked of all turns before any of them."""
    calls = [node for node in ast.walk(test) if isinstance(node, ast.Call)]
    reads = [node for node in ast.walk(test) if isinstance(node, (ast.NamedExpr, ast.BinOp))]
    return not reads and all(called_name(call) in _ASKS for call in calls)


def _is_membership(test: ast.expr) -> bool:
    return isinstance(test, ast.Compare) and [type(one) for one in test.ops] == [ast.In]


def _binds(node: ast.AST, name: str) -> bool:
    """Whether ``node`` is a loop or a comprehension that gives ``name`` a value of its own."""
    targets = [one.target for one in getattr(node, "generators", ())]
    targets += [node.target] if isinstance(node, ast.For) else []
    return any(bound_name(one) == name for part in targets for one in ast.walk(part))


class Kept(enum.Enum):
    """Where the new average goes."""

    IN_PLACE = enum.auto()
    DATA = enum.auto()
    """``tensor.data = ...``: what the tensor had may be another's as well, and stays as it is."""
    ITEM = enum.auto()
    """``averages[name] = ...``, likewise."""


@dataclass(frozen=True)
class Average:
    """What one turn of a loop over parameters computes."""

    old: ast.expr
    new: ast.expr
    decay: ast.expr | None
    """None for ``lerp_``, where it is 1 less the weight."""
    weight: ast.expr
    kept: Kept = Kept.IN_PLACE
    numbers: tuple[ast.expr, ...] = ()
    """What must be numbers of Python so that operators on lists take them."""


_AVERAGES = (
    ("$old.lerp_($new, $weight)", ("weight",)),
    ("$old.mul_($decay).add_($new, alpha=$weight)", ()),
    ("$old.mul_($decay).add_($new * $weight)", ("weight",)),
    ("$old.mul_($decay); $old.add_($new, alpha=$weight)", ()),
    ("$old.mul_($decay); $old.add_($new * $weight)", ("weight",)),
    ("$copied.copy_($sum)", ("decay", "weight")),
    ("$data = $sum", ("decay", "weight")),
    ("$item = $sum", ("decay", "weight")),
)
"""Templates, and what of each must be numbers of Python."""
_SUM = "$old * $decay + $new * $weight"
_PLACES = {"copied": Kept.IN_PLACE, "data": Kept.DATA, "item": Kept.ITEM}


def average_of(found: ParameterLoop) -> Average | None:
    """The average that the turns of a loop compute; None where they do anything else."""

    def steady(node: ast.expr) -> bool:
        return not found.of_turn(node)

    def tensor(node: ast.expr) -> bool:
        return is_tensor(node, found.of_turn)

    where = {
        **dict.fromkeys(("decay", "weight"), steady),
        **dict.fromkeys(("old", "new", "copied"), tensor),
        "data": lambda node: isinstance(node, ast.Attribute) and node.attr == "data",
        "item": lambda node: isinstance(node, ast.Subscript) and tensor(node),
    }
    rules = {"sum": (_SUM, f"({_SUM}).clone()")}
    templates = Templates(found.program, rules, where=where, text=_plain_text)
    for template, numbers in _AVERAGES:
        for match in templates.all(found.statements, template):
            old, new = match["old"], match["new"]
            place = next((name for name in _PLACES if name in match.parts), None)
            own = _plain_text(match[place] if place else old)
            if own == _plain_text(old) and (place is None or own != _plain_text(new)):
                kept = _PLACES[place] if place else Kept.IN_PLACE
                given = tuple(match[name] for name in numbers)
                return Average(old, new, match.parts.get("decay"), match["weight"], kept, given)
    return None


def is_tensor(node: ast.expr, of_turn: Callable[[ast.expr], bool]) -> bool:
    """Whether ``node`` is a tensor of the turn as it is: a name, an item or an attribute, moved or
    detached at most."""
    if isinstance(node, ast.Call):
        owner = node.func.value if isinstance(node.func, ast.Attribute) else None
        return owner is not None and called_name(node) in SAME and is_tensor(owner, of_turn)
    if isinstance(node, ast.Subscript) and not isinstance(node.slice, ast.Name):
        return False
    return isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)) and of_turn(node)


def _plain_text(node: ast.expr) -> str:
    """The tensor, however it is taken out of the graph."""
    text = ast.unparse(node)
    for end in (".data", ".detach()"):
        text = text.removesuffix(end)
    return text
