"""The literal or the option that a value comes from, through variables, parameters and attributes.

If the source leaves several, the run's value decides.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace

from perftui.fixes.source.declared_options import option_behind
from perftui.fixes.source.origins import Origin, Wanted, origins, unclear
from perftui.fixes.source.program import Decided, Program, is_literal
from perftui.fixes.source.readers import attributes

_DEEPEST = 6


def followed(program: Program, value: ast.expr, wanted: Wanted, depth: int = _DEEPEST) -> Decided:
    """What decides ``value``.

    Raises:
        PatchRefusedError: that is not certain.
    """
    if is_literal(value):
        return program.literal(value)
    inner = _converted(value, wanted.kind)
    if inner is not None:
        return followed(program, inner, wanted, depth)
    if depth == 0:
        raise unclear(wanted, value, "it comes from too far away")
    option = option_behind(program, value, wanted.kind)
    if not isinstance(option, str):
        same = attributes(program, option.dest, ast.Load)
        others = tuple(node for node in same if node is not value)
        return replace(option.decided(program), readers=others)
    found = origins(program, value, wanted)
    if found is None:
        raise unclear(wanted, value, option)
    return one_of(program, value, found, wanted, depth - 1)


def one_of(
    program: Program,
    value: ast.expr,
    choices: Sequence[Origin],
    wanted: Wanted,
    depth: int = _DEEPEST,
) -> Decided:
    """What decides ``value``, which is one of ``choices``: the only one that the run can have had.

    Raises:
        PatchRefusedError: another one may be, or is not certain itself.
    """
    found: list[Decided] = []
    for choice in choices:
        one = followed(program, choice.value, wanted, depth)
        found.append(replace(one, readers=(*choice.readers, *one.readers)))
    places = {one.place for one in found}
    fitting = [one for one in found if len(places) == 1 or one.value == wanted.seen]
    if len({one.place for one in fitting}) != 1 or (len(places) > 1 and wanted.seen is None):
        lines = " and ".join(str(line) for line in sorted({place[0] for place in places}))
        raise unclear(wanted, value, f"it may come from line {lines}")
    readers = dict.fromkeys(reader for one in fitting for reader in one.readers)
    return replace(fitting[0], readers=tuple(readers))


def _converted(value: ast.expr, kind: type[object]) -> ast.expr | None:
    """``x`` of ``int(x)``, which keeps a whole number as it is."""
    if not isinstance(value, ast.Call) or value.keywords or len(value.args) != 1:
        return None
    return value.args[0] if ast.unparse(value.func) == kind.__name__ else None
