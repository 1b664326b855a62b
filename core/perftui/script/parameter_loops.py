"""Loops over parameters: what they go over, what they do, and whether they average weights."""

from __future__ import annotations

import ast
import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from perftui.script.program import (
    PatchRefusedError,
    Program,
    assigned_value,
    bound_name,
    called_name,
    called_names,
    receiver,
    with_values,
)
from perftui.script.templates import Templates

SAME = frozenset({"detach", "to", "float", "cpu", "cuda", "clone"})
"""Methods that give a tensor's own values."""
_DEEPEST = 3
"""Most names between a loop and what it goes over."""
_ASKS = ("isinstance", "is_floating_point", "startswith", "endswith")


@dataclass
class ParameterLoop:
    """``loop`` with its conditions and its local names taken apart."""

    program: Program
    loop: ast.For
    conditions: list[str] = field(default_factory=list)
    statements: Sequence[ast.stmt] = ()
    """Statements of one turn, in the loop's own names alone."""
    values: dict[str, ast.expr] = field(default_factory=dict)

    def of_turn(self, node: ast.expr) -> bool:
        """Whether ``node`` reads a name that the loop gives a value."""
        names = {bound_name(part) for part in ast.walk(self.loop)}
        return any(isinstance(part, ast.Name) and part.id in names for part in ast.walk(node))

    def original(self, node: ast.expr) -> ast.expr:
        """The expression of the file that says the same as ``node``, which has a place there."""
        text = ast.dump(node)
        same = (part for part in ast.walk(self.loop) if isinstance(part, type(node)))
        return next((part for part in same if ast.dump(part) == text), node)

    def rows(self, *columns: ast.expr) -> str:
        """A list with a tuple of ``columns`` for each turn."""
        target = ast.unparse(self.loop.target)
        target = target[1:-1] if isinstance(self.loop.target, ast.Tuple) else target
        chosen = f" if {' and '.join(self.conditions)}" if self.conditions else ""
        values = ", ".join(map(ast.unparse, columns))
        return f"[({values}) for {target} in {ast.unparse(self.loop.iter)}{chosen}]"


def taken_apart(program: Program, loop: ast.For) -> ParameterLoop | None:
    """``loop`` with its conditions and local names separated from its statements; None where a turn
    may end early."""
    if loop.orelse:
        return None
    parts = ParameterLoop(program, loop)
    statements = list(loop.body)
    while statements:
        first, others = statements[0], statements[1:]
        if isinstance(first, ast.If) and not first.orelse and _is_plain(first.test):
            if len(first.body) == 1 and isinstance(first.body[0], ast.Continue):
                parts.conditions.append(_text(parts, first.test, negated=True))
                statements = others
                continue
            if not others:
                parts.conditions.append(_text(parts, first.test))
                statements = list(first.body)
                continue
        # Without the assertion, reading a missing key raises by itself.
        asserted = first.test if isinstance(first, ast.Assert) else None
        is_asserted = isinstance(asserted, ast.Compare) and isinstance(asserted.ops[0], ast.In)
        if not is_asserted and not (others and _takes(parts, first)):
            break
        statements = others
    if any(isinstance(n, (ast.Break, ast.Continue)) for s in statements for n in ast.walk(s)):
        return None
    parts.statements = [with_values(node, parts.values) for node in statements]
    return parts


def refuse_read_later(parts: ParameterLoop) -> None:
    """Refuse unless none of the loop's own and local names is read behind it."""
    program, loop = parts.program, parts.loop
    scope, within = program.scope(loop), set(ast.walk(loop))
    targets = {name for node in ast.walk(loop.target) if (name := bound_name(node))}
    for name in sorted(targets.union(parts.values)):
        for use in program.loads(name):
            if use in within or program.scope(use) is not scope or use.lineno < loop.lineno:
                continue
            if not any(_binds(above, name) for above in program.ancestors(use)):
                raise PatchRefusedError(f"line {use.lineno} reads {name} after the loop")


def goes_over_parameters(program: Program, over: ast.expr, deep: int = _DEEPEST) -> bool:
    """Whether ``over`` gives the parameters of a model, each once, or pairs of two models'."""
    deep -= 1
    if isinstance(over, ast.Call):
        if called_name(over) == "zip" and over.args:
            return all(goes_over_parameters(program, arg, deep) for arg in over.args)
        if called_name(over) in ("list", "dict", "OrderedDict", "tuple") and len(over.args) == 1:
            return goes_over_parameters(program, over.args[0], deep)
        owner = receiver(over)
        if called_name(over) in ("items", "values", "keys") and owner is not None:
            return not isinstance(owner, ast.Call) and goes_over_parameters(program, owner, deep)
        return called_name(over) in ("parameters", "named_parameters")
    if isinstance(over, (ast.ListComp, ast.DictComp)) and len(over.generators) == 1:
        return goes_over_parameters(program, over.generators[0].iter, deep)
    stores: Sequence[ast.AST] = program.bindings(over.id) if isinstance(over, ast.Name) else ()
    if isinstance(over, ast.Attribute):
        stores = program.attributes(over.attr, ast.Store)
    values = [assigned_value(program, node) for node in stores]
    return (
        deep > 0
        and bool(values)
        and all(
            not isinstance(value, (ast.Name, ast.Attribute, type(None)))
            and goes_over_parameters(program, value, deep)
            for value in values
        )
    )


