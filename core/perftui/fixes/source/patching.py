"""Patches of a call's arguments: found, planned, written and proved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from perftui.fixes.model import Patch
from perftui.fixes.source.call_arguments import decided, each_changed
from perftui.fixes.source.calls import CallSpec, call_at
from perftui.fixes.source.edits import Edit, Literal, PatchRefusedError, Span
from perftui.fixes.source.names import qualified_name
from perftui.fixes.source.program import parse_program, read_source
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
    for name, value in arguments.items():
        had = (seen or {}).get(name)
        found = None if had is None else decided(program, call, spec, name, type(value)).value
        if found != had:
            raise PatchRefusedError(f"the source says {name}={found!r}, but the run had {had!r}")
    edits = (spec.plan or partial(each_changed, spec))(program, call, arguments)
    if not edits:
        raise PatchRefusedError("the call already has these arguments")
    at = program.span(call)
    target = spec.names[qualified_name(program, call.func) or ""]
    after, lines = written(source, list(edits.values()))
    given = {name: arguments[name] for name in edits if name in arguments}
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
