"""One run or trace against another: what changed, by how much, and whether that means anything."""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from perftui import format as fmt
from perftui.analysis.model import OpTable
from perftui.experiments.changes import (
    FigureChange,
    Whole,
    WorkChange,
    busy_time,
    figure_changes,
    kernel_changes,
    operator_changes,
    own_time,
    shaped_changes,
)
from perftui.experiments.conditions import (
    Difference,
    busy,
    conditions,
    differences,
    effective_changes,
    incomparable,
    is_source_unknown,
    other_machine,
)
from perftui.experiments.effect import missed
from perftui.experiments.noise import FEWEST_STEPS, Ratios, noise_of
from perftui.experiments.repeats import Repeats
from perftui.experiments.verdict import Estimate, Outcome
from perftui.facts.cpu.machine import busy_host, machine_use
from perftui.facts.fact import Facts
from perftui.facts.step.step_breakdown import StepBreakdown
from perftui.facts.step.step_tables import StepTables, operators_by_shape, step_tables
from perftui.facts.step.steps import step_breakdown
from perftui.facts.step.trace_steps import trace_steps

ONE_RUN_EACH = "one run each: no confidence interval"


def notes_of_runs(before: Facts, after: Facts) -> tuple[str, ...]:
    """Of two runs, one on each side."""
    notes = [ONE_RUN_EACH, "losses were not compared"]
    if None in (conditions(before).batch_size, conditions(after).batch_size):
        notes.append("whether a step has the same number of samples in both runs is not known")
    first, second = before.manifest, after.manifest
    if first and second and is_source_unknown(first, second):
        notes.append("both runs had uncommitted changes: whether the source is the same is unknown")
    for name, run in (("first", before), ("second", after)):
        use = machine_use(run)
        if why := busy_host(run):
            notes.append(f"the host was busy during the {name} run: {why}")
        elif use.tree_cores is None and use.pressure is None:
            notes.append(f"how busy the host was during the {name} run is not known")
    return tuple(notes)


def notes_of_traces(before: Facts, after: Facts) -> tuple[str, ...]:
    """Of two traces, or of a run beside one."""
    notes = ["one trace each: no confidence interval"]
    notes.append("profiled steps take longer than others")
    for name, side in (("first", before), ("second", after)):
        if side.run is not None:
            notes.append(f"only the newest window of the {name} run is compared")
        elif (properties := side.analysis) is not None and len(properties.ranks) > 1:
            notes.append(f"the {name} trace has several ranks")
    notes.append("a trace has no telemetry, losses or loader arguments")
    notes.append("whether a step is the same work on both sides is not known")
    return tuple(notes)


class Verdict(str, enum.Enum):
    """What the comparison concludes about the second run or trace."""

    FASTER = "faster"
    SLOWER = "slower"
    NO_CLEAR_DIFFERENCE = "no clear difference"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True)
class PhaseChange:
    """Mean time in one part of the step, ns, before and after."""

    phase: str
    before: int
    after: int


