"""What names mean in a file: by its imports, by scopes, by what sets them anew, and by calls."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress

from perftui.script.program import (
    COMPREHENSIONS,
    FUNCTIONS,
    Function,
    Loop,
    PatchRefusedError,
    Program,
    bound_name,
    called_name,
    root_of,
)

_BINDING = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def qualified_name(program: Program, node: ast.expr) -> str | None:
    """What an expression names through the file's imports; None where that is not certain."""
    attributes: list[str] = []
    while isinstance(node, ast.Attribute):
        attributes.insert(0, node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    roots = {_imported(program, binding) for binding in program.bindings(node.id)}
    root = roots.pop() if len(roots) == 1 else None
    return ".".join([root, *attributes]) if root else None


def _imported(program: Program, binding: ast.AST) -> str | None:
    if not isinstance(binding, ast.alias):
        return None
    statement = program.parents[binding]
    if isinstance(statement, ast.ImportFrom):
        absolute = statement.module and not statement.level
        return f"{statement.module}.{binding.name}" if absolute else None
    # `import torch.utils.data` binds only `torch`; with `as` it binds the whole path.
    return binding.name if binding.asname else binding.name.split(".")[0]


def module_name(program: Program, module: str) -> str:
    """The name by which the file knows ``module``: ``th`` after ``import torch as th``; refused
    where no import certainly gives it one."""
    imports = (node for node in program.nodes if isinstance(node, ast.alias))
    for name in (alias.asname or alias.name.split(".")[0] for alias in imports):
        if qualified_name(program, ast.Name(name)) == module:
            return name
    raise PatchRefusedError(f"no import of the file certainly gives {module} a name")


def spelling(program: Program, name: str) -> str:
    """How the file can write the qualified ``name``: ``F.softmax`` after ``import
    torch.nn.functional as F``; refused where no import certainly leads there."""
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        with suppress(PatchRefusedError):
            return ".".join([module_name(program, ".".join(parts[:count])), *parts[count:]])
    raise PatchRefusedError(f"no import of the file certainly gives {name} a name")


def refuse_unbound(
    program: Program,
    place: ast.stmt,
    text: str,
    *,
    before: bool = False,
    known: Collection[str] = (),
) -> None:
    """Refuse unless all names that ``text`` reads have a value once ``place`` has run, or
    ``before`` it does; those in ``known`` have."""
    read = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name))
    names = {node.id for node in read if isinstance(node.ctx, ast.Load)}
    for name in sorted(names.difference(known)):
        if not _is_bound(program, place, name, before):
            raise PatchRefusedError(f"{name} may not be defined at line {place.lineno}")


def _is_bound(program: Program, place: ast.stmt, name: str, before: bool) -> bool:
    bindings = set(program.bindings(name))
    if not bindings:
        return hasattr(builtins, name)
    if any(isinstance(getattr(node, "ctx", None), ast.Del) for node in bindings):
        return False
    inner: ast.AST = place
    for above in program.ancestors(place):
        # A class has its name only after its body has run.
        has_run = not before if inner is place else not isinstance(inner, ast.ClassDef)
        ran = _until(above, inner, including=has_run)
        # Names of a class are not visible in its methods.
        of_class = isinstance(above, ast.ClassDef) and isinstance(inner, FUNCTIONS)
        if not of_class and any(bindings & set(certainly_binds(statement)) for statement in ran):
            return True
        turns = isinstance(above, (ast.For, ast.AsyncFor)) and inner in above.body
        if turns and bindings & set(ast.walk(above.target)):  # type: ignore[attr-defined] # a loop
            return True
        if isinstance(above, FUNCTIONS):
            if bindings & set(ast.walk(above.args)):
                return True
            if bindings & set(ast.walk(above)) - {above}:
                return False
        inner = above
    return False


def _until(above: ast.AST, inner: ast.AST, including: bool) -> list[ast.stmt]:
    """Statements of the block of ``above`` with ``inner``, up to ``inner``."""
    fields = (block for _, block in ast.iter_fields(above) if isinstance(block, list))
    block: list[ast.stmt] = next((block for block in fields if inner in block), [])
    return block[: block.index(inner) + including] if isinstance(inner, ast.stmt) and block else []


def certainly_binds(statement: ast.stmt) -> Iterator[ast.AST]:
    """Nodes by which ``statement`` certainly gives names a value when it runs."""
    if isinstance(statement, _BINDING):
        yield statement
        yield from getattr(statement, "names", ())
    elif isinstance(statement, ast.Assign):
        for target in statement.targets:
            yield from ast.walk(target)
    elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
        yield statement.target
    elif isinstance(statement, (ast.With, ast.AsyncWith)):
        for item in statement.items:
            yield from ast.walk(item.optional_vars) if item.optional_vars else ()
    elif isinstance(statement, ast.If):
        branches = [
            {bound_name(node): node for part in block for node in certainly_binds(part)}
            for block in (statement.body, statement.orelse)
        ]
        yield from (node for name, node in branches[0].items() if name in branches[1])


