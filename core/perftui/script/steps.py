"""What counts the steps of a loop: conditions that hold in some of them only, and micro-batches."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from perftui.script.effects import reached
from perftui.script.program import (
    Function,
    Loop,
    PatchRefusedError,
    Program,
    assigned_value,
    bound_name,
    called_name,
    free_name,
    receiver,
)
from perftui.script.training import StepStatement

_BARS = ("tqdm", "track", "trange", "progress_bar", "prange")


def step_counter(program: Program, place: StepStatement) -> str:
    """The name that counts the steps of the loop: by ``range`` or ``enumerate``, or one that each
    turn adds 1 to; refused where there is none, something else sets it, or turns may end before the
    statement, so that it sees only some of the numbers."""
    loop = place.loop
    name = next(iter(counters(program, loop)), "")
    if not name:
        raise PatchRefusedError(f"nothing counts the steps of the loop at line {loop.lineno}")
    within = set(ast.walk(loop))
    targets = set(ast.walk(loop.target)) if isinstance(loop, (ast.For, ast.AsyncFor)) else set()
    adding = [node.target for node in loop.body if _adds_one(node)]  # type: ignore[attr-defined]
    stored = program.attributes(name.rpartition(".")[2], ast.Store) if "." in name else []
    for node in (*program.bindings(name), *stored):
        if node in within and node not in targets and node not in adding:
            line = getattr(node, "lineno", loop.lineno)
            raise PatchRefusedError(f"line {line} sets {name}, which counts the steps")
    for before in loop.body[: loop.body.index(place.statement)]:
        for node in (node for node in ast.walk(before) if isinstance(node, ast.Continue)):
            if next(above for above in program.ancestors(node) if isinstance(above, Loop)) is loop:
                raise PatchRefusedError(f"line {before.lineno} may end a step before it")
    return name


def last_turn(place: StepStatement, counter: str) -> str:
    """The value of ``counter`` in the last turn of the loop, as an expression; refused where the
    loop does not say it."""
    over = place.loop.iter if isinstance(place.loop, (ast.For, ast.AsyncFor)) else None
    while isinstance(over, ast.Call) and called_name(over) == "tqdm" and over.args:
        over = over.args[0]
    is_range = isinstance(over, ast.Call) and called_name(over) in ("range", "trange")
    counted = ast.unparse(place.loop.target) if isinstance(place.loop, ast.For) else ""
    if not isinstance(over, ast.Call) or not is_range or counted != counter or not over.args:
        raise PatchRefusedError(
            f"the loop at line {place.loop.lineno} does not show which iteration is its last"
        )
    end = over.args[:2][-1]
    if isinstance(end, ast.Constant) and type(end.value) is int:
        return str(end.value - 1)
    if isinstance(end, ast.BinOp) and isinstance(end.op, ast.Add) and _is_one(end.right):
        end, less = end.left, ""
    else:
        less = " - 1"
    parts = [node for node in ast.walk(end) if isinstance(node, ast.expr)]
    if not all(isinstance(node, (ast.Name, ast.Attribute, ast.BinOp)) for node in parts):
        raise PatchRefusedError(f"the end of the loop at line {place.loop.lineno} is computed")
    text = ast.unparse(end)
    return f"({text}){less}" if isinstance(end, ast.BinOp) and less else f"{text}{less}"


def _is_one(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) is int and node.value == 1


def counters(program: Program, loop: Loop) -> Iterator[str]:
    """All names that go up by 1 in each turn of ``loop``."""
    if isinstance(loop, (ast.For, ast.AsyncFor)):
        counted = _counter(program, loop.target, loop.iter)
        if counted.strip("_"):
            yield counted
    for node in loop.body:
        if _adds_one(node):
            yield ast.unparse(node.target)  # type: ignore[attr-defined]


def _adds_one(node: ast.stmt) -> bool:
    return (
        isinstance(node, ast.AugAssign)
        and isinstance(node.op, ast.Add)
        and isinstance(node.target, (ast.Name, ast.Attribute))
        and _is_one(node.value)
    )


def _counter(program: Program, target: ast.expr, over: ast.expr) -> str:
    """The name in ``target`` that counts what ``over`` gives, through ``tqdm(...)`` and a variable
    that is set once; else empty."""
    bindings = program.bindings(over.id) if isinstance(over, ast.Name) else []
    if len(bindings) == 1:
        # Set by an assignment, or by ``with ... as``.
        above = program.parents[bindings[0]]
        opened = above.context_expr if isinstance(above, ast.withitem) else None
        over = opened or assigned_value(program, bindings[0]) or over
    while isinstance(over, ast.Call) and called_name(over) in _BARS and over.args:
        if called_name(over) == "trange":
            break
        over = over.args[0]
    called = called_name(over) if isinstance(over, ast.Call) else ""
    arguments = over.args if isinstance(over, ast.Call) else []
    # A third argument of range, or a second one of count, is a step that may not be 1.
    most = {"range": 2, "trange": 2, "count": 1}.get(called, 0)
    if isinstance(target, ast.Name) and len(arguments) <= most and called:
        return target.id
    if called in ("enumerate", "zip") and isinstance(target, ast.Tuple) and target.elts:
        first = target.elts[0]
        if called == "zip":
            return _counter(program, first, arguments[0]) if arguments else ""
        return first.id if isinstance(first, ast.Name) else ""
    return ""


_COUNTS = re.compile(r"(step|iter|batch|count|idx|index|update|episode)|^(i|j|n|it|k|t)$")
_RANK = re.compile(
    r"rank|main|master|primary|chief|leader|is_initialized|is_available|verbose|isinstance|len|hasattr"
)
"""Calls in conditions that hold for all steps or for none."""


@dataclass(frozen=True)
class Every:
    """A condition that holds every so many steps, on the way to a line."""

    around: ast.If
    rest: ast.BinOp
    """``step % 20``."""
    inside: ast.stmt
    """The statement of ``around`` on that way."""


def every(program: Program, place: StepStatement) -> Every | None:
    """``if step % 20 == 0:`` on the way to the line, from the line outwards; None where nothing on
    that way depends on the step; refused where something on it does, and not certainly by counting
    steps."""
    for node, inner in zip(place.path, (place.path[0], *place.path), strict=False):
        if not isinstance(node, ast.If):
            continue
        counted = _rests(node.test)
        if len(counted) == 1 and not node.orelse and (inner in node.body or inner is node):
            _refuse_other_count(program, place, counted[0])
            return Every(node, counted[0], inner)
        is_else = inner in node.orelse and isinstance(node.test, ast.Compare)
        if counted or _varies(program, place, node) or (is_else and not _asks_none(node.test)):
            raise PatchRefusedError(
                f"line {node.lineno} decides in which steps, and it is not certain how"
            )
    return None


def refuse_own_count(program: Program, statement: ast.stmt) -> None:
    """Refuse unless neither ``statement`` nor what it calls does something at some steps only: a
    condition around it might never hold together with that."""
    for node, _ in reached(program, statement):
        if isinstance(node, (ast.If, ast.IfExp)) and any(
            isinstance(below, ast.BinOp) and isinstance(below.op, ast.Mod) and _is_number(below)
            for below in ast.walk(node.test)
        ):
            raise PatchRefusedError(f"line {node.lineno} counts steps by itself")


def _is_number(rest: ast.BinOp) -> bool:
    """``"%d" % x`` is no rest of a division."""
    return not (isinstance(rest.left, ast.Constant) and isinstance(rest.left.value, str))


def _rests(test: ast.expr) -> list[ast.BinOp]:
    """``step % 20`` of ``step % 20 == 0``, ``not step % 20``, and of operands of ``and`` and
    ``or``; twice for any other use of ``%``, so that it does not count as one."""
    parts = test.values if isinstance(test, ast.BoolOp) else [test]
    result: list[ast.BinOp] = []
    for part in parts:
        rests = [
            node
            for node in ast.walk(part)
            if isinstance(node, ast.BinOp)
            and isinstance(node.op, ast.Mod)
            and _is_number(node)
            and "rank" not in ast.unparse(node.left).lower()
        ]
        plain = part
        if isinstance(part, ast.Compare) and len(part.ops) == 1 and isinstance(part.ops[0], ast.Eq):
            plain = part.left
        elif isinstance(part, ast.UnaryOp) and isinstance(part.op, ast.Not):
            plain = part.operand
        result += rests if rests in ([], [plain]) else [*rests, *rests]
    return result


def _refuse_other_count(program: Program, place: StepStatement, rest: ast.BinOp) -> None:
    """Refuse unless the left of ``rest`` counts steps of the loop, not of one around it."""
    names = [node for node in ast.walk(rest.left) if isinstance(node, (ast.Name, ast.Attribute))]
    counting = set(counters(program, place.loop))
    bound = {bound_name(node) for node in ast.walk(place.loop)}
    for node in names:
        name = node.id if isinstance(node, ast.Name) else node.attr
        around = program.function(rest)
        is_here = around is None or place.loop in program.ancestors(rest)
        counts = name in counting or (name in bound if is_here else True)
        if counts or (isinstance(node, ast.Attribute) and _COUNTS.search(name)):
            return
    raise PatchRefusedError(f"line {rest.lineno} may not count the steps of the loop")


def _asks_none(node: ast.AST) -> bool:
    """``x is None`` or ``x is not None``, which mostly holds for all steps or for none."""
    return (
        isinstance(node, ast.Compare)
        and isinstance(node.ops[0], (ast.Is, ast.IsNot))
        and isinstance(node.comparators[0], ast.Constant)
    )


def _varies(program: Program, place: StepStatement, node: ast.If) -> bool:
    """Whether the condition of ``node`` may hold in some steps only."""
    scope = program.scope(node)
    around = place.loop if scope is program.scope(place.loop) else scope
    bound = {bound_name(part) for part in ast.walk(around)} - {"self"}
    asked = [part for part in ast.walk(node.test) if _asks_none(part)]
    steady = {below for part in asked for below in ast.walk(part)}
    for below in ast.walk(node.test):
        if below in steady and not isinstance(below, ast.Call):
            continue
        if isinstance(below, ast.Name) and below.id in bound:
            return True
        if isinstance(below, ast.Call) and not _RANK.search(ast.unparse(below.func)):
            return True
        # The loop may set it, directly or in a call.
        name = below.attr if isinstance(below, ast.Attribute) else ""
        stores = set(program.attributes(name, ast.Store))
        if stores and any(part in stores for part, _ in reached(program, place.loop)):
            return True
    return False


_NOT_OPTIMIZERS = re.compile(r"sched|prof|progress|bar|env|lr|warmup|wandb|meter", re.IGNORECASE)
"""Names of what has a ``step()`` and is no optimizer."""
_OF_GRADIENTS = re.compile(r"clip_grad|unscale_|grad_norm")


@dataclass(frozen=True)
class MicroBatches:
    """The turns of a loop that each go backward, of which some end with the optimizer's step."""

    loop: Loop
    last: str
    """A condition that holds only in turns that end with the step."""
    decided: int
    """Number of statements of a turn before ``last`` is tested; later ones do not matter."""
    of_range: bool = False
    """Whether ``last`` compares with a value from before the first turn."""
    unnamed: ast.Name | None = None
    """The ``_`` that counts the turns, to be called what ``last`` calls it."""


