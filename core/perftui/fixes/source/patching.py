"""Patches of a call's arguments: found, planned, written and proved."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from perftui.fixes.model import Patch
from perftui.fixes.source.call_arguments import decided, each_changed
from perftui.fixes.source.calls import CallSpec, call_at
from perftui.fixes.source.consequences import consequences, stale_texts
from perftui.fixes.source.edits import Edit
from perftui.fixes.source.names import qualified_name
from perftui.fixes.source.program import (
    Literal,
    PatchRefusedError,
    Program,
    Span,
    parse_program,
    read_source,
)
from perftui.fixes.source.proof import proved


def call_patch(
    path: Path,
    line: int,
    spec: CallSpec,
    arguments: Mapping[str, Literal],
    seen: Mapping[str, Literal] | None = None,
) -> Patch:
    """Patch the call at ``line`` of ``path`` so that it is made with ``arguments``.

    A value that stands in a variable, a dict or the default of a command-line option is changed
    there. ``seen`` are the values that the script itself gave in a run, None where that is not
    known: where the source has another value, it is not what decides.

    Raises:
        PatchRefusedError: the change is not certain, or nothing would change.
    """
    source = read_source(path)
    program = parse_program(source)
    call = call_at(program, line, spec)
    spec = replace(spec, seen={k: v for k, v in (seen or {}).items() if v is not None})
    for name, had in spec.seen.items():
        found = (
            decided(program, call, spec, name, type(arguments[name])) if name in arguments else None
        )
        if found and found.value != had:
            raise PatchRefusedError(
                f"the source says {name}={found.value!r}, but the run had {had!r}"
            )
    edits = (spec.plan or each_changed)(spec, program, call, arguments)
    if not edits:
        raise PatchRefusedError("the call already has these arguments")
    at = program.span(call)
    target = spec.names[qualified_name(program, call.func) or ""]
    after, lines = written(source, list(edits.values()))
    given = {name: arguments[name] for name in edits if name in arguments}
    readers = _readers(program, call, spec, edits, given)
    told = consequences(program, call, spec, readers, path.name)
    stale = stale_texts(program, edits.values(), path.name)
    beside = any(name not in arguments and edit.at != at for name, edit in edits.items())
    return Patch(path, source, after, given, target, lines[at], (*told, *stale), beside)


def _readers(
    program: Program,
    call: ast.Call,
    spec: CallSpec,
    edits: Mapping[str, Edit],
    given: Mapping[str, Literal],
) -> Iterator[ast.expr]:
    """What else reads the values that ``edits`` change outside of ``call``."""
    for name, edit in edits.items():
        if name in given and edit.at != program.span(call):
            yield from decided(program, call, spec, name, type(given[name])).readers


def written(source: bytes, edits: Sequence[Edit]) -> tuple[bytes, Mapping[Span, int]]:
    """``source`` with ``edits`` made, and for each call that it had the line where it begins now.

    Raises:
        PatchRefusedError: more or less than the edits would change.
    """
    # LibCST, a fifth of a second of imports, only where there is something to write.
    from perftui.fixes.source.rewriting import edited

    after = edited(source, edits)
    return after, proved(source, after, edits)