def _takes(parts: ParameterLoop, statement: ast.stmt) -> bool:
    """Whether ``statement`` only assigns local names; their values are then kept."""
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return False
    target, value = statement.targets[0], statement.value
    pairs = [(target, value)]
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        pairs = list(zip(target.elts, value.elts, strict=False))
    names = [node.id for node, _ in pairs if isinstance(node, ast.Name)]
    if len(names) < len(pairs) or any(name in parts.values for name in names):
        return False
    if not called_names(value) <= SAME:
        return False
    parts.values |= {
        name: with_values(node, parts.values) for name, (_, node) in zip(names, pairs, strict=True)
    }
    return True


def _text(parts: ParameterLoop, test: ast.expr, *, negated: bool = False) -> str:
    test = with_values(test, parts.values)
    if negated and isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return ast.unparse(test.operand)
    return ast.unparse(ast.UnaryOp(ast.Not(), test) if negated else test)


def _is_plain(test: ast.expr) -> bool:
    """Whether ``test`` may be evaluated for all turns before the first one."""
    reads = [node for node in ast.walk(test) if isinstance(node, (ast.NamedExpr, ast.BinOp))]
    return not reads and called_names(test).issubset(_ASKS)


def _binds(node: ast.AST, name: str) -> bool:
    """Whether ``node`` is a loop or a comprehension that gives ``name`` a value of its own."""
    targets = [gen.target for gen in getattr(node, "generators", ())]
    targets += [node.target] if isinstance(node, ast.For) else []
    return any(bound_name(below) == name for part in targets for below in ast.walk(part))


class Destination(enum.Enum):
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
    kept: Destination = Destination.IN_PLACE
    numbers: tuple[ast.expr, ...] = ()
    """Expressions that must be numbers of Python, so that operators on lists take them."""


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
"""Templates, each with its names that must be Python numbers."""
_SUM = "$old * $decay + $new * $weight"
_PLACES = {"copied": Destination.IN_PLACE, "data": Destination.DATA, "item": Destination.ITEM}


def average_of(parts: ParameterLoop) -> Average | None:
    """The average that the turns of a loop compute; None where they do anything else."""

    def steady(node: ast.expr) -> bool:
        return not parts.of_turn(node)

    def tensor(node: ast.expr) -> bool:
        return is_tensor(node, parts.of_turn)

    where = {
        **dict.fromkeys(("decay", "weight"), steady),
        **dict.fromkeys(("old", "new", "copied"), tensor),
        "data": lambda node: isinstance(node, ast.Attribute) and node.attr == "data",
        "item": lambda node: isinstance(node, ast.Subscript) and tensor(node),
    }
    rules = {"sum": (_SUM, f"({_SUM}).clone()")}
    templates = Templates(parts.program, rules, where=where, text=_plain_text)
    for template, numbers in _AVERAGES:
        for match in templates.all(parts.statements, template):
            old, new = match["old"], match["new"]
            place = next((name for name in _PLACES if name in match.parts), None)
            own = _plain_text(match[place] if place else old)
            if own == _plain_text(old) and (place is None or own != _plain_text(new)):
                kept = _PLACES[place] if place else Destination.IN_PLACE
                values = tuple(match[name] for name in numbers)
                return Average(old, new, match.parts.get("decay"), match["weight"], kept, values)
    return None


def is_tensor(node: ast.expr, of_turn: Callable[[ast.expr], bool]) -> bool:
    """Whether ``node`` is a tensor of the turn as it is: a name, an item or an attribute, moved or
    detached at most."""
    if isinstance(node, ast.Call):
        owner = receiver(node)
        return owner is not None and called_name(node) in SAME and is_tensor(owner, of_turn)
    if isinstance(node, ast.Subscript) and not isinstance(node.slice, ast.Name):
        return False
    return isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)) and of_turn(node)


def _plain_text(node: ast.expr) -> str:
    """The text of a tensor without ``.data`` and ``.detach()``."""
    text = ast.unparse(node)
    for end in (".data", ".detach()"):
        text = text.removesuffix(end)
    return text
