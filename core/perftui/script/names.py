"""What names mean in a file: by its imports, by scopes, and by what sets them anew."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Collection, Iterator
from contextlib import suppress

from perftui.script.program import COMPREHENSIONS, FUNCTIONS, Loop, PatchRefusedError, Program

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
        of_class = isinstance(above, ast.ClassDef) and isinstance(inner, FUNCTIONS)
        if not of_class and any(bindings & set(certainly_binds(statement)) for statement in ran):
            return True
        if isinstance(above, (ast.For, ast.AsyncFor)) and _turns(above, inner, bindings):
            return True
        if isinstance(above, FUNCTIONS):
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


def bindings_of(program: Program, name: ast.Name) -> list[ast.AST]:
    """What gives ``name`` a value in the scope that it is read from."""
    everywhere = program.bindings(name.id)
    if _is_handed_between(program, name.id):
        return everywhere
    for scope in _scopes(program, name):
        own = [node for node in everywhere if program.scope(node) is scope]
        if own:
            return own
    return []


def readers_of(program: Program, name: ast.Name) -> list[ast.Name]:
    """All that read what ``name`` reads, itself among them."""
    own = bindings_of(program, name)
    return [load for load in program.loads(name.id) if bindings_of(program, load) == own]


def may_be_replaced(program: Program, binding: ast.AST) -> bool:
    """Whether what is set at module level may be set anew by what the syntax does not show."""
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
    # Of a module it is `sys.modules[...]` that is handed to setattr, or a name that holds it.
    targets = [call.args[0] for call in program.calls("setattr") if call.args]
    return any(isinstance(target, (ast.Subscript, ast.Call)) for target in targets)


def _scopes(program: Program, name: ast.Name) -> list[ast.AST]:
    """Scopes whose names ``name`` sees, innermost first; of a class only from right within it."""
    inner = program.scope(name)
    found = [inner]
    while not isinstance(inner, ast.Module):
        inner = program.scope(inner)
        if not isinstance(inner, ast.ClassDef):
            found.append(inner)
    return found


def _is_handed_between(program: Program, name: str) -> bool:
    return any(
        isinstance(node, (ast.Global, ast.Nonlocal)) and name in node.names
        for node in program.statements()
    )


def names_bound(program: Program, statement: ast.stmt) -> set[str]:
    """Names that ``statement`` gives a value in its own scope."""
    own = program.scope(statement)
    return {
        node.id
        for node in ast.walk(statement)
        if isinstance(node, ast.Name)
        and not isinstance(node.ctx, ast.Load)
        and program.scope(node) is own
        and not _is_of_comprehension(program, node)
    }


def later_reads(program: Program, statement: ast.stmt, name: str) -> Iterator[ast.Name]:
    """What reads outside of ``statement`` the value that this may have given ``name``."""
    inside = set(ast.walk(statement))
    # `total += x` reads what it adds to, which the syntax tree does not show as a read.
    added = (node.target for node in program.statements() if isinstance(node, ast.AugAssign))
    onto = (node for node in added if isinstance(node, ast.Name) and node.id == name)
    for use in (*program.loads(name), *onto):
        if use in inside or not inside.intersection(bindings_of(program, use)):
            continue
        if not _is_of_comprehension(program, use, name) and not _is_set_anew(
            program, statement, use
        ):
            yield use


def _is_of_comprehension(program: Program, node: ast.Name, name: str = "") -> bool:
    """Whether a comprehension around ``node`` has that name for itself."""
    for above in program.ancestors(node):
        if isinstance(above, ast.stmt):
            return False
        if isinstance(above, COMPREHENSIONS):
            own = (n for gen in above.generators for n in ast.walk(gen.target))
            if any(isinstance(one, ast.Name) and one.id == (name or node.id) for one in own):
                return True
    return False


def _is_set_anew(program: Program, statement: ast.stmt, use: ast.Name) -> bool:
    """Whether on each way from ``statement`` to ``use`` the name gets another value."""
    if program.scope(use) is not program.scope(statement):
        return False
    loops = [one for one in program.ancestors(use) if isinstance(one, Loop)]
    around = set(program.ancestors(statement))
    shared = next((loop for loop in loops if loop in around), None)
    for setting in _settings(program, use):
        if _place(statement) < _place(setting):
            return True
        is_later = _place(statement) > _place(use)
        within = setting is shared or shared in set(program.ancestors(setting))
        if is_later and (shared is None or within):
            return True
    return False


def _settings(program: Program, use: ast.Name) -> Iterator[ast.stmt]:
    """Statements that certainly give the name a value before ``use`` runs, each time it does."""
    inner: ast.AST = use
    for above in program.ancestors(use):
        if isinstance(above, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            break
        if isinstance(inner, ast.stmt):
            fields = (block for _, block in ast.iter_fields(above) if isinstance(block, list))
            block = next((block for block in fields if inner in block), [inner])
            for before in block[: block.index(inner)]:
                if _sets(before, use.id):
                    yield before
        if isinstance(above, (ast.With, ast.AsyncWith)) and _sets(above, use.id):
            yield above
        if isinstance(above, (ast.For, ast.AsyncFor)) and inner in above.body:
            targets = (node for node in ast.walk(above.target) if isinstance(node, ast.Name))
            yield from (above for node in targets if node.id == use.id)
        inner = above


def _sets(statement: ast.stmt, name: str) -> bool:
    return any(
        isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store)
        for node in certainly_binds(statement)
    )


def _place(node: ast.stmt | ast.expr) -> tuple[int, int]:
    return node.lineno, node.col_offset
