"""Finds the one ``DataLoader`` call that the profiler saw feeding the training."""

from __future__ import annotations

import ast

from perftui.fixes.source.program import Program, called_name
from perftui.fixes.source.refused import PatchRefusedError

LOADERS = ("torch.utils.data.DataLoader", "torch.utils.data.dataloader.DataLoader")

_LOOPS = (
    ast.For,
    ast.AsyncFor,
    ast.While,
    ast.ListComp,
    ast.SetComp,
    ast.DictComp,
    ast.GeneratorExp,
)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def loader_call(program: Program, line: int) -> ast.Call:
    """The call of PyTorch's own ``DataLoader`` at ``line``.

    Raises:
        PatchRefusedError: there is none or more than one, or the call is made again and again, so
            that workers would be started each time.
    """
    calls = [node for node in ast.walk(program.tree) if isinstance(node, ast.Call)]
    spanning = [call for call in calls if call.lineno <= line <= (call.end_lineno or line)]
    loaders = [call for call in spanning if qualified_name(program, call.func) in LOADERS]
    beginning = [call for call in loaders if call.lineno == line]
    chosen = beginning or loaders
    if not chosen:
        raise PatchRefusedError(_no_loader(spanning, line))
    if len(chosen) > 1:
        raise PatchRefusedError(f"line {line} makes {len(chosen)} loaders")
    _refuse_repeated(program, chosen[0])
    return chosen[0]


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


def _no_loader(calls: list[ast.Call], line: int) -> str:
    named = [called_name(call) for call in calls if "loader" in called_name(call).lower()]
    if named:
        return f"line {line} calls {named[0]}, which is not certain to be torch's DataLoader"
    return f"line {line} does not call torch's DataLoader"


def _refuse_repeated(program: Program, call: ast.Call) -> None:
    child: ast.AST = call
    for above in program.ancestors(call):
        if isinstance(above, ast.Call) and called_name(above) in ("iter", "next"):
            raise PatchRefusedError(
                "the loader is used for one pass only, so workers would not pay"
            )
        if isinstance(above, _LOOPS) and not _evaluated_once(above, child):
            raise PatchRefusedError(
                "the loader is made in a loop, so workers would start each time"
            )
        if isinstance(above, _FUNCTIONS):
            return
        child = above


def _evaluated_once(loop: ast.AST, child: ast.AST) -> bool:
    """Whether ``child`` is what a ``for`` statement goes through."""
    return isinstance(loop, (ast.For, ast.AsyncFor)) and child is loop.iter