def loop_of(program: Program, backward: ast.Call) -> tuple[Loop, int]:
    """The loop of which each turn runs ``backward``, and the number of the statement that does;
    refused where there is none, or some turns may leave it out."""
    child: ast.AST = backward
    for above in program.ancestors(backward):
        if isinstance(above, Loop) and isinstance(child, ast.stmt) and child in above.body:
            return above, above.body.index(child)
        if isinstance(above, Function) or not isinstance(above, (ast.Expr, ast.With)):
            break
        child = above
    raise PatchRefusedError(f"line {backward.lineno} does not run in each iteration of a loop")


def micro_batches(program: Program, loop: Loop, backward: int) -> MicroBatches:
    """When the optimizer's step follows the turn of ``loop`` whose statement number ``backward``
    goes backward; refused where it is not certain, or each turn steps."""
    steps = [
        call
        for call in program.calls("step")
        if (of := receiver(call)) is not None and not _NOT_OPTIMIZERS.search(ast.unparse(of))
    ]
    if not steps:
        raise PatchRefusedError("no line of the file certainly steps an optimizer")
    within = set(ast.walk(loop))
    if within.isdisjoint(steps):
        return _nested(program, loop, steps)
    for at in range(backward + 1, len(loop.body)):
        branch = loop.body[at]
        inside = {node for below in getattr(branch, "body", ()) for node in ast.walk(below)}
        if isinstance(branch, ast.If) and inside.issuperset(steps):
            # A condition that only counts may be tested earlier.
            for node in ast.walk(branch.test):
                is_length = isinstance(node, ast.Call) and called_name(node) == "len"
                if isinstance(node, (ast.Call, ast.NamedExpr, ast.Await)) and not is_length:
                    text = ast.unparse(node)
                    raise PatchRefusedError(f"line {node.lineno} tests more than a count: {text}")
            if not any(isinstance(node, ast.Mod) for node in ast.walk(branch.test)):
                raise PatchRefusedError(f"line {branch.test.lineno} does not count micro-batches")
            _refuse_readers(loop, loop.body[:at])
            return MicroBatches(loop, ast.unparse(branch.test), at)
    raise PatchRefusedError("the optimizer also steps outside of one condition of the loop")


