"""Loops that only evaluate, so that no backward pass goes through what they compute."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain, takewhile

from perftui.script.effects import reached, words
from perftui.script.names import calls_of, later_reads, names_bound, qualified_name
from perftui.script.program import Function, Loop, PatchRefusedError, Program, called_name, root_of
from perftui.script.training import may_train, model_name, statement_at, step_loop, trains

_DIFFERENTIATES = re.compile(
    r"^(backward|grad|vjp|jacobian)$|(^|_)(train|fit|backward|optimi[sz]e)"
)
_KEEPS = frozenset({"append", "extend", "add", "update", "insert", "put", "setdefault", "add_"})
WITHOUT_GRADIENTS = frozenset(
    {
        *("item", "tolist", "detach", "detach_", "numpy", "no_grad", "zeros", "zeros_like"),
        *("argmax", "eq", "ne", "ge", "gt", "le", "lt", "round", "accuracy", "bincount"),
        *("float", "int", "bool", "str", "len", "print", "format"),
    }
)
"""Calls whose results have no gradients, whatever they are given."""
_DEEPEST = 2
_HANDING_ON = (ast.For, ast.AsyncFor, ast.With, ast.AsyncWith)
_TURNS = 200
"""Most statements looked at; a longer way is taken to end in a backward pass."""


def refuse_differentiated(program: Program, statement: ast.stmt, depth: int = _DEEPEST) -> None:
    """Refuse if a backward pass of the file may go through values that ``statement`` sets."""
    todo: list[tuple[ast.stmt, str]] = [(statement, name) for name in _targets(program, statement)]
    seen = set(todo)
    while todo:
        source, name = todo.pop()
        for use in _reads(program, source, name):
            around = program.statement(use)
            if _is_differentiated(program, use) or len(seen) > _TURNS:
                raise PatchRefusedError(
                    f"line {use.lineno} may run backward through {name}, which the loop sets"
                )
            if _is_plain(program, use):
                continue
            if isinstance(around, ast.Return):
                _refuse_returned(program, around, depth)
            # Only loops and ``with`` hand a value on, no other block.
            is_block = hasattr(around, "body") and not isinstance(around, _HANDING_ON)
            for other in _targets(program, around) if not is_block else ():
                if (around, other) not in seen:
                    seen.add((around, other))
                    todo.append((around, other))


def _targets(program: Program, statement: ast.stmt) -> Iterator[str]:
    """Names that ``statement`` sets, or whose objects it adds something to."""
    yield from names_bound(program, statement)
    for node in ast.walk(statement):
        if isinstance(node, ast.Call) and called_name(node) in _KEEPS:
            node = node.func
        elif not isinstance(getattr(node, "ctx", None), ast.Store) or isinstance(node, ast.Name):
            continue
        root = root_of(node)
        if isinstance(root, ast.Name) and root.id != "self":
            yield root.id
        elif isinstance(node, ast.Attribute):
            yield f".{node.attr}"


def _reads(program: Program, source: ast.stmt, name: str) -> Iterator[ast.expr]:
    """Reads of ``name`` outside of ``source``; for ``.name``, of any attribute called so."""
    inside = set(ast.walk(source))
    if name.startswith("."):
        reads = program.attributes(name[1:], ast.Load)
        yield from (node for node in reads if node not in inside)
    elif name in names_bound(program, source):
        yield from later_reads(program, source, name)
    else:
        # A collection that was added to may be read by its name anywhere.
        yield from (use for use in program.loads(name) if use not in inside)


def _is_differentiated(program: Program, use: ast.expr) -> bool:
    """Whether ``backward`` is called on ``use``, or ``use`` is passed to a function that trains."""
    for above in program.ancestors(use):
        if isinstance(above, ast.stmt):
            return False
        if isinstance(above, ast.Call):
            name = called_name(above)
            functions = program.own_functions(above) if name != "step" else ()
            if _DIFFERENTIATES.search(name) or any(trains(program, func) for func in functions):
                return True
            if name in WITHOUT_GRADIENTS:
                return False
    return False


def _is_plain(program: Program, use: ast.expr) -> bool:
    """Whether the value read ends in a call without gradients, or in a comparison."""
    for above in program.ancestors(use):
        if isinstance(above, ast.stmt):
            # A condition hands nothing on, and neither does a call whose result is dropped.
            return isinstance(above, (ast.If, ast.While, ast.Assert))
        if isinstance(above, ast.Call) and called_name(above) in WITHOUT_GRADIENTS:
            return True
        if isinstance(above, (ast.Compare, ast.JoinedStr)):
            return True
    return False


def _refuse_returned(program: Program, statement: ast.Return, depth: int) -> None:
    """Refuse unless no caller in the file goes backward through the result."""
    function = program.function(statement)
    calls = calls_of(program, function) if function else None
    if function is None or function.name == "forward":
        raise PatchRefusedError(f"line {statement.lineno} returns what the loop computes")
    for call in calls if calls is not None else program.calls(function.name):
        around = program.statement(call)
        is_kept = not _is_plain(program, call) and not isinstance(around, ast.Expr)
        if _is_differentiated(program, call) or (is_kept and not depth):
            raise PatchRefusedError(f"line {call.lineno} may run backward through the result")
        if is_kept and isinstance(around, ast.Return):
            _refuse_returned(program, around, depth - 1)
        elif is_kept:
            refuse_differentiated(program, around, depth - 1)


_EVALUATES = frozenset(
    {
        *("eval", "evaluate", "evaluation", "val", "valid", "validate", "validation", "test"),
        *("testing", "accuracy", "predict", "prediction", "predictions", "infer", "inference"),
        *("metric", "metrics", "score", "scores"),
    }
)
_NO_GRAD = re.compile(r"no_grad|inference_mode|set_grad_enabled")
_NEEDS = re.compile(r"^(requires_grad_|enable_grad|grad|set_grad_enabled|jacobian|vjp|hessian)$")


def evaluation_loop(program: Program, line: int) -> Loop:
    """The outermost loop around ``line`` within its function that does not train; refused where
    there is none, nothing says that it evaluates, or gradients through what it computes may be
    needed."""
    loop = _untrained_loop(program, line)
    _refuse_unless_evaluating(program, loop)
    called = may_train(program, loop)
    if called:
        raise PatchRefusedError(f"the loop at line {loop.lineno} calls {called}")
    for inner, _ in reached(program, loop):
        if isinstance(inner, ast.Call) and _NEEDS.match(called_name(inner)):
            raise PatchRefusedError(f"line {inner.lineno} calls {called_name(inner)}()")
        if isinstance(inner, (ast.Yield, ast.YieldFrom)) and inner in set(ast.walk(loop)):
            raise PatchRefusedError(f"line {inner.lineno} passes on what the loop computes")
    above = takewhile(lambda node: not isinstance(node, Function), program.ancestors(loop))
    blocks = (*loop.body, *above, program.function(loop))
    if any(is_without_gradients(program, block) for block in blocks):
        raise PatchRefusedError(f"the loop at line {loop.lineno} already records no gradients")
    refuse_differentiated(program, loop)
    return loop


def makes_training_data(program: Program, line: int) -> bool:
    """Whether a backward pass of the file may go through what is made from the results of the loop
    around ``line``, or around a call of its function: it acts in an environment, or generates what
    is trained on."""
    calls = chain(*(program.callers.get(one, ()) for one in program.functions_at(line)))
    return any(_is_passed_on(program, at) for at in (line, *(call.lineno for call in calls)))


def _is_passed_on(program: Program, line: int) -> bool:
    loop = None
    with suppress(PatchRefusedError):
        loop = _untrained_loop(program, line)
        refuse_differentiated(program, loop)
        return False
    return loop is not None


def _untrained_loop(program: Program, line: int) -> Loop:
    """The outermost loop around ``line`` within its function that does not train; refused where
    there is none."""
    statement = statement_at(program, line)
    above = takewhile(
        lambda node: not isinstance(node, Function) and not trains(program, node),
        program.ancestors(statement),
    )
    loops = [node for node in (statement, *above) if isinstance(node, Loop)]
    if not loops or trains(program, loops[-1]):
        raise PatchRefusedError(f"line {line} is not in a loop that only evaluates")
    return loops[-1]


def _refuse_unless_evaluating(program: Program, loop: Loop) -> None:
    """Refuse unless the function is named for evaluation, or a model was switched to it before."""
    function = program.function(loop)
    if function is not None and _EVALUATES & words(function.name):
        return
    switches = [
        (call.lineno, called_name(call))
        for call in program.calls("eval", "train")
        if isinstance(call.func, ast.Attribute)
        and program.scope(call) is program.scope(loop)
        and call.lineno <= loop.lineno
    ]
    last = max(switches, default=(0, ""))
    if last[1] != "eval":
        raise PatchRefusedError(f"nothing shows that the loop at line {loop.lineno} evaluates")


def trained_once(program: Program) -> Iterator[str]:
    """The model, if each turn of the loop over steps calls it once, for all that the file shows:
    other passes evaluate, between epochs or every so many steps."""
    with suppress(PatchRefusedError):
        loop = step_loop(program)
        name, direct = model_name(program, loop), set(ast.walk(loop))
        for part in ast.walk(loop):
            if isinstance(part, ast.If) and any(
                isinstance(n, ast.Mod) for n in ast.walk(part.test)
            ):
                direct -= set(ast.walk(part))
        calls = (node for node in direct if isinstance(node, ast.Call))
        called = (function for call in calls for function in program.own_functions(call))
        inner = (node for function in called for node, _ in reached(program, function))
        uses = [n for n in (*direct, *inner) if isinstance(n, ast.Name) and n.id == name]
        uses = [use for use in uses if not isinstance(program.parents[use], ast.Attribute)]
        if len(uses) == 1 and next(program.loops(uses[0]), None) is loop:
            yield name


def is_without_gradients(program: Program, node: ast.AST | None) -> bool:
    """Whether ``node`` is a function or a ``with`` block in which gradients may be off."""
    if isinstance(node, Function):
        return any(_NO_GRAD.search(ast.unparse(part)) for part in node.decorator_list)
    items = node.items if isinstance(node, (ast.With, ast.AsyncWith)) else ()
    called = (item.context_expr.func for item in items if isinstance(item.context_expr, ast.Call))
    names = (qualified_name(program, func) or ast.unparse(func) for func in called)
    return any(_NO_GRAD.search(name) for name in names)
