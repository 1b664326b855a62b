"""Work that is done again and again, though nothing that it depends on changes."""

from __future__ import annotations

import ast
import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import numpy as np

from perftui.analysis.model import GapCause
from perftui.analysis.steps import BACKWARD, FORWARD, INPUT_WAIT, OPERATORS, OTHER
from perftui.diagnosis.model import Figure, Severity
from perftui.diagnosis.rule import Limits, Lost, rule
from perftui.facts.data_loader.batch_place import making_batches
from perftui.facts.data_loader.input_wait import input_wait
from perftui.facts.data_loader.loader import loader_starts
from perftui.facts.fact import Facts, NotApplicableError, fact
from perftui.facts.place import Place
from perftui.facts.source.lines import FEWEST_TO_NAME, LEAST_SHARE, sampled
from perftui.facts.source.source_calls import own_program
from perftui.facts.step.judged_step import HOST_AT_WORK, LOSS, STAGES, JudgedStep, judged_step
from perftui.run.table import Table
from perftui.script.program import COMPREHENSIONS, Function, Program
from perftui.script.training import trains
from perftui.script.turns import number_of_turns
from perftui.script.unchanged import Repeated, Work, repeated_at
from perftui.script.unread import Unread, unread_at
from perftui.script.uses import kind_of
from perftui.trace.model import Int64

MOST_LINES = 24
"""Lines whose source is looked at, those with most time."""

LONGEST = 60
"""Letters of the user's code that are repeated; of longer expressions only what is called."""


@dataclass
class SampledWork:
    """Work of a file, and the samples that are in it."""

    file: str
    held: Counter[str] = field(default_factory=Counter, kw_only=True)
    """ns of the mean step by stage."""
    samples: float = field(default=0, kw_only=True)

    def add(self, samples: tuple[Table, Int64, float], rows: Int64) -> None:
        """Count ``rows`` of ``samples`` as samples that are in it."""
        stacks, time, scale = samples
        self.samples += float((time[rows] / np.maximum(stacks["every"][rows], 1)).sum())
        for stage, ns in zip(stacks["stage"][rows].tolist(), time[rows].tolist(), strict=True):
            self.held[stage] += round(ns * scale)


_Work = TypeVar("_Work", bound=SampledWork)


@dataclass
class UnreadResult(SampledWork):
    """Work for a result that nobody reads, and the samples of its lines."""

    found: Unread


@dataclass
class RepeatedWork(SampledWork):
    """Work that is repeated, and the samples that are in it."""

    program: Program
    found: Repeated
    is_alone: bool = True
    """Whether its lines do nothing else."""
    lines: set[int] = field(default_factory=set)
    """Those of all work in the function that is repeated alike."""

    @property
    def saved(self) -> float | None:
        """Share of the work that is done again; None if it is not known how often."""
        if self.found.again is not None:
            return self.found.again
        loop, outer = self.found.loop, self.found.outer
        if trains(self.program, outer) and not list(self.program.loops(outer)):
            # Each turn is a step of the training.
            return 1.0
        times = [number_of_turns(self.program, each) for each in {loop, outer}]
        return None if None in times else 1 - 1 / max(math.prod(filter(None, times)), 1)


def _written(program: Program, work: ast.expr) -> str:
    """How ``work`` is written, shortened."""
    text, above = ast.unparse(work), program.parents[work]
    if len(text) > LONGEST:
        text = f"{ast.unparse(getattr(work, 'func', work))}(...)"
    if isinstance(above, ast.Assign) and isinstance(above.targets[0], ast.Name):
        return f"{above.targets[0].id} = {text}"
    return text


@fact
def repeated_work(facts: Facts) -> RepeatedWork | None:
    """The repeated work that takes most of the step; None without any."""
    known: dict[tuple[object, ...], RepeatedWork] = {}
    for file, program, line, samples, rows in costly_lines(facts):
        found = repeated_at(program, line)
        if found is None:
            continue
        key = file, program.function(found.work) or found.work, *found[1:]
        again = known.setdefault(key, RepeatedWork(file, program, found))
        again.lines.add(found.work.lineno)
        again.add(samples, _within(again, found.work, line, samples[0], rows))
    return _longest(known.values())


