"""Which calls a fix is about, and the one of them that the profiler saw."""

from __future__ import annotations

import ast
import enum
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from perftui.fixes.source.edits import Edit
from perftui.fixes.source.names import qualified_name
from perftui.fixes.source.program import (
    Literal,
    Loop,
    PatchRefusedError,
    Program,
    assigned_value,
    called_name,
)
from perftui.fixes.source.training_calls import trains, trains_each_turn

_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_REPEATING = (Loop, *_COMPREHENSIONS)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_FEW = 4
"""Turns of a loop over values that are written out, such as "train" and "val": what it makes is
made once for each of them."""

Plan = Callable[["CallSpec", Program, ast.Call, Mapping[str, Literal]], Mapping[str, Edit]]
"""The edits that give a call its arguments, by the argument; those that it has are left out."""


class Context(enum.Enum):
    """Where a call may stand so that a fix of it is no gain."""

    LOOP = enum.auto()
    """The call is in a loop or a comprehension of its function: it is made again and again."""
    ONE_PASS = enum.auto()
    """The call is in ``iter(...)`` or ``next(...)``."""


@dataclass(frozen=True)
class CallSpec:
    """Which calls a fix is about, and what of them is certain."""

    noun: str
    """What such a call makes, in a word: ``loader``."""
    what: str
    """What is called, for a person: ``torch's DataLoader``."""
    names: Mapping[str, str]
    """Every qualified name of what is called, and the public one of each."""
    positions: Mapping[str, int] = field(default_factory=dict)
    """Arguments that may be given by position."""
    defaults: Mapping[str, Literal] = field(default_factory=dict)
    """What an argument is where the call gives nothing, None where that is not known here."""
    refused: Mapping[Context, str] = field(default_factory=dict)
    """Where no such call is changed, and why."""
    follows: bool = True
    """Whether a value is also changed where a variable, a dict, a default of a command-line option
    or a position gives it; else it has to be a literal keyword."""
    conflicts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Arguments that must not be true beside one."""
    alike: str = ""
    """Part of the names, in lower case, of what may be taken for such a call."""
    plan: Plan | None = None
    """Stands in for an edit of each argument by itself."""
    seen: Mapping[str, Literal] = field(default_factory=dict)
    """What the script itself gave in a run, as far as that is known."""


def call_at(program: Program, line: int, spec: CallSpec) -> ast.Call:
    """The call at ``line`` that ``spec`` describes.

    Raises:
        PatchRefusedError: there is none or more than one, or it stands where it is not changed.
    """
    spanning = [c for c in program.calls() if c.lineno <= line <= (c.end_lineno or line)]
    found = [call for call in spanning if qualified_name(program, call.func) in spec.names]
    chosen = [call for call in found if call.lineno == line] or found
    if not chosen:
        raise PatchRefusedError(_no_such_call(spanning, line, spec))
    if len(chosen) > 1:
        raise PatchRefusedError(f"line {line} makes {len(chosen)} {spec.noun}s")
    for context in _contexts(program, chosen[0]):
        if context in spec.refused:
            raise PatchRefusedError(spec.refused[context])
    return chosen[0]


def _no_such_call(calls: list[ast.Call], line: int, spec: CallSpec) -> str:
    named = [name for name in map(called_name, calls) if name and spec.alike in name.lower()]
    if named:
        return f"line {line} calls {named[0]}, which may not be {spec.what}"
    return f"line {line} does not call {spec.what}"


def each_of_few(program: Program, call: ast.Call) -> ast.expr | None:
    """The few values that are written out, for each of which ``call`` makes one; else None."""
    loops = list(_loops(program, call))
    return _few(program, loops[0]) if loops else None


def _contexts(program: Program, call: ast.Call) -> list[Context]:
    """Contexts in which ``call`` stands within its function, innermost first."""
    found: list[Context] = []
    for above in program.ancestors(call):
        if isinstance(above, ast.Call) and called_name(above) in ("iter", "next"):
            found.append(Context.ONE_PASS)
        if isinstance(above, _FUNCTIONS):
            break
    again = _makes_again(program, call) or _called_in_loops(program, call)
    return [*found, *([Context.LOOP] if again else [])]


def _makes_again(program: Program, call: ast.Call) -> bool:
    """Whether loops of its function run ``call`` again and again, those aside that go through a
    few values or in which each turn trains for many epochs, as one over folds does."""
    loops = list(_loops(program, call))
    again = loops[1:] if loops and _few(program, loops[0]) is not None else loops
    return any(not _trains_for_epochs(program, one, call) for one in again)


def _trains_for_epochs(program: Program, loop: ast.AST, call: ast.Call) -> bool:
    inner = (node for node in ast.walk(loop) if node is not loop and isinstance(node, Loop))
    return any(
        trains(program, one) and not trains_each_turn(program, one)
        for one in inner
        if call not in set(ast.walk(one))
    )


def _called_in_loops(program: Program, call: ast.Call) -> bool:
    """Whether the function around ``call`` is called in loops of the file and nowhere else."""
    around = (one for one in program.ancestors(call) if isinstance(one, _FUNCTIONS))
    name = getattr(next(around, None), "name", "")
    calls = program.calls(name) if len(program.functions.get(name, ())) == 1 else []
    return bool(calls) and all(_makes_again(program, one) for one in calls)


def _loops(program: Program, call: ast.Call) -> Iterator[ast.AST]:
    """Loops and comprehensions of the function that run ``call`` in each turn, innermost first."""
    child: ast.AST = call
    for above in program.ancestors(call):
        if isinstance(above, _REPEATING) and not _evaluated_once(above, child):
            yield above
        if isinstance(above, _FUNCTIONS):
            return
        child = above


def _few(program: Program, loop: ast.AST) -> ast.expr | None:
    """The values that ``loop`` goes through, where they are a few that are written out."""
    over: ast.expr | None = None
    if isinstance(loop, ast.For):
        over = loop.iter
    elif isinstance(loop, _COMPREHENSIONS) and len(loop.generators) == 1:
        over = loop.generators[0].iter
    if isinstance(over, ast.Name):
        bindings = program.bindings(over.id)
        over = assigned_value(program, bindings[0]) if len(bindings) == 1 else None
    if not isinstance(over, (ast.List, ast.Tuple, ast.Set)) or len(over.elts) > _FEW:
        return None
    return over if all(isinstance(one, ast.Constant) for one in over.elts) else None


def _evaluated_once(loop: ast.AST, child: ast.AST) -> bool:
    """Whether ``child`` is what a loop goes through."""
    if isinstance(loop, _COMPREHENSIONS):
        return child is loop.generators[0]
    return isinstance(loop, (ast.For, ast.AsyncFor)) and child is loop.iter
