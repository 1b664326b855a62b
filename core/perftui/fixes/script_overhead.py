"""What a script does besides training: left out, done less often, or ended."""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Sequence
from functools import partial

from perftui.facts.fact import Facts
from perftui.facts.script.compilations_and_pauses import gc_pauses
from perftui.facts.script.looks import runs_own_profiler
from perftui.facts.settings import settings
from perftui.facts.source.lines import text_of
from perftui.fixes.fix import (
    LineChange,
    NamedLine,
    finding_line,
    fix,
    has_finding,
    is_certain,
    line_fix,
    named_line,
    place_of_loop,
)
from perftui.fixes.option import Risk
from perftui.fixes.source.calls import CallSpec, call_at
from perftui.fixes.source.edits import (
    AddKeyword,
    Edit,
    ReplaceLiteral,
    insert_after_imports,
    insert_before,
    rarer,
    rarer_within,
    remove,
    wrap,
)
from perftui.script.effects import observers, saves
from perftui.script.names import qualified_name, refuse_unbound, spelling
from perftui.script.program import Loop, PatchRefusedError, Program, is_literal, keyword, receiver
from perftui.script.steps import every, last_turn, refuse_own_count, step_counter
from perftui.script.training import StepStatement, step_statement, training_loop, trains


def _left_out(program: Program, line: int, *names: str) -> Sequence[Edit]:
    """The call of one of ``names``, by their qualified names, taken out at ``line``."""
    spanning = (c for c in program.calls() if c.lineno <= line <= (c.end_lineno or line))
    calls = [call for call in spanning if qualified_name(program, call.func) in names]
    if len(calls) != 1:
        raise PatchRefusedError(f"line {line} does not certainly call {names[0]}")
    statement = program.parents[calls[0]]
    if not isinstance(statement, ast.Expr):
        raise PatchRefusedError(f"line {line} uses what {names[0]} returns")
    for above in program.ancestors(statement):
        if isinstance(above, ast.ExceptHandler):
            raise PatchRefusedError(
                f"line {line} belongs to the error handler at line {above.lineno}"
            )
    return (remove(program, statement),)


def _says(word: str, facts: Facts, rule: str) -> NamedLine | None:
    """The line that ``rule`` names, where it says ``word``."""
    place = finding_line(facts, rule)
    return _by_at(place) if place and word in text_of(place.file, place.line) else None


def _called(name: str, facts: Facts, rule: str) -> NamedLine | None:
    """Where the run saw ``name`` called, if ``rule`` has a finding with a line."""
    setup, line = settings(facts), finding_line(facts, rule)
    return _by_at(named_line(setup.place(name))) if line else None


def _by_at(place: NamedLine | None) -> NamedLine | None:
    return place._replace(short=f"At {place.short}") if place else None


@line_fix(
    what="do not collect garbage in the loop",
    at=partial(_says, "collect"),
    title="no gc.collect()",
    advice="remove gc.collect()",
    risks=(Risk.MEMORY,),
)
def collect_off(program: Program, line: int) -> Sequence[Edit]:
    """Python frees unreferenced objects at once and collects cycles by itself. Without the call,
    memory may grow if the script creates reference cycles of large tensors; watch the peak."""
    return _left_out(program, line, "gc.collect")


@line_fix(
    what="do not sleep in the loop",
    at=partial(_says, "sleep"),
    title="no time.sleep()",
    advice="remove time.sleep()",
    risks=(Risk.PACE,),
)
def sleep_off(program: Program, line: int) -> Sequence[Edit]:
    """The training continues at once. Whatever needed the pause, such as a rate limit or another
    process, no longer gets it."""
    # The ``time.sleep(...)`` at ``line`` taken out.
    edits = _left_out(program, line, "time.sleep")
    sleeping = (c for c in program.calls("sleep") if c.lineno == line)
    for above in (node for call in sleeping for node in program.ancestors(call)):
        if isinstance(above, Loop) and not trains(program, above):
            raise PatchRefusedError(
                f"the loop at line {above.lineno} uses it to wait for something"
            )
    return edits


@line_fix(
    what="keep freed GPU memory for the next tensor",
    at=partial(_says, "empty_cache"),
    title="no empty_cache()",
    advice="remove empty_cache()",
    risks=(Risk.MEMORY,),
)
def empty_cache_off(program: Program, line: int) -> Sequence[Edit]:
    """PyTorch keeps freed memory and reuses it without calling the driver. Other programs on the
    card see less free memory."""
    return _left_out(program, line, "torch.cuda.empty_cache", "torch.cuda.memory.empty_cache")