@fact
def unread_result(facts: Facts) -> UnreadResult | None:
    """The work for a result that nobody reads that takes most of the step; None without any."""
    known: dict[tuple[str, ast.expr], UnreadResult] = {}
    for file, program, line, samples, rows in costly_lines(facts):
        if found := unread_at(program, line):
            unread = known.setdefault((file, found.use.node), UnreadResult(file, found))
            unread.add(samples, rows)
            unread.found = max(unread.found, found, key=lambda each: each.calls)
    return _longest(known.values())


def _longest(known: Iterable[_Work]) -> _Work | None:
    enough = (work for work in known if work.samples >= FEWEST_TO_NAME)
    return max(enough, key=lambda work: work.held.total(), default=None)


@fact
def costly_lines(
    facts: Facts,
) -> tuple[tuple[str, Program, int, tuple[Table, Int64, float], Int64], ...]:
    """The lines with most time in the user's files, each with all samples and the rows of its."""
    return tuple(
        (file, program, line, samples, rows)
        for samples in _samples(facts)
        for (file, line), rows in _lines(*samples[:2]).items()
        if (program := own_program(facts, file)) is not None
    )


def _samples(facts: Facts) -> Iterator[tuple[Table, Int64, float]]:
    """Samples of the main thread, and of the workers that it waits for, with what each stands for,
    and how much of the mean step a ns of that is."""
    stacks, time = sampled(facts)
    if "stage" in stacks and time.any():
        yield stacks, time, judged_step(facts).of.mean / int(time.sum())
    making, (batches, time) = input_wait.or_none(facts), making_batches(facts)
    if batches is not stacks and making is not None and time.any():
        yield batches, time, making.wait / int(time.sum())


def _lines(stacks: Table, time: Int64) -> dict[tuple[str, int], Int64]:
    """The lines with most time, and their samples."""
    rows = np.flatnonzero(time > 0).tolist()
    keys = zip(stacks["file"][rows].tolist(), stacks["line"][rows].tolist(), strict=True)
    at: dict[tuple[str, int], list[int]] = {}
    for row, key in zip(rows, keys, strict=True):
        at.setdefault(key, []).append(row)
    held = {key: int(time[mine].sum()) for key, mine in at.items()}
    longest = sorted(held, key=lambda key: -held[key])[:MOST_LINES]
    least = LEAST_SHARE * int(time.sum())
    return {key: np.array(at[key]) for key in longest if held[key] >= least}


def _within(again: RepeatedWork, work: Work, line: int, stacks: Table, rows: Int64) -> Int64:
    """Those of the samples at ``line`` that are in ``work``, as far as they show it."""
    program = again.program
    if not work.lineno <= line <= (work.end_lineno or 0):
        return rows
    call = work if isinstance(work, ast.Call) else None
    if isinstance(work, ast.Attribute) or (call and program.own_functions(call)):
        # Lines of what it calls have samples of their own.
        return rows[:0]
    mine = set(ast.walk(work))
    nodes = (node for node in ast.walk(program.statement(work)) if node not in mine)
    again.is_alone &= not any(isinstance(node, (ast.Call, ast.BinOp)) for node in nodes)
    if call and kind_of(program, call.func).startswith("torch.nn."):
        of_module = [str(via).startswith("torch/nn/modules/") for via in stacks["via"][rows]]
        return rows[of_module]
    return rows


@rule(
    when="a loop computes the same value again in each turn",
    limits=Limits("As for the script's own Python.", 0.10, 0.20, info=0.05),
    answer="compute the value once, before the loop",
)
def repeated_work_rule(facts: Facts) -> Lost | None:
    """The source shows that a call gives the same result in each turn of a loop, for each sample or
    at each use: its inputs stay the same, it draws no random numbers, and nothing there trains it.
    The cost is at most the sampled time of all calls but the first, without their backward pass."""
    if facts.run is None:
        raise NotApplicableError
    judged, again = judged_step(facts), repeated_work(facts)
    if again is None or (again.found.of_samples and not loader_starts(facts)[2]):
        # In the first epoch nothing has been done twice.
        return None
    saved, name = again.saved, Path(again.file).name
    work = _written(again.program, again.found.work)
    cost = min(round(again.held.total() * (1 if saved is None else saved)), judged.of.mean)
    most = "" if saved is not None and again.is_alone else "up to "
    beyond = ", without any backward pass" if again.held[FORWARD] and judged.part(BACKWARD) else ""
    place = Place(facts.rank_number, file=again.file, line=again.found.work.lineno)
    others = ", ".join(map(str, sorted(again.lines - {place.line})))
    alike = f", as does what leads to it (line {others})" if others else ""
    return Lost(
        cost,
        judged.of,
        f"{work} at {place.short} gives the same result {_when(again, name)}{alike}, and is "
        f"computed each time: this takes {most}{judged.of.part_of(cost)}{beyond}.",
        (Figure.share("done again", cost / judged.of.mean, repeated_work_rule.limits.warning),),
        place=place,
        parts=_parts(judged, again),
        advice=f"compute {work} once, {_where(again, name)}",
    )


