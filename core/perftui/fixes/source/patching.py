"""Patches of a call's arguments: found, planned, written and proved."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from perftui.fixes.model import Patch
from perftui.fixes.source.call_arguments import changed, decided
from perftui.fixes.source.calls import CallSpec, call_at
from perftui.fixes.source.edits import Edit, Literal, Span
from perftui.fixes.source.names import qualified_name
from perftui.fixes.source.program import Program, parse_program, read_source
from perftui.fixes.source.proof import proved
from perftui.fixes.source.refused import PatchRefusedError

Plan = Callable[[Program, ast.Call, Mapping[str, Literal]], Mapping[str, Edit]]
"""The edits that give a call its arguments, by the argument; those that it has are left out."""


def call_patch(
    path: Path,
    line: int,
    spec: CallSpec,
    arguments: Mapping[str, Literal],
    seen: Mapping[str, Literal] | None = None,
    plan: Plan | None = None,
) -> Patch:
    """Patch the call at ``line`` of ``path`` so that it is made with ``arguments``.

    ``seen`` are the values that a run had: where the source says otherwise, it is not what decides.
    ``plan`` stands in for an edit of each argument by itself.

    Raises:
        PatchRefusedError: the change is not certain, or nothing would change.
    """
    source = read_source(path)
    program = parse_program(source)
    call = call_at(program, line, spec)
    for name in arguments:
        if seen and name in seen:
            says = decided(program, call, spec, name, type(arguments[name])).value
            if says != seen[name]:
                had = seen[name]
                raise PatchRefusedError(f"the source says {name}={says!r}, but the run had {had!r}")
    edits = (plan or each(spec))(program, call, arguments)
    if not edits:
        raise PatchRefusedError("the call already has these arguments")
    at = program.span(call)
    target = spec.names[qualified_name(program, call.func) or ""]
    after, lines = written(source, list(edits.values()))
    given = {name: arguments[name] for name in edits}
    return Patch(path, source, after, given, target, lines[at])


def written(source: bytes, edits: Sequence[Edit]) -> tuple[bytes, Mapping[Span, int]]:
    """``source`` with ``edits`` made, and for each call that it had the line where it begins now.

    Raises:
        PatchRefusedError: more or less than the edits would change.
    """
    # LibCST, a fifth of a second of imports, only where there is something to write.
    from perftui.fixes.source.rewriting import edited

    after = edited(source, edits)
    return after, proved(source, after, edits)


def each(spec: CallSpec) -> Plan:
    """A plan that changes every argument by itself."""

    def plan(
        program: Program, call: ast.Call, arguments: Mapping[str, Literal]
    ) -> Mapping[str, Edit]:
        found = {name: changed(program, call, spec, name, arguments[name]) for name in arguments}
        return {name: edit for name, edit in found.items() if edit}

    return plan
