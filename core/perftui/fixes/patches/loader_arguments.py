"""Changes arguments of the one ``DataLoader`` call that feeds the training."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from pathlib import Path

from perftui.fixes.model import Patch
from perftui.fixes.patches.edits import AddKeyword, Edit, Literal, ReplaceLiteral
from perftui.fixes.patches.keyword_value import argument, written
from perftui.fixes.patches.loader_call import loader_call
from perftui.fixes.patches.program import Program, parse_program, read_source
from perftui.fixes.patches.refused import PatchRefusedError
from perftui.fixes.patches.syntax_delta import (
    Change,
    KeywordAdded,
    LiteralReplaced,
    syntax_delta,
)

POSITIONS = {"num_workers": 5, "pin_memory": 7}
"""Arguments that may be given by position: dataset, batch_size, shuffle, sampler, batch_sampler,
num_workers, collate_fn, pin_memory, ... as ``torch.utils.data.DataLoader`` has them since 1.0."""

PERSISTENT = "persistent_workers"

NEEDS_WORKERS = (PERSISTENT, "prefetch_factor")
"""Arguments that raise ``ValueError`` without workers, so they are written only beside a number
of workers that stands in the same call. Beside a variable persistence is made to depend on it."""


DEFAULTS: Mapping[str, Literal] = {
    "num_workers": 0,
    "pin_memory": False,
    PERSISTENT: False,
}
"""What a loader has where the call gives nothing."""


def loader_arguments(
    path: Path,
    line: int,
    arguments: Mapping[str, Literal],
    seen: Mapping[str, Literal | None] | None = None,
) -> Patch:
    """Patch the call at ``line`` of ``path`` so that it makes its loader with ``arguments``.

    A value that stands in a variable, a dict or the default of a command-line option is changed
    there. Arguments of ``NEEDS_WORKERS`` are left out beside others where they are not certain to
    be valid; ``persistent_workers`` is written as ``args.workers > 0`` beside
    ``num_workers=args.workers``.
    ``seen`` are the values that the script itself gave its loader in a run: a literal that says
    otherwise is not what decides, so it is not edited.

    Raises:
        PatchRefusedError: the change is not certain, or nothing would change.
    """
    source = read_source(path)
    program = parse_program(source)
    call = loader_call(program, line)
    _refuse_contradicted(program, call, arguments, seen or {})
    edits = planned_edits(program, call, arguments)
    if not edits:
        raise PatchRefusedError("the call already has these arguments")
    # LibCST, a fifth of a second of imports, only where there is something to write.
    from perftui.fixes.patches.rewriting import edited

    after = edited(source, edits)
    _check(source, after, edits)
    made = {edit.name: edit.value for edit in edits}
    return Patch(path, source, after, made, line=line)


def planned_edits(program: Program, call: ast.Call, arguments: Mapping[str, Literal]) -> list[Edit]:
    """The edits that give ``call`` its ``arguments``; empty where it has them all.

    Raises:
        PatchRefusedError: where a present value comes from is not certain.
    """
    edits: list[Edit] = []
    need_workers = bool(arguments) and set(arguments) <= set(NEEDS_WORKERS)
    for name, value in arguments.items():
        if name in NEEDS_WORKERS and not need_workers:
            edits += _companion(program, call, name, value, edits)
        elif name in NEEDS_WORKERS:
            edits += _alone(program, call, name, value)
        else:
            edits += _edit(program, call, name, value)
    return edits


def _refuse_contradicted(
    program: Program,
    call: ast.Call,
    arguments: Mapping[str, Literal],
    seen: Mapping[str, Literal | None],
) -> None:
    for name in arguments:
        had = seen.get(name)
        if had is None or name in NEEDS_WORKERS:
            continue
        present = written(program, call, name, POSITIONS.get(name))
        says = present.value if present else DEFAULTS[name]
        if says != had:
            raise PatchRefusedError(f"the source says {name}={says!r}, but the run had {had!r}")


def _edit(program: Program, call: ast.Call, name: str, value: Literal) -> list[Edit]:
    present = written(program, call, name, POSITIONS.get(name))
    if present is None:
        return [AddKeyword(program.position(call), name, value)]
    if type(present.value) is not type(value):
        raise PatchRefusedError(f"{name} is {present.value!r}")
    if present.value == value:
        return []
    return [_replace(program, present, name, value)]


def _companion(
    program: Program, call: ast.Call, name: str, value: Literal, edits: Sequence[Edit]
) -> list[Edit]:
    """An argument that needs workers, where the call itself says how many there are."""
    try:
        if not _states_workers(program, call, edits):
            return _dependent(program, call, name, value)
        return _edit(program, call, name, value)
    except PatchRefusedError:
        return []


def _alone(program: Program, call: ast.Call, name: str, value: Literal) -> list[Edit]:
    if _states_workers(program, call, ()):
        return _edit(program, call, name, value)
    found = _dependent(program, call, name, value)
    if not found:
        raise PatchRefusedError("no number of workers stands in the call itself")
    return found


def _dependent(program: Program, call: ast.Call, name: str, value: Literal) -> list[Edit]:
    """Persistence that is asked for where there are workers, by the variable that says so.

    Asked for a second time it says the same, so nothing is to be done where it is there.
    """
    given = argument(call, "num_workers", POSITIONS["num_workers"])
    if name != PERSISTENT or value is not True or given is None or not _is_variable(given):
        return []
    text = f"{ast.unparse(given)} > 0"
    present = argument(call, name, None)
    if present is not None and ast.unparse(present) == text:
        return []
    if written(program, call, name, None) is not None:
        # To be False it may have been given for the case of no workers.
        raise PatchRefusedError(f"{name} is given, and so is a variable number of workers")
    return [AddKeyword(program.position(call), name, value, text)]


def _is_variable(given: ast.expr) -> bool:
    """Whether reading it twice gives the same: a name, an attribute of one, an item by literal."""
    if isinstance(given, ast.Subscript):
        return isinstance(given.slice, ast.Constant) and _is_variable(given.value)
    if isinstance(given, ast.Attribute):
        return _is_variable(given.value)
    return isinstance(given, ast.Name)


def _states_workers(program: Program, call: ast.Call, edits: Sequence[Edit]) -> bool:
    call_at = program.position(call)
    if any(
        isinstance(e, AddKeyword) and (e.position, e.name) == (call_at, "num_workers")
        for e in edits
    ):
        return True
    given = argument(call, "num_workers", POSITIONS["num_workers"])
    if not isinstance(given, ast.Constant):
        return False
    replaced = any(e.position == program.position(given) for e in edits)
    return replaced or bool(given.value)


def _replace(program: Program, present: ast.Constant, name: str, value: Literal) -> ReplaceLiteral:
    return ReplaceLiteral(program.position(present), name, present.value, value)


def _check(before: bytes, after: bytes, edits: Sequence[Edit]) -> None:
    """Refuse unless the syntax differs by exactly what ``edits`` say.

    Raises:
        PatchRefusedError: it does not parse any more, or differs by more or less.
    """
    try:
        made = syntax_delta(before, after)
    except SyntaxError as error:
        raise PatchRefusedError(f"the changed file would not parse: {error}") from error
    meant = [_change(edit) for edit in edits]
    if sorted(map(repr, made)) != sorted(map(repr, meant)):
        raise PatchRefusedError("the edit would change more than the loader's arguments")


def _change(edit: Edit) -> Change:
    if isinstance(edit, AddKeyword):
        if edit.text is not None:
            return KeywordAdded(edit.position[0], edit.name, text=edit.text)
        return KeywordAdded(edit.position[0], edit.name, edit.value)
    return LiteralReplaced(edit.position[0], edit.before, edit.value)