def _when(again: RepeatedWork, file: str) -> str:
    if again.found.of_samples:
        return "for each sample in every epoch"
    loop, outer = (f"{file}:{getattr(node, 'lineno', 0)}" for node in again.found[1:3])
    match again.found.loop:
        case ast.FunctionDef(name=name):
            each = "in each call of" if name == "forward" else "for each sample in"
            return f"{each} {name} ({loop})"
        case ast.Call() if again.found.again == 1:
            return f"as at {loop}"
        case ast.Call():
            return f"for the calls at {loop} and {outer}"
        case _ if isinstance(again.found.loop, COMPREHENSIONS):
            return f"for each element at {loop}"
    return f"in each turn of the loop at {loop}"


def _where(again: RepeatedWork, file: str) -> str:
    """Where to compute it."""
    outer = again.found.outer
    if isinstance(outer, Function):
        return "in __init__, and keep it in self"
    if isinstance(outer, ast.Call):
        return f"at {file}:{getattr(again.found.loop, 'lineno', 0)}, and pass it on"
    around = again.program.function(again.found.work)
    where = f"before the loop at {file}:{getattr(outer, 'lineno', 0)}"
    if again.found.of_samples:
        return f"for all samples, {where}, and train on what it gives"
    return where if around is again.program.function(outer) else f"{where}, and pass it on"


def _parts(judged: JudgedStep, work: SampledWork) -> tuple[str, ...]:
    """Parts of the step in which samples of ``work`` are."""
    parts: list[str] = []
    for stage in work.held:
        phase = next((name for name, stages in STAGES.items() if stage in stages), OTHER)
        if phase == INPUT_WAIT:
            parts += (GapCause.INPUT_WAIT.value, INPUT_WAIT)
        elif judged.on_device:
            parts += HOST_AT_WORK
        else:
            parts += (phase, *((OPERATORS, LOSS) if phase in (OTHER, FORWARD) else ()))
    return tuple(dict.fromkeys(parts))


_UNREAD = {
    "never": ("never read afterwards", "leave {work} out"),
    "last": (
        "computed in each turn of a loop of which {line} reads only the last",
        "compute {work} once, after the loop",
    ),
    "rare": ("only read if the condition at {line} holds", "compute {work} there"),
    "masked": (
        "computed for all, though {line} has chosen what counts",
        "give each only what it is chosen for and add that up (index_add_), or sort by the choice "
        "and use torch._grouped_mm",
    ),
}
"""How a result is read, and what to do."""


@rule(
    when="the script computes results of which it reads none, the last or a few",
    limits=repeated_work_rule.limits,
    answer="leave the computation out, or move it to where its result is read",
)
def unread_result_rule(facts: Facts) -> Lost | None:
    """The source shows that nothing with an effect reads the result, or only after the loop or on
    some steps. The cost is the sampled time of its lines; other statements that call the same
    function have equal parts of that time."""
    if facts.run is None:
        raise NotApplicableError
    judged, unread = judged_step(facts), unread_result(facts)
    if unread is None:
        return None
    (use, calls), whole = unread.found, min(unread.held.total(), judged.of.mean)
    place = Place(facts.rank_number, file=unread.file, line=use.node.lineno)
    why, advice = _UNREAD[use.last]
    where = f"line {ast.unparse(use.object or use.node)}"
    work = _written(use.program, use.node)
    many = f"it is one of {calls} uses of what takes" if calls > 1 else "this takes"
    cost = whole // calls
    return Lost(
        cost,
        judged.of,
        f"{work} at {place.short} is {why.format(line=where)}: {many} {judged.of.part_of(whole)}.",
        (
            Figure.share(
                "computed for nobody", cost / judged.of.mean, unread_result_rule.limits.warning
            ),
        ),
        place=place,
        parts=_parts(judged, unread),
        worst=Severity.CRITICAL if calls == 1 else Severity.WARNING,
        advice=advice.format(work=work),
    )