def bindings_of(program: Program, name: ast.Name) -> list[ast.AST]:
    """Nodes that give ``name`` a value, in the scope that it is read from."""
    if name.id in program.shared_names:
        return program.bindings(name.id)
    local = (program.bindings_by_scope.get((name.id, s)) for s in _scopes(program, name))
    return next(filter(None, local), [])


def readers_of(program: Program, name: ast.Name) -> list[ast.Name]:
    """All reads of the variable that ``name`` reads, itself among them."""
    bindings = bindings_of(program, name)
    return [load for load in program.loads(name.id) if bindings_of(program, load) == bindings]


def may_be_replaced(program: Program, binding: ast.AST) -> bool:
    """Whether a module-level ``binding`` may be overwritten in ways the syntax does not show."""
    if not isinstance(program.scope(binding), ast.Module):
        return False
    line = getattr(binding, "lineno", 0)
    later = (
        node.lineno > line
        for node in program.statements()
        if isinstance(node, ast.ImportFrom) and node.names[0].name == "*"
    )
    if any(later) or program.calls("exec", "globals"):
        return True
    # For a module, setattr is given `sys.modules[...]`, or a name that holds it.
    targets = [call.args[0] for call in program.calls("setattr") if call.args]
    return any(isinstance(target, (ast.Subscript, ast.Call)) for target in targets)


def _scopes(program: Program, name: ast.Name) -> list[ast.AST]:
    """Scopes whose names ``name`` sees, innermost first; of a class only from right within it."""
    inner = program.scope(name)
    scopes = [inner]
    while not isinstance(inner, ast.Module):
        inner = program.scope(inner)
        if not isinstance(inner, ast.ClassDef):
            scopes.append(inner)
    return scopes


def names_bound(program: Program, statement: ast.stmt) -> set[str]:
    """Names that ``statement`` gives a value in its own scope."""
    scope = program.scope(statement)
    return {
        node.id
        for node in ast.walk(statement)
        if isinstance(node, ast.Name)
        and not isinstance(node.ctx, ast.Load)
        and program.scope(node) is scope
        and not _is_of_comprehension(program, node)
    }


def later_reads(program: Program, statement: ast.stmt, name: str) -> Iterator[ast.Name]:
    """Reads, outside of ``statement``, of a value that it may have given ``name``."""
    inside = set(ast.walk(statement))
    # `total += x` reads what it adds to, which the syntax tree does not show as a read.
    added = (node.target for node in program.statements() if isinstance(node, ast.AugAssign))
    onto = (node for node in added if isinstance(node, ast.Name) and node.id == name)
    for use in (*program.loads(name), *onto):
        if use in inside or not inside.intersection(bindings_of(program, use)):
            continue
        if not _is_of_comprehension(program, use) and not _is_set_anew(program, statement, use):
            yield use


def _is_of_comprehension(program: Program, node: ast.Name) -> bool:
    """Whether a comprehension around ``node`` has that name for itself."""
    inner: ast.AST = node
    for above in program.ancestors(node):
        if isinstance(above, ast.stmt):
            return False
        if isinstance(above, COMPREHENSIONS):
            # What it goes through first is read outside of it.
            targets = (n for gen in above.generators for n in ast.walk(gen.target))
            is_outside = inner is above.generators[0] and node in ast.walk(inner.iter)
            if not is_outside and any(bound_name(n) == node.id for n in targets):
                return True
        inner = above
    return False


def _is_set_anew(program: Program, statement: ast.stmt, use: ast.Name) -> bool:
    """Whether on each way from ``statement`` to ``use`` the name gets another value."""
    if program.scope(use) is not program.scope(statement):
        return False
    loops = [node for node in program.ancestors(use) if isinstance(node, Loop)]
    around = set(program.ancestors(statement))
    shared = next((loop for loop in loops if loop in around), None)
    for setting in certainly_given(program, use):
        if _place(statement) < _place(setting):
            return True
        is_later = _place(statement) > _place(use)
        within = setting is shared or shared in set(program.ancestors(setting))
        if is_later and (shared is None or within):
            return True
    return False


def certainly_given(program: Program, use: ast.Name) -> Iterator[ast.stmt]:
    """Statements that certainly give the name a value before ``use`` runs, each time it does."""
    inner: ast.AST = use
    for above in program.ancestors(use):
        before = _until(above, inner, including=False)
        opened = [above] if isinstance(above, (ast.With, ast.AsyncWith)) else []
        # The nearest first: it most often decides.
        for statement in (*reversed(before), *opened):
            if use.id in map(bound_name, certainly_binds(statement)):
                yield statement
        if isinstance(above, (ast.For, ast.AsyncFor)) and inner in above.body:
            targets = (node for node in ast.walk(above.target) if isinstance(node, ast.Name))
            yield from (above for node in targets if node.id == use.id)
        if isinstance(above, FUNCTIONS):
            break
        inner = above


def _place(node: ast.stmt | ast.expr) -> tuple[int, int]:
    return node.lineno, node.col_offset


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
        root = root_of(above.func)
        by_module = isinstance(root, ast.Name) and root.id in _READ_BY_MODULES
        return by_module or called_name(above) in _READ
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