def refuse_late(program: Program, turns: MicroBatches, first: int) -> None:
    """Refuse unless the condition has the same value before statement number ``first`` of the turn
    as where it is asked."""
    parts = list(ast.walk(ast.parse(turns.last)))
    names = {node.id for node in parts if isinstance(node, ast.Name)}
    since = 0 if turns.of_range else first
    between = [n for part in turns.loop.body[since : turns.decided] for n in ast.walk(part)]
    for node in between:
        if bound_name(node) in names:
            line = getattr(node, "lineno", turns.loop.lineno)
            raise PatchRefusedError(f"line {line} sets {bound_name(node)} after the forward pass")
    for part in parts:
        if not isinstance(part, ast.Attribute):
            continue
        for store in program.attributes(part.attr, ast.Store):
            around = program.scope(store)
            is_early = isinstance(around, Function) and around.name == "__init__"
            if store in between or not (is_early or turns.loop in program.ancestors(store)):
                raise PatchRefusedError(f"line {store.lineno} may set {ast.unparse(store)} then")
    for node in program.nodes:
        if isinstance(node, (ast.Global, ast.Nonlocal)) and not names.isdisjoint(node.names):
            raise PatchRefusedError(f"line {node.lineno} lets a function set the counter")


def _nested(program: Program, loop: Loop, steps: Sequence[ast.Call]) -> MicroBatches:
    """A loop over the micro-batches of one step, which follows it in the same block."""
    block = program.block(loop)
    later = {node for part in block[block.index(loop) + 1 :] for node in ast.walk(part)}
    if not later.issuperset(steps):
        raise PatchRefusedError("the optimizer does not step right after the loop")
    if not isinstance(loop, ast.For) or loop.orelse:
        raise PatchRefusedError(f"the last iteration of the loop at line {loop.lineno} is unknown")
    for node in ast.walk(loop):
        if isinstance(node, (ast.Break, ast.Continue, ast.Return)):
            raise PatchRefusedError(f"line {node.lineno} may end the loop or an iteration early")
    _refuse_readers(loop, loop.body)
    place = StepStatement(loop, loop.body[-1], (loop.body[-1],))
    target, end = loop.target, len(loop.body)
    if not isinstance(target, ast.Name) or target.id.strip("_"):
        counter = step_counter(program, place)
        return MicroBatches(loop, f"{counter} == {last_turn(place, counter)}", end, True)
    last = last_turn(place, target.id)
    uses = [use for use in program.loads(target.id) if loop in program.ancestors(use)]
    if uses or (isinstance(loop.iter, ast.Call) and len(loop.iter.args) > 2):
        raise PatchRefusedError(f"the loop at line {loop.lineno} does more than count with _")
    fresh = ("micro", "micro_batch", "micro_step")
    name = free_name(program, "a counter of micro-batches", *fresh)
    return MicroBatches(loop, f"{name} == {last}", end, True, target)


def _refuse_readers(loop: Loop, statements: Iterable[ast.stmt]) -> None:
    """Refuse if a turn reads gradients outside of the condition: they would be this rank's
    alone."""
    for node in (below for part in statements for below in ast.walk(part)):
        reads = isinstance(node, ast.Attribute) and node.attr == "grad"
        if reads or (isinstance(node, ast.Call) and _OF_GRADIENTS.search(called_name(node))):
            line = getattr(node, "lineno", loop.lineno)
            raise PatchRefusedError(f"line {line} needs the gradients of each micro-batch")
