"""Where loops copy the batches of a loader to the GPU, so that the host need not wait for it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping

from perftui.fixes.source.edits import AddKeyword, Edit
from perftui.fixes.source.known_as import known_as
from perftui.fixes.source.program import (
    Loop,
    PatchRefusedError,
    Program,
    assigned_value,
    bound_name,
    called_name,
)

KEYWORD = "non_blocking"
_GPU = re.compile(r"device|cuda|gpu|rank", re.IGNORECASE)
_CPU = re.compile(r"cpu|host", re.IGNORECASE)
_PLAIN = 6
"""Arguments of a loader by position that come before its ``collate_fn``."""
_BARS = ("enumerate", "tqdm", "trange", "track")
_SIZES = ("shape", "size", "ndim", "dtype", "numel", "dim")
_LOOKS = ("len", "type", "isinstance", "keys")


def asynchronous_copies(program: Program, loader: ast.Call) -> Mapping[str, Edit]:
    """``non_blocking=True`` for each copy of a batch of ``loader`` that is certain to be one to the
    GPU, and whose source nothing looks at any more; none where no loop is known to go through it,
    or where batches may be of a class of their own.
    """
    given = {one.arg: ast.unparse(one.value) for one in loader.keywords}
    is_own = {"collate_fn", None} & given.keys() or given.get("batch_size") == "None"
    if len(loader.args) > _PLAIN or is_own:
        return {}
    above = program.parents[loader]
    made = above.targets[0] if isinstance(above, ast.Assign) and len(above.targets) == 1 else None
    if not isinstance(made, ast.Name):
        return {}
    loops = [one for one in program.statements() if isinstance(one, ast.For)]
    edits: dict[str, Edit] = {}
    for loop in loops:
        batch = _batch(program, loop, made)
        for call in _copies(program, loop, batch) if batch else ():
            at = program.span(call)
            edits[f"{KEYWORD} at {at[0]}:{at[1]}"] = AddKeyword(at, KEYWORD, "True")
    return edits


def _batch(program: Program, loop: ast.For, made: ast.Name) -> set[str]:
    """Names that ``loop`` gives a batch of the loader, or parts of it."""
    over, target = _bar(program, loop.iter), loop.target
    while isinstance(over, ast.Call) and called_name(over) in _BARS and over.args:
        if called_name(over) == "enumerate":
            if not isinstance(target, ast.Tuple) or len(target.elts) != 2:
                return set()
            target = target.elts[1]
        over = over.args[0]
    if not isinstance(over, ast.Name):
        return set()
    try:
        is_it = known_as(program, made, program.scope(loop)) == over.id
    except PatchRefusedError:
        return set()
    return {one.id for one in ast.walk(target) if isinstance(one, ast.Name)} if is_it else set()


def _bar(program: Program, over: ast.expr) -> ast.expr:
    """What ``over`` is, where it is a name for a bar around something, such as ``tqdm(loader)``."""
    if isinstance(over, ast.Call) and called_name(over) == "enumerate" and len(over.args) == 1:
        return ast.Call(over.func, [_bar(program, over.args[0])], [])
    bindings = program.bindings(over.id) if isinstance(over, ast.Name) else []
    value = assigned_value(program, bindings[0]) if len(bindings) == 1 else None
    return value if isinstance(value, ast.Call) and called_name(value) in _BARS else over


def _copies(program: Program, loop: ast.For, batch: set[str]) -> Iterator[ast.Call]:
    for statement in loop.body:
        for call in ast.walk(statement):
            if not isinstance(call, ast.Call) or not _is_copy(call):
                continue
            name = _root(program, call)
            if name in batch and _is_fresh(program, loop, statement, name):
                yield call


def _is_copy(call: ast.Call) -> bool:
    """``x.to(device)`` or ``x.cuda()``, with nothing that says how to wait."""
    given = [*call.args, *(one.value for one in call.keywords if one.arg == "device")]
    others = [one.arg for one in call.keywords if one.arg != "device"]
    name = called_name(call)
    if others or len(given) > 1 or name not in ("to", "cuda"):
        return False
    if name == "cuda":
        return True
    text = ast.unparse(given[0]) if given else ""
    return bool(_GPU.search(text)) and not _CPU.search(text)


def _root(program: Program, call: ast.Call) -> str:
    """The name of the batch that ``call`` copies: of ``x``, ``batch["x"]``, ``batch.x``, or of what
    a comprehension over one goes through."""
    node = call.func.value if isinstance(call.func, ast.Attribute) else None
    while isinstance(node, (ast.Subscript, ast.Attribute)):
        node = node.value
    if not isinstance(node, ast.Name):
        return ""
    for above in program.ancestors(call):
        if isinstance(above, ast.stmt):
            break
        for part in getattr(above, "generators", ()):
            if any(bound_name(one) == node.id for one in ast.walk(part.target)):
                over = part.iter
                if isinstance(over, ast.Call) and called_name(over) in ("items", "values"):
                    over = over.func.value if isinstance(over.func, ast.Attribute) else over
                return over.id if isinstance(over, ast.Name) else ""
    return node.id


def _is_fresh(program: Program, loop: ast.For, statement: ast.stmt, name: str) -> bool:
    """Whether ``name`` is what the loader gave, and is not changed while it may still be copied."""
    at = loop.body.index(statement)
    for before in loop.body[:at]:
        if any(bound_name(node) == name for node in ast.walk(before)):
            return False
    if isinstance(statement, (Loop, ast.If, ast.Try)):
        return False
    if any(bound_name(node) == name for node in ast.walk(statement)):
        return True
    later = [node for one in loop.body[at + 1 :] for node in ast.walk(one)]
    uses = [n for n in later if isinstance(n, ast.Name) and n.id == name]
    return all(_only_looks(program, use) for use in uses)


def _only_looks(program: Program, use: ast.Name) -> bool:
    """Whether ``use`` copies the batch as well, or asks for its size."""
    for above in program.ancestors(use):
        if isinstance(above, ast.Attribute) and above.attr in _SIZES:
            return True
        if isinstance(above, ast.Call) and (_is_copy(above) or called_name(above) in _LOOKS):
            return True
        if isinstance(above, ast.stmt):
            return False
    return False
