"""``profiler-schedule``: the script's own profiler records a few steps and ends."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from perftui.facts.fact import Facts
from perftui.facts.script.own_profiler import runs_own_profiler
from perftui.fixes.fix import Fix
from perftui.fixes.line_change import LineChange, place_of
from perftui.fixes.model import Risk
from perftui.fixes.source.calls import CallSpec, call_at
from perftui.fixes.source.edits import AddKeyword, Edit, ReplaceLiteral
from perftui.script.names import qualified_name, refuse_unbound, spelling
from perftui.script.program import PatchRefusedError, Program, is_literal

_SCHEDULES = ("torch.profiler.schedule", "torch.profiler.profiler.schedule")
_PROFILER = CallSpec(
    noun="profiler",
    what="torch.profiler.profile",
    names={
        "torch.profiler.profile": "torch.profiler.profile",
        "torch.profiler.profiler.profile": "torch.profiler.profile",
    },
    alike="profile",
)
_FEW = "wait=1, warmup=1, active=3, repeat=1"


def few_steps(program: Program, line: int) -> Sequence[Edit]:
    """A schedule of three steps for the profiler at ``line``, or an end for the one it has."""
    call = call_at(program, line, _PROFILER)
    if any(keyword.arg is None for keyword in call.keywords) or call.args:
        raise PatchRefusedError("it is not certain which arguments the profiler has")
    _refuse_without_steps(program, call)
    given = next((one.value for one in call.keywords if one.arg == "schedule"), None)
    if given is not None and not (is_literal(given) and ast.literal_eval(given) is None):
        return (_ended(program, given),)
    text = f"{spelling(program, _SCHEDULES[0])}({_FEW})"
    statement = next(one for one in program.ancestors(call) if isinstance(one, ast.stmt))
    refuse_unbound(program, statement, text, before=True)
    if given is not None:
        raise PatchRefusedError("schedule=None is the author's own choice")
    return (AddKeyword(program.span(call), "schedule", text),)


def _ended(program: Program, given: ast.expr) -> Edit:
    """The schedule ``given`` with ``repeat=1``."""
    if not isinstance(given, ast.Call) or qualified_name(program, given.func) not in _SCHEDULES:
        raise PatchRefusedError(f"it already has a schedule: {ast.unparse(given)}")
    repeat = next((one.value for one in given.keywords if one.arg == "repeat"), None)
    if given.args or any(one.arg is None for one in given.keywords):
        raise PatchRefusedError("it is not certain which arguments the schedule has")
    if repeat is None:
        return AddKeyword(program.span(given), "repeat", "1")
    if is_literal(repeat) and ast.literal_eval(repeat) == 0:
        return ReplaceLiteral(program.span(repeat), "1")
    raise PatchRefusedError(f"its schedule already ends: repeat={ast.unparse(repeat)}")


def _refuse_without_steps(program: Program, call: ast.Call) -> None:
    """A schedule goes on by ``step()`` only; without it the profiler would record nothing."""
    name = _name(program, call)
    stepped = (one.func for one in program.calls("step"))
    receivers = {ast.unparse(one.value) for one in stepped if isinstance(one, ast.Attribute)}
    if name is None or name not in receivers:
        raise PatchRefusedError(f"nothing calls {name or 'the profiler'}.step() after each step")


def _name(program: Program, call: ast.Call) -> str | None:
    """What the profiler is called by: ``with profile(...) as p`` or ``p = profile(...)``."""
    above = program.parents[call]
    target: ast.AST | None = None
    if isinstance(above, ast.withitem):
        target = above.optional_vars
    elif isinstance(above, ast.Assign) and len(above.targets) == 1:
        target = above.targets[0]
    return ast.unparse(target) if isinstance(target, (ast.Name, ast.Attribute)) else None


def _change(facts: Facts) -> LineChange | None:
    place = place_of(facts, "profiler-overhead")
    if place is None or not runs_own_profiler(facts):
        return None
    return LineChange(
        "the script's profiler for three steps",
        place.file,
        place.line,
        few_steps,
        f"{place.short}: profile(..., schedule=torch.profiler.schedule({_FEW})), "
        "and its step() after each step",
        (Risk.PROFILE,),
    )


SCHEDULE = Fix(
    id="profiler-schedule",
    what="let the script's own profiler record a few steps and stop",
    explanation=(
        "The profiler records a few steps once, and its handler runs once; the rest of the "
        "training runs without the profiler. The training computes the same results."
    ),
    change=_change,
    risks=(Risk.PROFILE,),
)