@line_fix(
    what="use every core that the machine allows",
    at=partial(_called, "sched_setaffinity"),
    title="all cores",
    advice="remove sched_setaffinity()",
    risks=(Risk.NUMERICS,),
)
def affinity_off(program: Program, line: int) -> Sequence[Edit]:
    """The script no longer restricts itself to fewer cores than it may use. Other programs on the
    machine get less CPU time; with more threads, sums are rounded differently."""
    return _left_out(program, line, "os.sched_setaffinity")


@line_fix(
    what="create new tensors in float32",
    at=partial(_called, "set_default_dtype"),
    title="float32 by default",
    advice="remove set_default_dtype()",
    risks=(Risk.PRECISION, Risk.DRAWS),
)
def default_dtype_off(program: Program, line: int) -> Sequence[Edit]:
    """New tensors and parameters are float32, with 7 digits instead of 16: half the memory and at
    least twice the speed. Tensors made from NumPy arrays stay float64, and mixing the two may raise
    an error."""
    return _left_out(program, line, "torch.set_default_dtype")


SELDOM = 10
"""How many times less often: what took most of a step then takes a tenth of that."""


def seldom(program: Program, line: int, *, may_evaluate: bool = False) -> Sequence[Edit]:
    """Put the statement that leads to ``line`` in the loop over steps under ``if step % 10 == 0``,
    or make such a condition rarer. In a loop over epochs the last turn does it, too."""
    place = step_statement(program, line)
    condition = every(program, place)
    if condition is None:
        return (_now_and_then(program, place, may_evaluate),)
    if place.of_many:
        number = condition.around.lineno
        raise PatchRefusedError(
            f"line {number} counts iterations of many steps each: how much less often is for you "
            "to decide"
        )
    if trains(program, condition.around):
        inside = condition.inside
        if trains(program, inside):
            raise PatchRefusedError(f"line {line} is part of the training step")
        within = observers(program, inside, may_evaluate=may_evaluate)
        return (wrap(program, within[0], within[-1], rarer_within(condition, SELDOM)),)
    around = observers(program, condition.around, may_evaluate=may_evaluate)
    if len(around) > 1:
        line = around[-1].lineno
        raise PatchRefusedError(f"line {line} reads what line {around[0].lineno} sets")
    return (rarer(program, condition, SELDOM),)


def _now_and_then(program: Program, place: StepStatement, may_evaluate: bool) -> Edit:
    """The edit of a statement that every turn of the loop runs."""
    statement = place.statement
    if trains(program, statement):
        raise PatchRefusedError(f"line {statement.lineno} is part of the training step")
    together = observers(program, statement, may_evaluate=may_evaluate)
    for part in together:
        refuse_own_count(program, part)
    counter = step_counter(program, place)
    header = f"if {counter} % {SELDOM} == 0"
    # The results of the last epoch are kept, and so are those of the last turn that saves or
    # evaluates: it always runs, if the loop shows which turn that is.
    with contextlib.suppress(*(() if place.of_many else (PatchRefusedError,))):
        if place.of_many or may_evaluate or any(map(saves, together)):
            header += f" or {counter} == {last_turn(place, counter)}"
    return wrap(program, together[0], together[-1], header)


@fix(what="log, print or save only every tenth time", risks=(Risk.SELDOM,))
def less_often(facts: Facts) -> LineChange | None:
    """Work besides training that no step needs is done every tenth time. Logs have a tenth of the
    entries, a crash loses up to ten times as many steps, and the output of the last steps may be
    missing."""
    saved = finding_line(facts, "checkpoint", "slow-steps")
    place = saved or finding_line(facts, "python-bound")
    if place is None:
        return None
    change = LineChange(
        f"logging or saving every {SELDOM}th time",
        place.file,
        place.line,
        seldom,
        f"{place.short}: only every {SELDOM}th time",
    )
    # Most of a script's own Python is part of training: then the fix is not worth a word.
    return change if saved or is_certain(change) else None


@line_fix(
    what="evaluate only every tenth time",
    title=f"evaluation every {SELDOM}th time",
    advice=f"only every {SELDOM}th time",
    # Iterating over a data loader draws a random number, also for its order.
    risks=(Risk.SELDOM, Risk.ORDER),
)
def evaluate_less_often(program: Program, line: int) -> Sequence[Edit]:
    """The model is evaluated a tenth as often. Curves have fewer points, and the best weights are
    found less precisely."""
    return seldom(program, line, may_evaluate=True)


