"""Fixes that leave a call out of the source: all it does for the training is hold it up."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from functools import partial

from perftui.facts.fact import Facts
from perftui.facts.settings import settings
from perftui.facts.source.line_words import text_of
from perftui.fixes.fix import line_fix
from perftui.fixes.line_change import NamedLine, Plan, named_line, place_of
from perftui.fixes.model import Risk
from perftui.fixes.source.edits import Edit, remove
from perftui.script.names import qualified_name
from perftui.script.program import Loop, PatchRefusedError, Program
from perftui.script.training import trains


def leave_out(*names: str) -> Plan:
    """The plan to take out the call of one of ``names``, by their qualified names."""
    return partial(_left_out, names)


def _left_out(names: Sequence[str], program: Program, line: int) -> Sequence[Edit]:
    spanning = (c for c in program.calls() if c.lineno <= line <= (c.end_lineno or line))
    calls = [call for call in spanning if qualified_name(program, call.func) in names]
    if len(calls) != 1:
        raise PatchRefusedError(f"line {line} does not certainly call {names[0]}")
    statement = program.parents[calls[0]]
    if not isinstance(statement, ast.Expr):
        raise PatchRefusedError(f"line {line} uses what {names[0]} returns")
    handler = next(
        (n for n in program.ancestors(statement) if isinstance(n, ast.ExceptHandler)), None
    )
    if handler is not None:
        raise PatchRefusedError(
            f"line {line} belongs to the error handler at line {handler.lineno}"
        )
    return (remove(program, statement),)


def no_sleep(program: Program, line: int) -> Sequence[Edit]:
    """The ``time.sleep(...)`` at ``line`` taken out."""
    edits = _left_out(("time.sleep",), program, line)
    sleeping = (c for c in program.calls("sleep") if c.lineno == line)
    for above in (one for call in sleeping for one in program.ancestors(call)):
        if isinstance(above, Loop) and not trains(program, above):
            raise PatchRefusedError(
                f"the loop at line {above.lineno} uses it to wait for something"
            )
    return edits


def _says(word: str, facts: Facts, rule: str) -> NamedLine | None:
    """The line that ``rule`` names, where it says ``word``."""
    place = place_of(facts, rule)
    return _by_at(place) if place and word in text_of(place.file, place.line) else None


def _called(name: str, facts: Facts, rule: str) -> NamedLine | None:
    """Where the run saw ``name`` called, where ``rule`` has a finding with a line."""
    known, found = settings(facts), place_of(facts, rule)
    return _by_at(named_line(known.place(name))) if known and found else None


def _by_at(place: NamedLine | None) -> NamedLine | None:
    return place._replace(short=f"At {place.short}") if place else None


COLLECT = line_fix(
    id="collect-off",
    what="do not collect garbage in the loop",
    explanation=(
        "Python frees unreferenced objects at once and collects cycles by itself. Without the "
        "call, memory may grow if the script creates reference cycles of large tensors; watch the "
        "peak."
    ),
    at=partial(_says, "collect"),
    rules=("gc-pauses",),
    title="no gc.collect()",
    plan=leave_out("gc.collect"),
    advice="remove gc.collect()",
    risks=(Risk.MEMORY,),
)

SLEEP = line_fix(
    id="sleep-off",
    what="do not sleep in the loop",
    explanation=(
        "The training continues at once. Whatever needed the pause, such as a rate limit or "
        "another process, no longer gets it."
    ),
    at=partial(_says, "sleep"),
    rules=("python-bound",),
    title="no time.sleep()",
    plan=no_sleep,
    advice="remove time.sleep()",
    risks=(Risk.PACE,),
)

EMPTY_CACHE = line_fix(
    id="empty-cache-off",
    what="keep freed GPU memory for the next tensor",
    explanation=(
        "PyTorch keeps freed memory and reuses it without calling the driver. Other programs on "
        "the card see less free memory."
    ),
    at=partial(_says, "empty_cache"),
    rules=("allocator-churn",),
    title="no empty_cache()",
    plan=leave_out("torch.cuda.empty_cache", "torch.cuda.memory.empty_cache"),
    advice="remove empty_cache()",
    risks=(Risk.MEMORY,),
)

AFFINITY = line_fix(
    id="affinity-off",
    what="use every core that the machine allows",
    explanation=(
        "The script no longer restricts itself to fewer cores than it may use. Other programs on "
        "the machine get less CPU time; with more threads, sums are rounded differently."
    ),
    at=partial(_called, "sched_setaffinity"),
    rules=("cpu-affinity",),
    title="all cores",
    plan=leave_out("os.sched_setaffinity"),
    advice="remove sched_setaffinity()",
    risks=(Risk.NUMERICS,),
)

DEFAULT_DTYPE = line_fix(
    id="default-dtype-off",
    what="create new tensors in float32",
    explanation=(
        "New tensors and parameters are float32, with 7 digits instead of 16: half the memory and "
        "at least twice the speed. Tensors made from NumPy arrays stay float64, and mixing the "
        "two may raise an error."
    ),
    at=partial(_called, "set_default_dtype"),
    rules=("float64",),
    title="float32 by default",
    plan=leave_out("torch.set_default_dtype"),
    advice="remove set_default_dtype()",
    risks=(Risk.PRECISION, Risk.DRAWS),
)
