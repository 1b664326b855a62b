"""Loops over parameters: what they go over, what they do, and whether they average weights or clip
gradients."""

from __future__ import annotations

import ast
import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from perftui.script.names import bindings_of, values_given
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
from perftui.script.templates import Templates, assigned_name

SAME = frozenset({"detach", "to", "float", "cpu", "cuda", "clone"})
"""Methods that give a tensor's own values."""
_FIGURES = frozenset({"norm", "square", "pow", "sum", "item"})
"""Methods that only compute."""
_DEEPEST = 3
"""Most names between a loop and what it goes over."""
_OF_PARAMETERS = ("parameters", "named_parameters")
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
        return called_name(over) in _OF_PARAMETERS
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
    if not called_names(value) <= SAME | _FIGURES:
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


_SQUARES = frozenset(
    {
        *("(g ** 2).sum()", "(g * g).sum()", "g.pow(2).sum()", "g.square().sum()"),
        *("g.norm() ** 2", "g.norm(2) ** 2", "g.norm(2.0) ** 2", "g.norm(p=2) ** 2"),
        *("g.norm().pow(2)", "g.norm(2).pow(2)", "g.norm().square()"),
        *("torch.norm(g) ** 2", "torch.sum(g ** 2)"),
    }
)
"""The squared norm of a gradient ``g``, ``item()`` left out."""
_ROOTS = (
    *("{0} ** 0.5", "{0} ** (1 / 2)", "{0} ** (1.0 / 2)", "{0} ** (1.0 / 2.0)"),
    *("math.sqrt({0})", "sqrt({0})", "{0}.sqrt()", "torch.sqrt({0})"),
)
_SCALED = ("$gradient *= $factor", "$gradient.mul_($factor)", "$gradient = $own * $factor")
_BOUNDED = ("min(1, $limit / $rest)", "min($limit / $rest, 1)")
_EPSILON = "1e-06"
"""What ``clip_grad_norm_`` adds to the norm."""


@dataclass(frozen=True)
class Clipped:
    """Consecutive statements that clip gradients, and what they compute."""

    norm: ast.Assign
    gone: tuple[ast.stmt, ...]
    """Statements that ``clip_grad_norm_`` replaces: the sum of squares (a loop, or one statement of
    it), the factor, and the loop that scales."""
    parameters: str
    limit: str
    is_float: bool
    """The norm is a number of Python, as by ``item()``."""


def clipped_by_hand(program: Program, loop: ast.For) -> Clipped | None:
    """The clipping that ``loop`` begins; None where it does anything else, refused where it clips,
    but not certainly as torch does."""
    squares = _squares(program, loop)
    if squares is None:
        return None
    summed, total, is_float = squares
    block = program.block(loop)
    following = block[block.index(loop) + 1 :]
    norm = following[0] if following else None
    if not isinstance(norm, ast.Assign) or not isinstance(norm.targets[0], ast.Name):
        return None
    if ast.unparse(norm.value) not in [root.format(total) for root in _ROOTS]:
        return None
    name, rest = norm.targets[0].id, following[1:3]
    factor = assigned_name(rest[0]) if rest else None
    scaling = rest[1] if factor is not None and len(rest) > 1 else rest[0] if rest else None
    setter = rest[0] if factor is not None else None
    limit = _limit(program, loop, scaling, name, setter)
    if scaling is None or limit is None:
        return None
    gone = [*([setter] if setter is not None else []), scaling]
    taken = [summed, *gone]
    _refuse_others(program, [loop, norm, *gone], taken, total, name, factor)
    gone = [*_zero(program, loop, total), *taken]
    return Clipped(norm, tuple(gone), ast.unparse(loop.iter), limit, is_float)


def _of_gradients(program: Program, loop: ast.For) -> ParameterLoop | None:
    """``loop`` taken apart, where it goes over parameters that have gradients or over all."""
    parts = taken_apart(program, loop)
    name = loop.target.id if isinstance(loop.target, ast.Name) else ""
    has_one = {f"{name}.grad is not None", f"not {name}.grad is None"}
    return parts if parts is not None and name and has_one.issuperset(parts.conditions) else None


def _squares(program: Program, loop: ast.For) -> tuple[ast.stmt, str, bool] | None:
    """The statement that sums up squares, the name of the sum, and whether it is a float."""
    parts = _of_gradients(program, loop)
    if parts is None:
        return None
    adding = [node for node in parts.statements if _is_square(node, ast.unparse(loop.target))]
    if len(adding) != 1:
        return None
    added = adding[0]
    total = ast.unparse(added.target)  # type: ignore[attr-defined] # an AugAssign
    is_float = ".item()" in ast.unparse(added)
    if len(parts.statements) == 1:
        return loop, total, is_float
    own = [node for node in loop.body if ast.dump(node) == ast.dump(added)]
    return (own[0], total, is_float) if own else None


def _is_square(statement: ast.stmt, name: str) -> bool:
    if not isinstance(statement, ast.AugAssign) or not isinstance(statement.op, ast.Add):
        return False
    text = ast.unparse(statement.value).replace(".item()", "")
    for gradient in (f"{name}.grad.data", f"{name}.grad.detach()", f"{name}.grad"):
        text = text.replace(gradient, "g")
    return isinstance(statement.target, ast.Name) and text in _SQUARES


