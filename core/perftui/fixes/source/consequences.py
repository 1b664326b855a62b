"""Side effects of changing a call, and what stays unchanged: the notes of a patch."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from perftui.fixes.source.calls import CallSpec, each_of_few
from perftui.fixes.source.edits import Edit, ReplaceLiteral
from perftui.fixes.source.names import qualified_name
from perftui.fixes.source.program import Loop, Program
from perftui.fixes.source.readers import is_shown

_MOST = 3


def consequences(
    program: Program, call: ast.Call, spec: CallSpec, readers: Iterable[ast.expr], file: str
) -> tuple[str, ...]:
    """Sentences for a person; ``readers`` are what else reads the changed value."""
    shared = _shared(program, call, spec, readers, file)
    found = (_several(program, call, spec), shared, _made_again(program, call, spec, file, shared))
    return tuple(sentence for sentence in found if sentence)


def stale_texts(program: Program, edits: Iterable[Edit], file: str) -> tuple[str, ...]:
    """Sentences about comments and help texts that name a value which ``edits`` replace."""
    found = []
    for edit in edits:
        if not isinstance(edit, ReplaceLiteral):
            continue
        line = edit.at[0]
        old = program.lines[line - 1][edit.at[1] : edit.at[3]]
        word = re.compile(rf"(?<![\w.]){re.escape(old)}(?![\w.]*\w)")
        if word.search(program.comments(line, line)):
            found.append(f"The comment at {file}:{line} still says {old}.")
        found += [
            f"The help text at {file}:{call.lineno} still says {old}."
            for call in program.calls("add_argument")
            if call.lineno <= line <= (call.end_lineno or line) and word.search(_help(call))
        ]
    return tuple(found)


def _help(call: ast.Call) -> str:
    texts = (keyword.value for keyword in call.keywords if keyword.arg == "help")
    return " ".join(str(one.value) for one in texts if isinstance(one, ast.Constant))


def _several(program: Program, call: ast.Call, spec: CallSpec) -> str:
    over = each_of_few(program, call)
    if over is None:
        return ""
    return f"The call makes a {spec.noun} for each of {ast.unparse(over)}: all of them change."


def _shared(
    program: Program, call: ast.Call, spec: CallSpec, readers: Iterable[ast.expr], file: str
) -> str:
    own = set(ast.walk(call))
    said = [
        _said(program, reader, spec, file)
        for reader in readers
        if reader not in own and not is_shown(program, reader)
    ]
    # Loaders before lines that read the value for something else.
    named = sorted(dict.fromkeys(said), key=lambda text: text.startswith(f"{file}:"))
    if not named:
        return ""
    more = [f"{len(named) - _MOST} more"] if len(named) > _MOST else []
    first, *rest = (*named[:_MOST], *more)
    listed = f"{', '.join((first, *rest[:-1]))} and {rest[-1]}" if rest else first
    verb, pronoun = ("read", "them") if rest else ("reads", "it")
    return f"{listed} {verb} the same value: it changes for {pronoun}, too."


def _said(program: Program, reader: ast.expr, spec: CallSpec, file: str) -> str:
    around = (reader, *program.ancestors(reader))
    made = [one for one in around if isinstance(one, ast.Call) and _is_such(program, one, spec)]
    if not made:
        return f"{file}:{reader.lineno}"
    name = _target(program, made[0])
    return f"{name or f'another {spec.noun}'} at {file}:{made[0].lineno}"


def _made_again(program: Program, call: ast.Call, spec: CallSpec, file: str, shared: str) -> str:
    """Where the script makes what it calls by the same name once more, for later steps."""
    name = _target(program, call)
    for other in program.calls() if name else ():
        is_later = _statement(program, other).lineno > _statement(program, call).lineno
        is_later = is_later and _target(program, other) == name
        if not is_later or not _is_such(program, other, spec) or f":{other.lineno}" in shared:
            continue
        if program.scope(other) is program.scope(call) and _follows(program, call, other):
            return (
                f"{name} is made again at {file}:{other.lineno}, which stays unchanged: this is "
                "half of the fix."
            )
    return ""


def _is_such(program: Program, call: ast.Call, spec: CallSpec) -> bool:
    return qualified_name(program, call.func) in spec.names


def _target(program: Program, call: ast.Call) -> str:
    """The name that the statement around ``call`` gives what it makes; empty where none is."""
    statement = _statement(program, call)
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return ast.unparse(targets[0]) if len(targets) == 1 else ""


def _statement(program: Program, call: ast.Call) -> ast.stmt:
    return next(one for one in program.ancestors(call) if isinstance(one, ast.stmt))


def _follows(program: Program, first: ast.Call, other: ast.Call) -> bool:
    """Whether ``other`` may run after ``first`` did, and not instead of it."""
    branches = set(_branches(program, first))
    own = list(_branches(program, other))
    if any((node, not is_body) in branches for node, is_body in own):
        return False
    loops = {one for one in program.ancestors(first) if isinstance(one, Loop)}
    in_later_loop = any(
        isinstance(one, Loop) and one not in loops for one in program.ancestors(other)
    )
    return in_later_loop or set(own) <= branches


def _branches(program: Program, node: ast.AST) -> Iterator[tuple[ast.AST, bool]]:
    """Conditions around ``node``, and whether it stands where they hold."""
    for above in program.ancestors(node):
        if isinstance(above, ast.If):
            yield above, node in above.body
        node = above