_HARMLESS = frozenset(
    {"staticmethod", "no_grad", "inference_mode", "enable_grad", "record", "wraps"}
)
"""Decorators that hand a call on as it is."""


def function_of(program: Program, parameter: ast.arg) -> Function | None:
    """The function that has ``parameter``; None of a lambda."""
    function = program.parents[program.parents[parameter]]
    return function if isinstance(function, Function) else None


def calls_of(program: Program, function: Function) -> list[ast.Call] | None:
    """All calls of ``function`` in the file; None where there may be others: it is passed on,
    decorated, or not the only one of its name."""
    same = [node for node in program.statements() if getattr(node, "name", None) == function.name]
    if any(_decorator(node) not in _HARMLESS for node in function.decorator_list):
        return None
    above = program.parents[function]
    if function.name == "__init__" and isinstance(above, ast.ClassDef):
        is_only = program.bindings(above.name) == [above]
        return as_calls(program, program.loads(above.name)) if is_only else None
    if len(same) != 1:
        return None
    if isinstance(above, ast.ClassDef):
        return as_calls(program, program.attributes(function.name, ast.Load))
    is_only = program.bindings(function.name) == same
    return as_calls(program, program.loads(function.name)) if is_only else None


def given_for(
    program: Program, call: ast.Call, function: Function, parameter: str
) -> ast.expr | None:
    """The argument that ``call`` of ``function`` passes for ``parameter``, else its default.

    None where that is not certain: something is unpacked, or there is no default.
    """
    unpacks = any(isinstance(node, ast.Starred) for node in call.args)
    if unpacks or any(keyword.arg is None for keyword in call.keywords):
        return None
    for keyword in call.keywords:
        if keyword.arg == parameter:
            return keyword.value
    positional = [node.arg for node in (*function.args.posonlyargs, *function.args.args)]
    if parameter in positional:
        is_bound = isinstance(program.parents[function], ast.ClassDef) and not any(
            _decorator(node) == "staticmethod" for node in function.decorator_list
        )
        at = positional.index(parameter) - is_bound
        if 0 <= at < len(call.args):
            return call.args[at]
    return default_of(function, parameter)


def values_given(program: Program, parameter: ast.arg) -> list[ast.expr | None]:
    """The argument for ``parameter`` in each call of the file, None where it is not certain."""
    function = function_of(program, parameter)
    if function is None:
        return []
    calls = program.callers.get(function, ())
    return [given_for(program, call, function, parameter.arg) for call in calls]


def default_of(function: Function, parameter: str) -> ast.expr | None:
    """The default of ``parameter``; None without one."""
    arguments = function.args
    positional = [node.arg for node in (*arguments.posonlyargs, *arguments.args)]
    defaults = dict(zip(reversed(positional), reversed(arguments.defaults), strict=False))
    by_name = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    return {**defaults, **{node.arg: value for node, value in by_name if value}}.get(parameter)


def as_calls(program: Program, uses: Sequence[ast.expr]) -> list[ast.Call] | None:
    """The calls of all ``uses``; None where one of them is no call."""
    above = [(program.parents[use], use) for use in uses]
    calls = [node for node, use in above if isinstance(node, ast.Call) and node.func is use]
    return calls if len(calls) == len(uses) else None


def _decorator(node: ast.expr) -> str:
    if isinstance(node, ast.Call):
        return called_name(node)
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def name_in_scope(program: Program, target: ast.Name, scope: ast.AST) -> str:
    """The name in ``scope`` of the object that ``target`` is assigned: that name, or the parameter
    for which every call passes it; refused where that is not certain, or the name is assigned
    again later."""
    home = program.scope(target)
    for other in program.bindings(target.id):
        if program.scope(other) is home and _line(other) > target.lineno:
            raise PatchRefusedError(f"line {_line(other)} gives {target.id} another value")
    bound = [node for node in program.bindings(target.id) if scope in program.ancestors(node)]
    if home is scope or (isinstance(home, ast.Module) and not bound):
        return target.id
    if not isinstance(scope, Function):
        raise PatchRefusedError(f"what line {target.lineno} makes has no certain name there")
    uses, calls = program.loads(scope.name), program.calls(scope.name)
    if not calls or len(uses) != len(calls) or len(program.functions[scope.name]) > 1:
        raise PatchRefusedError(f"it is not certain what {scope.name}() is given")
    home, arguments = program.scope(target), scope.args
    name = None
    if all(program.scope(call) is home and call.lineno >= target.lineno for call in calls):
        for node in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
            given = {getattr(value, "id", "") for value in values_given(program, node)}
            name = name or (node.arg if given == {target.id} else None)
    if name is None:
        raise PatchRefusedError(f"{scope.name}() may not be given {target.id}")
    within = [node for node in program.bindings(name) if scope in program.ancestors(node)]
    if len(within) > 1:
        raise PatchRefusedError(f"line {_line(within[-1])} gives {name} another value")
    return name


def _line(node: ast.AST) -> int:
    return getattr(node, "lineno", 0)