def _refuse_others(
    program: Program,
    own: list[ast.stmt],
    gone: list[ast.stmt],
    total: str,
    norm: str,
    factor: str | None,
) -> None:
    """Refuse if anything else reads a value that is no longer computed, or keeps a gradient."""
    within = {node for part in own for node in ast.walk(part)}
    scope = program.scope(own[0])
    for name in (total, factor):
        for use in program.loads(name or ""):
            is_norm = name == norm and use.lineno > own[0].lineno
            if use not in within and program.scope(use) is scope and not is_norm:
                raise PatchRefusedError(f"line {use.lineno} reads {name}, too")
    for loop in (node for part in gone for node in ast.walk(part) if isinstance(node, ast.For)):
        parts = taken_apart(program, loop)
        if parts is not None:
            refuse_read_later(parts)
    for node in program.nodes:
        value = node.value if isinstance(node, ast.Assign) else None
        # Local names of a loop over parameters are gone after their turn.
        in_loop = any(isinstance(above, ast.For) for above in program.ancestors(node))
        if isinstance(value, ast.Attribute) and value.attr == "grad" and not in_loop:
            raise PatchRefusedError(f"line {value.lineno} keeps a gradient as it was")


def _zero(program: Program, loop: ast.For, total: str) -> list[ast.stmt]:
    """``total = 0.0`` before ``loop``, where it sets nothing else."""
    block = program.block(loop)
    for node in block[: block.index(loop)]:
        value = node.value if isinstance(node, ast.Assign) else None
        is_it = isinstance(node, ast.Assign) and [ast.unparse(t) for t in node.targets] == [total]
        if is_it and isinstance(value, ast.Constant) and not value.value:
            return [node]
    return []


def _limit(
    program: Program, loop: ast.For, scaling: ast.stmt | None, norm: str, setter: ast.stmt | None
) -> str | None:
    """What the norm is limited to by ``scaling``, a loop or one under a condition; refused where it
    scales, but not certainly as ``clip_grad_norm_`` does."""
    test = scaling.test if isinstance(scaling, ast.If) and not scaling.orelse else None
    body = scaling.body if isinstance(scaling, ast.If) else [scaling]
    if len(body) == 2 and setter is None:
        setter, body = body[0], body[1:]
    scale = body[0] if len(body) == 1 else None
    if not isinstance(scale, ast.For) or ast.unparse(scale.iter) != ast.unparse(loop.iter):
        return None
    factor = value = _scaled_by(program, scale)
    if isinstance(factor, ast.Name):
        is_given = setter is not None and assigned_name(setter) == factor.id
        value = setter.value if is_given and isinstance(setter, ast.Assign) else None
    if factor is None or value is None:
        return None
    templates = Templates(program)
    bounded = templates.match(value, *_BOUNDED)
    match = bounded or templates.match(value, "$limit / $rest")
    if match is None:
        return None
    limit, rest = ast.unparse(match["limit"]), ast.unparse(match["rest"])
    asked = [f"{norm} > {limit}", f"{ast.unparse(factor)} < 1", f"{ast.unparse(factor)} < 1.0"]
    is_asked = test is not None and ast.unparse(test) in asked
    if not is_asked and (bounded is None or test is not None):
        raise PatchRefusedError(f"line {scale.lineno} may scale gradients that are short already")
    if rest != f"{norm} + {_EPSILON}":
        text = ast.unparse(ast.BinOp(match["limit"], ast.Div(), match["rest"]))
        line = match["limit"].lineno
        raise PatchRefusedError(f"line {line}: {text} is not what clip_grad_norm_ does")
    refuse_one_pass(program, loop.iter)
    return limit


def _scaled_by(program: Program, loop: ast.For) -> ast.expr | None:
    """The factor by which ``loop`` multiplies each gradient."""
    parts = _of_gradients(program, loop)
    if parts is None:
        return None
    name = ast.unparse(loop.target)
    gradients = (f"{name}.grad", f"{name}.grad.data", f"{name}.grad.detach()")
    where = {
        **dict.fromkeys(("gradient", "own"), lambda node: ast.unparse(node) in gradients),
        "factor": lambda node: ast.unparse(node) not in gradients,
    }
    matches = [Templates(program, where=where).match(parts.statements, form) for form in _SCALED]
    return next((match["factor"] for match in matches if match), None)


def refuse_one_pass(program: Program, over: ast.expr, depth: int = _DEEPEST) -> None:
    """Refuse unless ``over`` can be iterated twice, as a list can but not a generator: the loop
    that scales may have found nothing."""
    if isinstance(over, (ast.List, ast.Tuple, ast.ListComp, ast.Subscript)):
        return
    if isinstance(over, ast.Call) and (depth == _DEEPEST or called_name(over) in ("list", "tuple")):
        return
    values: list[ast.expr | None] = []
    for binding in bindings_of(program, over) if isinstance(over, ast.Name) and depth else ():
        passed = values_given(program, binding) if isinstance(binding, ast.arg) else []
        values += passed or [assigned_value(program, binding)]
    for value in values or [None]:
        if value is None:
            text = ast.unparse(over)
            raise PatchRefusedError(f"{text} may be a generator, which only one loop can consume")
        refuse_one_pass(program, value, depth - 1)
