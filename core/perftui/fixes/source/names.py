"""What names mean in a file, as far as its imports make it certain."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Collection, Iterator
from contextlib import suppress

from perftui.fixes.source.program import PatchRefusedError, Program

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
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
    """The name by which the file knows ``module``: ``th`` after ``import torch as th``.

    Raises:
        PatchRefusedError: no import certainly gives it one.
    """
    imports = (node for node in program.nodes if isinstance(node, ast.alias))
    for name in (alias.asname or alias.name.split(".")[0] for alias in imports):
        if qualified_name(program, ast.Name(name)) == module:
            return name
    raise PatchRefusedError(f"no import of the file certainly gives {module} a name")


def spelling(program: Program, name: str) -> str:
    """How the file can write the qualified ``name``: ``F.softmax`` after ``import
    torch.nn.functional as F``.

    Raises:
        PatchRefusedError: no import certainly leads there.
    """
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
    """Nothing where all names that ``text`` reads have a value once ``place`` has run, or
    ``before`` it does; those in ``known`` have.

    Raises:
        PatchRefusedError: one of them may have none there.
    """
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
        # The names of a class are not those of its methods.
        of_class = isinstance(above, ast.ClassDef) and isinstance(inner, _FUNCTIONS)
        if not of_class and any(bindings & set(certainly_binds(statement)) for statement in ran):
            return True
        if isinstance(above, (ast.For, ast.AsyncFor)) and _turns(above, inner, bindings):
            return True
        if isinstance(above, _FUNCTIONS):
            if bindings & set(ast.walk(above.args)):
                return True
            if bindings & set(ast.walk(above)) - {above}:
                return False
        inner = above
    return False


def _turns(loop: ast.For | ast.AsyncFor, inner: ast.AST, bindings: set[ast.AST]) -> bool:
    """Whether ``loop`` has given the name a value where ``inner`` runs."""
    return inner in loop.body and bool(bindings & set(ast.walk(loop.target)))


def _until(above: ast.AST, inner: ast.AST, including: bool) -> list[ast.stmt]:
    """Statements of a block of ``above`` that have begun to run when ``inner`` in it has."""
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
