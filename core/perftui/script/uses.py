"""What reads a value, which calls give a parameter one, and by which name a function knows it."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from perftui.script.program import Function, PatchRefusedError, Program, called_name

_READ = frozenset(
    {
        *("print", "pprint", "str", "repr", "format", "len", "sorted", "list", "tuple", "set"),
        *("dict", "type", "hasattr", "getattr", "isinstance", "items", "keys", "values", "get"),
        *("copy", "deepcopy", "update", "dump", "dumps", "safe_dump", "save", "write"),
        *("writelines", "debug", "info", "warning", "warn", "error", "critical", "log"),
        *("log_dict", "add_text"),
        *("log_params", "log_hyperparams", "add_hparams", "save_hyperparameters", "join"),
        *("max", "min", "any", "all", "zip", "enumerate", "iter", "filter"),
    }
)
"""Functions and methods that change nothing in what they are given."""

_SHOWS = frozenset({"print", "pprint", "str", "repr", "format", "debug", "info", "warning", "log"})
_READ_BY_MODULES = frozenset({"wandb", "mlflow", "json", "yaml", "pprint", "logging"})
_VIEWS = frozenset({"items", "keys", "values", "get", "copy"})


def is_only_read(program: Program, value: ast.expr, depth: int = 2) -> bool:
    """Whether the dict ``value``, such as ``vars(args)``, is looked at where it stands, and neither
    changed nor given to what may change it."""
    above = program.parents[value]
    if isinstance(above, ast.keyword):
        if above.arg is None:
            return True  # ** copies
        above = program.parents[above]
    if isinstance(above, ast.Call):
        return _reads(above)
    if isinstance(above, ast.Attribute):
        return above.attr in _VIEWS and isinstance(program.parents[above], ast.Call)
    if isinstance(above, ast.Subscript):
        return isinstance(above.ctx, ast.Load)
    if isinstance(above, ast.Assign) and depth:
        target = above.targets[0]
        if len(above.targets) != 1 or not isinstance(target, ast.Name):
            return False
        is_its_only = len(program.bindings(target.id)) == 1
        loads = program.loads(target.id)
        return is_its_only and all(is_only_read(program, load, depth - 1) for load in loads)
    if isinstance(above, (ast.Dict, ast.Tuple, ast.List)):
        return is_only_read(program, above, depth)
    return isinstance(
        above, (ast.FormattedValue, ast.Compare, ast.For, ast.comprehension, ast.BinOp, ast.Expr)
    )


def is_shown(program: Program, value: ast.expr) -> bool:
    """Whether ``value`` is only printed, logged or formatted where it stands."""
    above = program.parents[value]
    if isinstance(above, ast.keyword):
        above = program.parents[above]
    if isinstance(above, (ast.FormattedValue, ast.JoinedStr)):
        return True
    return isinstance(above, ast.Call) and value is not above.func and called_name(above) in _SHOWS


def _reads(call: ast.Call) -> bool:
    root: ast.expr = call.func
    while isinstance(root, ast.Attribute):
        root = root.value
    return called_name(call) in _READ or (
        isinstance(root, ast.Name) and root.id in _READ_BY_MODULES
    )


_HARMLESS = frozenset(
    {"staticmethod", "no_grad", "inference_mode", "enable_grad", "record", "wraps"}
)
"""Decorators that hand a call on as it is."""


def function_of(program: Program, parameter: ast.arg) -> Function | None:
    """The function that has ``parameter``; None of a lambda."""
    arguments = program.parents[parameter]
    function = program.parents[arguments]
    return function if isinstance(function, Function) else None


def calls_of(program: Program, function: Function) -> list[ast.Call] | None:
    """All calls of ``function`` in the file; None where others may call it as well: it is handed
    on, decorated, or has a name that others have."""
    named = [one for one in program.statements() if getattr(one, "name", None) == function.name]
    if any(_decorator(one) not in _HARMLESS for one in function.decorator_list):
        return None
    above = program.parents[function]
    if function.name == "__init__" and isinstance(above, ast.ClassDef):
        return _by_name(program, above.name) if program.bindings(above.name) == [above] else None
    if len(named) != 1:
        return None
    if isinstance(above, ast.ClassDef):
        return _called(program, program.attributes(function.name, ast.Load))
    return _by_name(program, function.name) if program.bindings(function.name) == named else None


def given_for(
    program: Program, call: ast.Call, function: Function, parameter: str
) -> ast.expr | None:
    """What ``call`` of ``function`` gives for ``parameter``: its default where it gives none.

    None where that is not certain: something is unpacked, or there is no default.
    """
    unpacks = any(isinstance(one, ast.Starred) for one in call.args)
    if unpacks or any(keyword.arg is None for keyword in call.keywords):
        return None
    for keyword in call.keywords:
        if keyword.arg == parameter:
            return keyword.value
    positional = [one.arg for one in (*function.args.posonlyargs, *function.args.args)]
    if parameter in positional:
        is_bound = isinstance(program.parents[function], ast.ClassDef) and not any(
            _decorator(one) == "staticmethod" for one in function.decorator_list
        )
        at = positional.index(parameter) - is_bound
        if 0 <= at < len(call.args):
            return call.args[at]
    return default_of(function, parameter)


def values_given(program: Program, parameter: ast.arg) -> list[ast.expr | None]:
    """What each call of the file gives for ``parameter``, None where that is not certain."""
    function = function_of(program, parameter)
    if function is None:
        return []
    calls = [one for one in program.calls() if function in program.own_functions(one)]
    return [given_for(program, one, function, parameter.arg) for one in calls]


def default_of(function: Function, parameter: str) -> ast.expr | None:
    """What ``parameter`` is where a call gives nothing; None where that is an error."""
    arguments = function.args
    positional = [one.arg for one in (*arguments.posonlyargs, *arguments.args)]
    found = dict(zip(reversed(positional), reversed(arguments.defaults), strict=False))
    by_name = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    return {**found, **{one.arg: value for one, value in by_name if value}}.get(parameter)


def is_default(function: Function, value: ast.expr) -> bool:
    """Whether ``value`` is written as a default of ``function``."""
    return value in (*function.args.defaults, *function.args.kw_defaults)


def _by_name(program: Program, name: str) -> list[ast.Call] | None:
    return _called(program, program.loads(name))


def _called(program: Program, uses: Sequence[ast.expr]) -> list[ast.Call] | None:
    """The calls of all ``uses``; None where one of them is no call."""
    calls = [program.parents[use] for use in uses]
    found = [one for one, use in zip(calls, uses, strict=True) if _is_call_of(one, use)]
    return found if len(found) == len(uses) else None  # type: ignore[return-value]


def _is_call_of(node: ast.AST, use: ast.expr) -> bool:
    return isinstance(node, ast.Call) and node.func is use


def _decorator(node: ast.expr) -> str:
    if isinstance(node, ast.Call):
        return called_name(node)
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def known_as(program: Program, made: ast.Name, scope: ast.AST) -> str:
    """The name in ``scope`` of the object that ``made`` is given: its own, or a parameter for
    which every call gives it.

    Raises:
        PatchRefusedError: it is not certain, or the name is given another value later.
    """
    home = program.scope(made)
    for other in program.bindings(made.id):
        if program.scope(other) is home and _line(other) > made.lineno:
            raise PatchRefusedError(f"line {_line(other)} gives {made.id} another value")
    bound = [one for one in program.bindings(made.id) if scope in program.ancestors(one)]
    if home is scope or (isinstance(home, ast.Module) and not bound):
        return made.id
    if not isinstance(scope, Function):
        raise PatchRefusedError(f"what line {made.lineno} makes has no certain name there")
    return _given(program, scope, made)


def _given(program: Program, function: Function, made: ast.Name) -> str:
    uses, calls = program.loads(function.name), program.calls(function.name)
    if not calls or len(uses) != len(calls) or len(program.functions[function.name]) > 1:
        raise PatchRefusedError(f"it is not certain what {function.name}() is given")
    given = {_parameter(program, function, call, made) for call in calls}
    name = given.pop() if len(given) == 1 else None
    if name is None:
        raise PatchRefusedError(f"{function.name}() may not be given {made.id}")
    within = [one for one in program.bindings(name) if function in program.ancestors(one)]
    if len(within) > 1:
        raise PatchRefusedError(f"line {_line(within[-1])} gives {name} another value")
    return name


def _parameter(program: Program, function: Function, call: ast.Call, made: ast.Name) -> str | None:
    """The parameter for which ``call`` gives the name ``made``; None where it is not certain."""
    if program.scope(call) is not program.scope(made) or call.lineno < made.lineno:
        return None
    for parameter, value in zip(function.args.args, call.args, strict=False):
        if isinstance(value, ast.Starred):
            return None
        if isinstance(value, ast.Name) and value.id == made.id:
            return parameter.arg
    named = (one for one in call.keywords if isinstance(one.value, ast.Name))
    return next((one.arg for one in named if ast.unparse(one.value) == made.id), None)


def _line(node: ast.AST) -> int:
    return getattr(node, "lineno", 0)
