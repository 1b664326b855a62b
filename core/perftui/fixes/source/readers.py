"""Who else reads a value that the source gives in one place, and who only reads it."""

from __future__ import annotations

import ast

from perftui.fixes.source.program import Program, called_name

_READ = frozenset(
    {
        *("print", "pprint", "str", "repr", "format", "len", "sorted", "list", "tuple", "set"),
        *("dict", "type", "hasattr", "getattr", "isinstance", "items", "keys", "values", "get"),
        *(
            "copy",
            "deepcopy",
            "update",
            "dump",
            "dumps",
            "safe_dump",
            "save",
            "write",
            "writelines",
        ),
        *("debug", "info", "warning", "warn", "error", "critical", "log", "log_dict", "add_text"),
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


def attributes(program: Program, name: str, context: type[ast.expr_context]) -> list[ast.Attribute]:
    """Every attribute of that name in the file that is read (``ast.Load``), or set."""
    return [
        node
        for node in program.nodes
        if isinstance(node, ast.Attribute) and node.attr == name and isinstance(node.ctx, context)
    ]