@dataclass(frozen=True)
class Comparison:
    """Two runs, two traces, or one of each side by side."""

    before: Facts
    after: Facts
    steps: tuple[StepBreakdown | None, StepBreakdown | None]
    """The mean steps that are compared, on one clock: that of the training thread for two runs,
    else that of traces, of a run its newest window. None where a side has none."""
    speedup: float | None
    """Step before over step after: of the mean step or of the usual one (``StepBreakdown.usual``),
    whichever changed less, 1.0 where they changed in opposite directions; None where a side has no
    steady steps, or steps on another clock."""
    verdict: Verdict
    reason: str
    phases: tuple[PhaseChange, ...]
    """The parts of both mean steps, in drawing order; empty where they cannot be compared."""
    changes: tuple[str, ...]
    """Arguments of the training's loader and optimizer that are in force and differ."""
    notes: tuple[str, ...]
    """What the comparison does not show, in words."""
    differences: tuple[Difference, ...] = ()
    """Of machine, versions, command and source, between two runs."""
    repeats: Repeats | None = None
    """Several runs on each side; None where each is one."""

    @property
    def of_traces(self) -> bool:
        """Whether the steps are those of traces."""
        return not _both_runs(self.before, self.after)

    @property
    def tables(self) -> tuple[StepTables, StepTables] | None:
        """Operators and kernels of both sides, of runs in their newest windows; None where a side
        has no trace, or the steps of only one are known."""
        first, second = step_tables.or_none(self.before), step_tables.or_none(self.after)
        if first is None or second is None or bool(first.steps) != bool(second.steps):
            return None
        return first, second

    @cached_property
    def operators(self) -> tuple[WorkChange, ...]:
        """Operators of the mean step, those that changed most first, by ``operators_by``; empty
        without ``tables``."""
        if self.tables is None:
            return ()
        shaped = self._shaped
        return shaped_changes(*self.tables, shaped) if shaped else operator_changes(*self.tables)

    @property
    def operators_by(self) -> Literal["name", "name and shapes"]:
        """``name``, or ``name and shapes`` where both sides have recorded shapes."""
        return "name and shapes" if self._shaped else "name"

    @property
    def table_notes(self) -> tuple[str, ...]:
        """What ``operators`` do not show."""
        known = self._by_shape
        if self.tables is None or bool(known[0]) == bool(known[1]):
            return ()
        which = "first" if known[0] else "second"
        return (f"operators are compared by name: only the {which} side has recorded shapes",)

    @property
    def _shaped(self) -> tuple[OpTable, OpTable] | None:
        """Operators by name and shapes; None where a side has recorded none."""
        first, second = self._by_shape
        return (first, second) if self.tables and first and second else None

    @cached_property
    def _by_shape(self) -> tuple[OpTable | None, OpTable | None]:
        return operators_by_shape.or_none(self.before), operators_by_shape.or_none(self.after)

    @cached_property
    def kernels(self) -> tuple[WorkChange, ...]:
        """Kernels, copies and sets of the mean step; empty without ``tables``."""
        return kernel_changes(*self.tables) if self.tables else ()

    @cached_property
    def operators_whole(self) -> Whole | None:
        """What ``operators`` are parts of; None without any."""
        return own_time(self.operators) if self.operators else None

    @cached_property
    def kernels_whole(self) -> Whole | None:
        """What ``kernels`` are parts of; None without any."""
        return busy_time(*self.tables, self.kernels) if self.tables and self.kernels else None

    @cached_property
    def figures(self) -> tuple[FigureChange, ...]:
        """Memory, data loader and use of the machine, as far as they are known."""
        return figure_changes(self.before, self.after)

    @property
    def estimate(self) -> Estimate | None:
        """The ratio and its interval by pairs of runs; None with fewer than six of them."""
        return self.repeats.verdict.estimate if self.repeats else None


def compare(before: Facts, after: Facts) -> Comparison:
    """Compare the steady training steps of two runs or traces.

    One run each gives no confidence interval: pooling their steps would call a difference
    significant in up to half of all cases where there is none. The verdict therefore asks for more
    than two runs of one program differ by.
    """
    both_runs = _both_runs(before, after)
    first, second = steps = _step(before, both_runs), _step(after, both_runs)
    unlike = "" if both_runs else _other_clocks(before, after)
    ratios = _ratios(first, second) if not unlike else None
    verdict, reason = _judge(before, after, steps, ratios, unlike)
    return Comparison(
        before,
        after,
        steps,
        ratios.cautious if ratios else None,
        verdict,
        reason,
        _phases(first, second) if not unlike else (),
        effective_changes(before, after) if both_runs else (),
        notes_of_runs(before, after) if both_runs else notes_of_traces(before, after),
        differences(before, after),
    )


def _both_runs(before: Facts, after: Facts) -> bool:
    return before.run is not None and after.run is not None


def _step(facts: Facts, of_run: bool) -> StepBreakdown | None:
    """The mean step as the training thread has it, or as the trace has."""
    if of_run:
        return step_breakdown(facts)
    found = trace_steps.or_none(facts)
    return found.breakdown if found else None


def _other_clocks(before: Facts, after: Facts) -> str:
    """Why the steps of two traces cannot be compared, empty where nothing is against it."""
    found = [trace_steps.or_none(one) for one in (before, after)]
    for name, side, one in zip(("first", "second"), (before, after), found, strict=True):
        if one is None and side.run is not None:
            return f"no window of the {name} run was profiled, and a trace has no other steps"
        if one is None:
            return f"the {name} trace has no duration"
    first, second = found
    if first is None or second is None:
        return ""
    if first.has_gpu != second.has_gpu:
        which = "first" if first.has_gpu else "second"
        return f"only the {which} trace has GPU activity: its steps are on the GPU's clock"
    if bool(first.steps) != bool(second.steps):
        which = "second" if first.steps else "first"
        return f"the {which} trace has no marks that show its steps"
    return ""