LEAST_PAUSE = 5_000_000
"""Mean time of a full collection, ns, from which on it looks at many objects that stay: the 170,000
of torch alone take it some tens of ms."""


def frozen(program: Program, _: int) -> Sequence[Edit]:
    """``gc.freeze()`` before the loop that trains, and the import of ``gc`` where that lacks."""
    loop = training_loop(program)
    if any(qualified_name(program, call.func) == "gc.freeze" for call in program.calls("freeze")):
        raise PatchRefusedError("the file already freezes objects")
    try:
        name = spelling(program, "gc.freeze")
    except PatchRefusedError:
        if program.bindings("gc"):
            raise
        added = insert_after_imports(program, "import gc")
        return (added, insert_before(program, loop, "gc.freeze()", known=("gc",)))
    return (insert_before(program, loop, f"{name}()"),)


@fix(what="look for garbage among new objects only", risks=(Risk.MEMORY,))
def gc_freeze(facts: Facts) -> LineChange | None:
    """Python's garbage collector skips all objects that exist when the training begins. They are
    freed as before once nothing refers to them, except for reference cycles among them. Nothing
    else changes."""
    pauses = gc_pauses.or_none(facts)
    if pauses is None or pauses.longest_full_mean < LEAST_PAUSE:
        return None
    if not has_finding(facts, "gc-pauses") or settings(facts).gc.frozen:
        return None
    return LineChange(
        "gc.freeze() before the training",
        *place_of_loop(facts),
        frozen,
        "gc.freeze() once everything is loaded, before the loop that trains",
    )


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


def _ended(program: Program, value: ast.expr) -> Edit:
    """The schedule ``value`` with ``repeat=1``."""
    if not isinstance(value, ast.Call) or qualified_name(program, value.func) not in _SCHEDULES:
        raise PatchRefusedError(f"it already has a schedule: {ast.unparse(value)}")
    repeat = keyword(value, "repeat")
    if value.args or any(kw.arg is None for kw in value.keywords):
        raise PatchRefusedError("it is not certain which arguments the schedule has")
    if repeat is None:
        return AddKeyword(program.span(value), "repeat", "1")
    if is_literal(repeat) and ast.literal_eval(repeat) == 0:
        return ReplaceLiteral(program.span(repeat), "1")
    raise PatchRefusedError(f"its schedule already ends: repeat={ast.unparse(repeat)}")


def _name(program: Program, call: ast.Call) -> str | None:
    """The variable of the profiler: ``with profile(...) as p`` or ``p = profile(...)``."""
    above = program.parents[call]
    target: ast.AST | None = None
    if isinstance(above, ast.withitem):
        target = above.optional_vars
    elif isinstance(above, ast.Assign) and len(above.targets) == 1:
        target = above.targets[0]
    return ast.unparse(target) if isinstance(target, (ast.Name, ast.Attribute)) else None


def _own_profiler(facts: Facts, rule: str) -> NamedLine | None:
    place = finding_line(facts, rule)
    return place if place is not None and runs_own_profiler(facts) else None


@line_fix(
    what="let the script's own profiler record a few steps and stop",
    at=_own_profiler,
    title="the script's profiler for three steps",
    advice=(
        f"profile(..., schedule=torch.profiler.schedule({_FEW})), and its step() after each step"
    ),
    risks=(Risk.PROFILE,),
)
def profiler_schedule(program: Program, line: int) -> Sequence[Edit]:
    """The profiler records a few steps once, and its handler runs once; the rest of the training
    runs without the profiler. The training computes the same results."""
    # A schedule of three steps for the profiler at ``line``, or an end for the one it has.
    call = call_at(program, line, _PROFILER)
    if any(kw.arg is None for kw in call.keywords) or call.args:
        raise PatchRefusedError("it is not certain which arguments the profiler has")
    # A schedule goes on by ``step()`` only; without it the profiler would record nothing.
    name = _name(program, call)
    stepped = filter(None, map(receiver, program.calls("step")))
    if name is None or name not in map(ast.unparse, stepped):
        raise PatchRefusedError(f"nothing calls {name or 'the profiler'}.step() after each step")
    value = keyword(call, "schedule")
    if value is not None and not (is_literal(value) and ast.literal_eval(value) is None):
        return (_ended(program, value),)
    text = f"{spelling(program, _SCHEDULES[0])}({_FEW})"
    refuse_unbound(program, program.statement(call), text, before=True)
    if value is not None:
        raise PatchRefusedError("schedule=None is the author's own choice")
    return (AddKeyword(program.span(call), "schedule", text),)
