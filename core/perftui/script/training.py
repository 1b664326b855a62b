"""What of a file trains: its calls, its loops over steps, and its models."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from perftui.script.names import name_in_scope, qualified_name
from perftui.script.program import (
    Function,
    Loop,
    PatchRefusedError,
    Program,
    assigned_value,
    called_name,
    called_names,
    receiver,
    value_given,
    variables,
)

TRAINS = frozenset({"backward", "step", "zero_grad"})
"""Methods that a training step calls."""

_WORDS = re.compile(
    r"(^|_)(train|fit|learn|optimi[sz]e|backprop|backward|update|attack|adapt|meta|inner)(_|$)"
    r"|^(train|fit|update)|fine_?tun"
)
"""Names of functions of other files that may train."""
_EPOCH = re.compile(r"(train|fit)_(one_)?epoch$|train_(model|loop|step|batch)$")
_METER = re.compile(
    r"meter|loss|acc|top\d|prec|recall|metric|stat|avg|mean|logger|bar|score|mse|time|eval|result"
    r"|total|err|iou|auc|f1|confusion|hist|count|psnr|ssim",
    re.I,
)
"""Names of objects that gather figures."""
_UPDATES = re.compile(r"step$|.*optimi[sz]e|add_$|sub_$|copy_$|update")


@lru_cache(256)
def trains(program: Program, node: ast.AST) -> bool:
    """Whether a training step is in ``node``, in what it calls of this file, or in a function of
    another file that is named for it."""
    called = _names(program, node, into_loops=True)
    return _is_step(called) or any(
        name not in program.functions and _EPOCH.match(name) for name in called
    )


def trains_each_turn(program: Program, loop: ast.AST) -> bool:
    """Whether each turn of ``loop`` is a training step, and not several in a loop of its own."""
    direct = _names(program, loop, into_loops=False)
    # A loop over epochs steps a schedule and clears gradients itself.
    goes_back = "backward" in _names(program, loop, into_loops=True)
    return "backward" in direct if goes_back else _is_step(direct)


def updates(program: Program, loop: ast.AST) -> bool:
    """Whether each turn of ``loop`` updates parameters: by an optimizer, or by hand."""
    return any(
        _UPDATES.match(called_name(call)) and not _is_meter(call)
        for call in calls_in(program, loop, into_loops=False)
    )


def may_train(program: Program, node: ast.AST) -> str:
    """The call in ``node`` that trains, or may do so in another file; empty without one."""
    if trains(program, node):
        return "a training step"
    for call in calls_in(program, node, into_loops=True):
        name = called_name(call)
        if name == "train":
            # `model.train()` and `model.train(False)` switch a mode; `train(model, x)` trains.
            count = len(call.args) + len(call.keywords)
            if count > 1 or (count and not isinstance(call.func, ast.Attribute)):
                return "train()"
        elif name not in program.functions and _WORDS.search(name) and not _is_meter(call):
            return f"{name}()"
    return ""


def _is_meter(call: ast.Call) -> bool:
    """Whether ``call`` is an ``update`` of something named for a mean, a score or a bar."""
    if not isinstance(call.func, ast.Attribute) or call.func.attr != "update":
        return False
    return _METER.search(ast.unparse(call.func.value).rpartition(".")[2]) is not None


def _is_step(called: set[str]) -> bool:
    return "backward" in called or {"step", "zero_grad"} <= called


def _names(program: Program, node: ast.AST, *, into_loops: bool) -> set[str]:
    return {called_name(call) for call in calls_in(program, node, into_loops=into_loops)}


def calls_in(
    program: Program, node: ast.AST, *, into_loops: bool, known: set[ast.AST] | None = None
) -> Iterator[ast.Call]:
    """All calls in ``node``, and within functions of the file that it calls."""
    known = {node} if known is None else known
    for below in _below(node, into_loops):
        if isinstance(below, ast.Call):
            yield below
            # Each optimizer has a `step`.
            functions = program.own_functions(below) if called_name(below) != "step" else ()
            for function in functions:
                if function not in known:
                    known.add(function)
                    yield from calls_in(program, function, into_loops=into_loops, known=known)


def _below(node: ast.AST, into_loops: bool) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        yield child
        if into_loops or not isinstance(child, Loop):
            yield from _below(child, into_loops)


_FUNCTIONS_BETWEEN = 5
"""Functions between the loop and the backward pass."""


def training_loop(program: Program) -> Loop:
    """The outermost loop that every backward pass of the file is in, through calls of its own
    functions; not beyond a function that makes an optimizer, where all is still to be set up;
    refused where there is none, or more than one."""
    passes = program.calls("backward")
    if not passes:
        raise PatchRefusedError("no line of the file runs backward")
    loops = {_outermost(program, call) for call in passes}
    if len(loops) > 1:
        raise PatchRefusedError(f"{len(loops)} loops of the file train")
    return loops.pop()


def _outermost(program: Program, call: ast.Call) -> Loop:
    loop: Loop | None = None
    node: ast.AST | None = call
    for _ in range(_FUNCTIONS_BETWEEN):
        function = None
        for above in program.ancestors(node) if node is not None else ():
            if isinstance(above, Loop):
                loop = above
            elif isinstance(above, Function):
                function = above
                break
        if function is None or _sets_up(function):
            break
        # The only place of the file that names the function.
        uses: list[ast.Name] | list[ast.Attribute] = program.loads(function.name)
        if isinstance(program.parents[function], ast.ClassDef):
            uses = program.attributes(function.name, ast.Load, ast.Store, ast.Del)
        node = uses[0] if len(uses) == len(program.functions[function.name]) == 1 else None
    if loop is None:
        raise PatchRefusedError(f"line {call.lineno} runs backward outside of the file's loops")
    return loop


def _sets_up(function: ast.AST) -> bool:
    """Whether an optimizer is made in ``function``."""
    calls = (node for node in ast.walk(function) if isinstance(node, ast.Call))
    return any(
        isinstance(arg, ast.Call) and called_name(arg) == "parameters"
        for call in calls
        for arg in call.args
    )


_FUNCTIONS_BEFORE_LINE = 4
"""Functions between the loop and the line."""


@dataclass(frozen=True)
class StepStatement:
    """A statement of the loop over steps that leads to a line."""

    loop: Loop
    statement: ast.stmt
    """Stands in the body of ``loop``."""
    path: tuple[ast.stmt, ...]
    """Statements that hold the line, or a call that leads there, from the line outwards to
    ``statement``."""
    of_many: bool = False
    """Each turn of the loop holds many steps, as one over epochs does."""


def step_statement(program: Program, line: int) -> StepStatement:
    """The statement of the loop over steps that holds ``line``, or the call that leads there;
    refused where no such loop is in the file, or more than one call leads there."""
    node = statement_at(program, line)
    path: list[ast.stmt] = []
    for _ in range(_FUNCTIONS_BEFORE_LINE):
        result = _in_loop(program, node, path)
        if result is not None:
            return result
        # The statement with the only call of the function around the node.
        function = program.function(node)
        if function is None:
            raise PatchRefusedError(f"line {node.lineno} is not in a loop over training steps")
        name = function.name
        if trains(program, function):
            raise PatchRefusedError(f"{name}() trains")
        kind = ast.Attribute if isinstance(program.parents[function], ast.ClassDef) else ast.Name
        calls = [call for call in program.calls(name) if isinstance(call.func, kind)]
        if len(program.functions[name]) > 1 or len(calls) != 1:
            where = f"called at {len(calls)} places of" if calls else "not called by its name in"
            raise PatchRefusedError(f"{name}() is {where} the file")
        node = program.statement(calls[0])
    raise PatchRefusedError(f"line {line} is too far from the loop over steps")


def statement_at(program: Program, line: int) -> ast.stmt:
    """The innermost statement that holds ``line``; refused where there is none."""
    around = [n for n in program.statements() if n.lineno <= line <= (n.end_lineno or n.lineno)]
    if not around:
        raise PatchRefusedError(f"there is no statement at line {line}")
    return max(around, key=lambda node: (node.lineno, -(node.end_lineno or 0), node.col_offset))


def _in_loop(program: Program, node: ast.stmt, path: list[ast.stmt]) -> StepStatement | None:
    """The statement around ``node`` in the innermost loop that trains, within its function; what
    stands around ``node`` up to there is added to ``path``."""
    child: ast.AST = node
    for above in program.ancestors(node):
        if isinstance(child, ast.stmt):
            path.append(child)
        if isinstance(above, Function):
            return None
        if isinstance(above, Loop) and child in above.body and trains(program, above):
            return _step_of(program, node, above, path)
        child = above
    return None


def _step_of(program: Program, node: ast.stmt, loop: Loop, path: list[ast.stmt]) -> StepStatement:
    if trains(program, path[0]):
        raise PatchRefusedError(f"line {node.lineno} is part of the training step")
    of_many = not trains_each_turn(program, loop)
    if not of_many and not updates(program, loop):
        raise PatchRefusedError(f"a step is several iterations of the loop at line {loop.lineno}")
    return StepStatement(loop, path[-1], tuple(path), of_many)


def step_loop(program: Program) -> Loop:
    """The loop of which each turn is a training step; refused where there is none, or more than
    one."""
    loops = (node for node in program.statements() if isinstance(node, Loop))
    training = [loop for loop in loops if trains_each_turn(program, loop)]
    if len(training) != 1:
        raise PatchRefusedError(f"{len(training)} loops of the file train")
    return training[0]


def trained_models(program: Program) -> Iterator[tuple[int, str]]:
    """Variables and attributes whose parameters are asked for, each with the first line that gives
    it what a call returns, not computed from itself."""
    for name in _trained_variables(program, "parameters", "named_parameters"):
        last = name.rpartition(".")[2]
        lines = []
        for store in (*program.bindings(last), *program.attributes(last, ast.Store)):
            value = value_given(program, store) if ast.unparse(store) == name else None
            if value is not None and called_names(value) and name not in variables(value):
                lines.append(program.statement(store).lineno)
        if lines:
            yield min(lines), name


def _trained_variables(program: Program, *methods: str) -> set[str]:
    """Variables and attributes whose parameters the file asks for by ``methods``."""
    owners = (receiver(call) for call in program.calls(*methods))
    return {ast.unparse(of) for of in owners if isinstance(of, (ast.Name, ast.Attribute))}


def model_name(program: Program, loop: Loop) -> str:
    """The name of the model that ``loop`` trains: called there, and its ``parameters()`` are asked
    for in the file; refused where there is none, or more than one."""
    called = {
        call.func.id
        for call in ast.walk(loop)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name)
    }
    models = sorted(called & _trained_variables(program, "parameters"))
    if len(models) != 1:
        which = ", ".join(models) or "none is known by name"
        raise PatchRefusedError(f"the loop has no single model: {which}")
    return models[0]


def refuse_mentioned(program: Program, why: str, *names: str) -> None:
    """Refuse unless none of ``names`` is read, set, called or given as a keyword: the line with the
    first ``why``."""
    for node in program.nodes:
        name = getattr(node, {ast.Attribute: "attr", ast.Name: "id"}.get(type(node), "arg"), None)
        if name in names and isinstance(node, (ast.Attribute, ast.Name, ast.keyword)):
            raise PatchRefusedError(f"line {node.lineno} {why}")


WRAPPER = "torch.nn.parallel.DistributedDataParallel"
WRAPPERS = (WRAPPER, "torch.nn.parallel.distributed.DistributedDataParallel")
"""Qualified names of the class, its public one first."""


def wrapper_call(program: Program) -> ast.Call:
    """The only call of DistributedDataParallel of the file; refused where there is none, or more
    than one."""
    calls = [call for call in program.calls() if qualified_name(program, call.func) in WRAPPERS]
    if len(calls) != 1:
        raise PatchRefusedError(f"the file has {len(calls)} calls of DistributedDataParallel")
    return calls[0]


def wrapped_model(program: Program, loop: Loop) -> str:
    """What the wrapped model is called in ``loop``: ``model``, or ``self.model``; refused where it
    is not certain that any name there is that object."""
    call = wrapper_call(program)
    above = program.parents[call]
    target = above.targets[0] if isinstance(above, ast.Assign) and len(above.targets) == 1 else None
    if isinstance(target, ast.Name):
        return name_in_scope(program, target, program.scope(loop))
    if not isinstance(target, ast.Attribute) or ast.unparse(target.value) != "self":
        raise PatchRefusedError(f"line {call.lineno} gives the wrapped model no name")
    stores = program.attributes(target.attr, ast.Store)
    if any(store.lineno > target.lineno for store in stores):
        raise PatchRefusedError(f"self.{target.attr} is set again after line {target.lineno}")
    if program.owner(target) is not program.owner(loop):
        raise PatchRefusedError(f"line {loop.lineno} is not in the class of self.{target.attr}")
    return f"self.{target.attr}"


ITSELF = frozenset({"to", "cuda", "cpu", "float", "half", "double", "bfloat16", "train", "eval"})
"""Methods of a module that return it."""

_TELLING = frozenset({"zero_grad", "state_dict", "load_state_dict", "train", "eval"})
"""Methods that modules have, and little else."""

_BARE = frozenset({"ReLU", "GELU", "SiLU", "Tanh", "Sigmoid", "Softmax", "Flatten", "Identity"})
"""Modules of torch without parameters."""


def untrained_modules(program: Program, loop: Loop, lines: tuple[int, ...]) -> list[str]:
    """Names by which ``loop`` calls a module at each of ``lines``, where the run saw one that is in
    no optimizer; refused where it is not certain which names those are."""
    for call in program.calls("add_param_group"):
        raise PatchRefusedError(f"line {call.lineno} adds parameters to an optimizer")
    asked = _trained_variables(program, "parameters", "named_parameters")
    trained = {name.partition(".")[0] for name in asked}
    for call in program.calls():
        given = call.args[:1] or [kw.value for kw in call.keywords if kw.arg == "params"]
        names = {name.partition(".")[0] for name in variables(*given)}
        others = names - trained - {"chain", "itertools", "list"}
        kind = qualified_name(program, call.func) or ""
        if others and kind.startswith("torch.optim.") and ".lr_scheduler." not in kind:
            raise PatchRefusedError(f"line {call.lineno} gives an optimizer {others.pop()}")
    called = dict.fromkeys(
        call.func.id
        for node in loop.body
        for call in ast.walk(node)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.lineno in lines
    )
    modules = [name for name in called if name not in trained and _is_module(program, name)]
    if not modules or len(modules) != len(lines):
        raise PatchRefusedError("it is not certain which modules of the loop are in no optimizer")
    return modules


def _is_module(program: Program, name: str) -> bool:
    """Whether ``name`` is certain to be a module with parameters, made in the file."""
    call = _creation(program, name)
    if call is None:
        return False
    if isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Call):
        return False
    kind = qualified_name(program, call.func) or ""
    plain = kind.rpartition(".")[2]
    if kind.startswith("torch.nn."):
        return plain[:1].isupper() and not plain.endswith("Loss") and plain not in _BARE
    classes = program.classes.get(called_name(call), ())
    if len(classes) == 1:
        return any(ast.unparse(base).endswith("Module") for base in classes[0].bases)
    uses = [program.parents[use] for use in program.loads(name)]
    return any(isinstance(use, ast.Attribute) and use.attr in _TELLING for use in uses)


def _creation(program: Program, name: str) -> ast.Call | None:
    """The call that makes ``name``, its only value apart from ``name.to(...)`` and the like."""
    values = [assigned_value(program, binding) for binding in program.bindings(name)]
    itself = {f"{name}.{method}" for method in ITSELF}
    calls = [v for v in values if not (isinstance(v, ast.Call) and ast.unparse(v.func) in itself)]
    call = calls[0] if len(calls) == 1 else None
    if not isinstance(call, ast.Call):
        return None
    while called_name(call) in ITSELF and isinstance(moved := receiver(call), ast.Call):
        call = moved
    return call