def _ratios(before: StepBreakdown | None, after: StepBreakdown | None) -> Ratios | None:
    if before is None or after is None:
        return None
    if not (before.mean and after.mean and before.usual and after.usual):
        return None
    return Ratios(before.mean / after.mean, before.usual / after.usual)


def _phases(before: StepBreakdown | None, after: StepBreakdown | None) -> tuple[PhaseChange, ...]:
    if before is None or after is None:
        return ()
    names = dict.fromkeys(name for one in (before, after) for name, _ in one.parts)
    return tuple(PhaseChange(name, before.part(name), after.part(name)) for name in names)


def _judge(
    before: Facts,
    after: Facts,
    steps: tuple[StepBreakdown | None, StepBreakdown | None],
    ratios: Ratios | None,
    unlike: str,
) -> tuple[Verdict, str]:
    if unlike:
        return Verdict.INCONCLUSIVE, unlike
    counts = [one.count if one else 0 for one in steps]
    if min(counts) < FEWEST_STEPS:
        return Verdict.INCONCLUSIVE, _too_few((before, after), counts)
    if ratios is None:
        return Verdict.INCONCLUSIVE, "a run has steps of zero length"
    if _both_runs(before, after):
        unlike = (
            incomparable(before, after)
            or other_machine(differences(before, after))
            or missed(after)
            or busy(before, after)
        )
    if unlike:
        return Verdict.INCONCLUSIVE, unlike
    return _by_size(ratios, noise_of(min(counts)))


def _too_few(sides: tuple[Facts, Facts], counts: Sequence[int]) -> str:
    number = 0 if counts[0] <= counts[1] else 1
    if not counts[number] and not _both_runs(*sides):
        return "these traces have no marks that show their steps: the whole traces are compared"
    which = ("first", "second")[number]
    what = _kind(sides[number])
    return f"the {which} {what} has {fmt.several(counts[number], 'steady step')} of {FEWEST_STEPS}"


def _kind(side: Facts) -> str:
    return "run" if side.run is not None else "trace"


def _by_size(ratios: Ratios, noise: float) -> tuple[Verdict, str]:
    """The usual step has to have changed by more than noise, and so has the time of all steps."""
    usual = f"two runs of one program differ by up to {fmt.percent(noise)}"
    beyond = math.log1p(noise)
    if abs(math.log(ratios.cautious)) > beyond:
        return (Verdict.FASTER if ratios.cautious > 1 else Verdict.SLOWER), f"beyond noise: {usual}"
    if max(abs(math.log(ratios.mean)), abs(math.log(ratios.usual))) <= beyond:
        return Verdict.NO_CLEAR_DIFFERENCE, usual
    if ratios.opposite:
        unlike = "the mean step and the usual step changed in opposite directions"
    else:
        unlike = (
            f"the mean step is {ratios.mean:.2f}x as fast, but {ratios.usual:.2f}x without "
            "the slowest and the fastest tenth of the steps"
        )
    return Verdict.NO_CLEAR_DIFFERENCE, unlike


_OF_TRIAL = {
    Outcome.FASTER: Verdict.FASTER,
    Outcome.SLOWER: Verdict.SLOWER,
    Outcome.NO_DIFFERENCE: Verdict.NO_CLEAR_DIFFERENCE,
    Outcome.INCONCLUSIVE: Verdict.INCONCLUSIVE,
}


def with_repeats(found: Comparison, repeats: Repeats) -> Comparison:
    """``found`` beside other runs of both sides.

    With pairs enough they decide, as those of a trial; what forbids the comparison of the two still
    does.
    """
    if min(len(repeats.before), len(repeats.after)) < 1 or len(repeats.ratios) < 1:
        return found
    if max(len(repeats.before), len(repeats.after)) == 1 and not repeats.left_out:
        return found
    notes = (*repeats.notes, *(note for note in found.notes if note != ONE_RUN_EACH))
    named = replace(found, repeats=repeats, notes=notes)
    verdict = repeats.verdict
    if verdict.estimate is None or found.verdict is Verdict.INCONCLUSIVE:
        return named
    word = _OF_TRIAL[verdict.outcome]
    reason = f"{verdict.headline}, by {fmt.several(verdict.estimate.pairs, 'pair')} of runs"
    return replace(named, verdict=word, reason=reason, speedup=verdict.estimate.ratio)
