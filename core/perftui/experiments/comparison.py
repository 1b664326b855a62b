"""One run or trace against another: what changed, by how much, and whether that means anything."""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import starmap
from typing import Literal

from perftui import format as fmt
from perftui.analysis.memory_categories import MemoryOverTime
from perftui.analysis.model import KernelTable, OpTable
from perftui.experiments.conditions import (
    Difference,
    busy,
    conditions,
    differing,
    edited,
    in_force,
    in_force_changes,
    other_machine,
    other_work,
)
from perftui.experiments.history import Repeats
from perftui.experiments.journal import Proof, proof_of_change
from perftui.experiments.rerun import missed, own_edit, written_between
from perftui.experiments.trial_verdict import (
    FEWEST_STEPS,
    NOISE_FEW,
    SAME,
    Estimate,
    Outcome,
    Ratios,
    noise_of,
    speed_text,
)
from perftui.facts.counters import memory_over_time
from perftui.facts.cpu.machine import busy_host, machine_use
from perftui.facts.fact import Facts, finite, samples
from perftui.facts.gpu.cards import gpu_memory
from perftui.facts.source.source_calls import compared_sources
from perftui.facts.step.step_tables import StepTables, operators_by_shape, step_tables
from perftui.facts.step.steps import StepBreakdown, batches_ready, step_breakdown, wait_p95
from perftui.facts.step.trace_steps import trace_steps
from perftui.fixes.option import FixOption
from perftui.format import several, whole_quotients
from perftui.run.layout import trials_of
from perftui.trace.model import NONE

MEMORY, LOADER, MACHINE = "memory", "data loader", "machine"
BYTES, NS, SHARE, COUNT, CORES = "B", "ns", "share", "count", "cores"


@dataclass(frozen=True)
class FigureChange:
    """One figure on both sides; None stands for a side where it is not known."""

    group: str
    """``MEMORY``, ``LOADER`` or ``MACHINE``."""
    name: str
    unit: str
    """``BYTES``, ``NS``, ``SHARE`` (0 to 1), ``COUNT`` or ``CORES``."""
    before: float | None
    after: float | None


def _figures(side: Facts) -> Iterator[tuple[tuple[str, str, str], float]]:
    use, memory = machine_use(side), gpu_memory(side)
    resident = finite(samples(side), "processes.rss")
    figures = (
        (MEMORY, "peak allocated", BYTES, memory.peak_allocated if memory else None),
        (MEMORY, "peak reserved", BYTES, memory.peak_reserved if memory else None),
        (MEMORY, "peak host RSS", BYTES, int(resident.max()) if len(resident) else None),
        (LOADER, "wait, p95", NS, wait_p95(side)),
        (LOADER, "batches ready", COUNT, batches_ready(side)),
        (LOADER, "worker cores", CORES, use.workers_cores),
        (MACHINE, "CPU cores used", CORES, use.tree_cores),
        (MACHINE, "GPU busy", SHARE, use.gpu_busy),
    )
    yield from (
        ((group, name, unit), value) for group, name, unit, value in figures if value is not None
    )


def _by_category(before: Facts, after: Facts) -> Iterator[FigureChange]:
    """Bytes of each category at the peak of a device: together that peak."""
    first, second = (_devices(side) for side in (before, after))
    for device in first.keys() & second.keys():
        name = "CPU" if device == NONE else f"GPU {device}"
        sides = [
            {use.category: use.bytes for use in side[device].at_peak()} for side in (first, second)
        ]
        for category in sorted({*sides[0], *sides[1]}):
            sizes = (side.get(category, 0) for side in sides)
            yield FigureChange(MEMORY, f"{name} {category.label}", BYTES, *sizes)


def _devices(side: Facts) -> dict[int, MemoryOverTime]:
    memories = memory_over_time.or_none(side) or ()
    return {memory.device: memory for memory in memories if memory.has_categories}


@dataclass(frozen=True)
class Amount:
    """Time and calls of one name in a mean step, or in a whole trace."""

    calls: float
    cpu_ns: int
    """Self time on the CPU; 0 for a kernel."""
    gpu_ns: int
    """Of an operator: its own kernels."""


NOTHING = Amount(0, 0, 0)


@dataclass(frozen=True)
class WorkChange:
    """One operator or kernel on both sides; ``NOTHING`` if a side does not have it."""

    name: str
    before: Amount
    after: Amount

    @property
    def cpu_ns(self) -> int:
        """Self time that was added, below 0 where it was saved."""
        return self.after.cpu_ns - self.before.cpu_ns

    @property
    def is_called_alike(self) -> bool:
        """Whether both sides make as many calls: then times that differ may be noise."""
        return abs(self.after.calls - self.before.calls) < 1

    @property
    def gpu_ns(self) -> int:
        """GPU time that was added."""
        return self.after.gpu_ns - self.before.gpu_ns


@dataclass(frozen=True)
class Whole:
    """What the rows of a table are parts of, ns in a mean step or in a whole trace.

    The times of all rows, less what of them was counted twice, are the whole, on each side and so
    of the differences."""

    what: str
    before_ns: int
    after_ns: int
    twice_before_ns: int = 0
    """Of kernels that ran side by side on one device."""
    twice_after_ns: int = 0


def split(
    changes: Sequence[WorkChange], most: int
) -> tuple[Sequence[WorkChange], WorkChange | None]:
    """The first ``most`` rows, and the sum of the others, where there are any."""
    listed, rest = changes[:most], changes[most:]
    if not rest:
        return listed, None
    return listed, WorkChange(several(len(rest), "other"), *_sums(rest))


def _sums(changes: Sequence[WorkChange]) -> Iterator[Amount]:
    """The sum of both sides."""
    for rows in ([row.before for row in changes], [row.after for row in changes]):
        calls, cpu, gpu = zip(*((row.calls, row.cpu_ns, row.gpu_ns) for row in rows), strict=True)
        yield Amount(sum(calls), sum(cpu), sum(gpu))


def _operators(table: OpTable, steps: int) -> Mapping[str, Amount]:
    # Whole ns of a mean step, which sum to those of the whole.
    steps = max(steps, 1)
    columns = (
        whole_quotients(column.tolist(), steps) for column in (table.cpu_self, table.device_self)
    )
    calls = (table.calls / steps).tolist()
    return dict(zip(table.names, starmap(Amount, zip(calls, *columns, strict=True)), strict=True))


def _kernels(table: KernelTable, steps: int) -> Mapping[str, Amount]:
    amounts, steps = dict[str, Amount](), max(steps, 1)
    calls, times = (table.calls / steps).tolist(), whole_quotients(table.total.tolist(), steps)
    for name, count, time in zip(table.names, calls, times, strict=True):
        amount = amounts.get(name, NOTHING)
        amounts[name] = Amount(amount.calls + count, 0, amount.gpu_ns + time)
    return amounts


def _changes(before: Mapping[str, Amount], after: Mapping[str, Amount]) -> list[WorkChange]:
    names = dict.fromkeys((*before, *after))
    return [WorkChange(name, before.get(name, NOTHING), after.get(name, NOTHING)) for name in names]


def _ordered(changes: Iterable[WorkChange], *, on_gpu: bool) -> tuple[WorkChange, ...]:
    def changed(row: WorkChange) -> tuple[int, int, str]:
        first, second = (row.gpu_ns, row.cpu_ns) if on_gpu else (row.cpu_ns, row.gpu_ns)
        return -abs(first), -abs(second), row.name

    return tuple(sorted(changes, key=changed))


ONE_RUN_EACH = "one run each: no confidence interval"


def notes_of_runs(before: Facts, after: Facts) -> tuple[str, ...]:
    """Notes on a comparison of two runs, one on each side."""
    notes = [ONE_RUN_EACH, "losses were not compared"]
    if None in (conditions(before).batch_size, conditions(after).batch_size):
        notes.append("whether a step has the same number of samples in both runs is not known")
    changed = [run for run in (before.manifest, after.manifest) if run and run.git_dirty]
    commits = {run.git_commit for run in changed}
    is_one = len(changed) == 2 and len(commits) == 1 and None not in commits
    if is_one and not edited(before, after):
        notes.append("both runs had uncommitted changes: whether the source is the same is unknown")
    for name, run in (("first", before), ("second", after)):
        use = machine_use(run)
        if why := busy_host(run):
            notes.append(f"the host was busy during the {name} run: {why}")
        elif use.tree_cores is None and use.pressure is None:
            notes.append(f"how busy the host was during the {name} run is not known")
    return tuple(notes)


def notes_of_traces(before: Facts, after: Facts) -> tuple[str, ...]:
    """Notes on a comparison of two traces, or of a run and a trace."""
    notes = ["one trace each: no confidence interval", "profiled steps take longer than others"]
    for name, side in (("first", before), ("second", after)):
        if side.run is not None:
            notes.append(f"only the newest window of the {name} run is compared")
        elif (properties := side.analysis) is not None and len(properties.ranks) > 1:
            notes.append(f"the {name} trace has several ranks")
    notes.append("a trace has no telemetry, losses or loader arguments")
    return (*notes, "whether a step is the same work on both sides is not known")


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
    """Differences of machine, versions, command and source, between two runs."""
    repeats: Repeats | None = None
    """Several runs on each side; None where each is one."""

    @property
    def headline(self) -> str:
        """The ratio first, wherever there is one: ``1.43x faster, not certain``."""
        found, word = self.estimate, self.verdict
        if self.repeats is not None and found is not None and word is not Verdict.INCONCLUSIVE:
            return self.repeats.verdict.headline
        ratio = found.ratio if found is not None else self.speedup
        if ratio is None:
            return "not certain"
        if word is Verdict.NO_CLEAR_DIFFERENCE:
            return f"no clear difference ({ratio:.2f}x)"
        interval = f" ({found.low:.2f} to {found.high:.2f})" if found is not None else ""
        certain = ", not certain" if word is Verdict.INCONCLUSIVE else ""
        return f"{speed_text(ratio)}{interval}{certain}"

    @property
    def basis(self) -> str:
        """Of which step ``speedup`` is, where the mean and the usual one have different ratios;
        else empty."""
        ratios = _ratios(*self.steps)
        if self.speedup is None or ratios is None or ratios.opposite or self.estimate is not None:
            return ""
        if abs(math.log(ratios.mean / ratios.usual)) < SAME:
            return ""
        usual = f"{ratios.usual:.2f}x without the slowest and the fastest tenth of the steps"
        return f"the mean step {ratios.mean:.2f}x, {usual}: the smaller change counts"

    @cached_property
    def edit(self) -> FixOption | None:
        """What a person changed in the source between both runs; see ``own_edit``."""
        return own_edit(self.before, self.after)

    @cached_property
    def proof(self) -> Proof | None:
        """What pairs of runs came to for the change of the second run, a fix or a person's edit;
        None where it was not tried so."""
        first, second, edit = self.before.run, self.after.run, self.edit
        names = {second.manifest.name if second else None, edit.title if edit else None} - {None}
        if first is None or second is None or len(names) != 1:
            return None
        titles = [*names, *(patch.title for patch in written_between(self.before, self.after))]
        found = (proof_of_change(trials_of(first.root), title or "") for title in titles)
        return next(filter(None, found), None)

    @property
    def proven(self) -> str | None:
        """``proof`` in words."""
        if self.proof is None:
            return None
        pairs = fmt.several(len(self.proof.pairs), "pair")
        return f"{self.proof.title}: {self.proof.headline}, by {pairs} of runs"

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
        """Operators of the mean step by ``operators_by``: first those with another number of calls,
        the most changed first, on the GPU where one was used, else on the CPU; empty without
        ``tables``."""
        if self.tables is None:
            return ()
        first, second = self.tables
        before, after = self._shaped or (first.operators, second.operators)
        changes = _changes(_operators(before, first.steps), _operators(after, second.steps))
        on_gpu = any(row.before.gpu_ns or row.after.gpu_ns for row in changes)
        ordered = _ordered(changes, on_gpu=on_gpu)
        return tuple(sorted(ordered, key=lambda row: row.is_called_alike))

    @property
    def operators_by_cpu(self) -> tuple[WorkChange, ...]:
        """``operators``, in order of their time on the CPU."""
        by_time = sorted(self.operators, key=lambda row: -abs(row.cpu_ns))
        return tuple(sorted(by_time, key=lambda row: row.is_called_alike))

    @property
    def operators_by(self) -> Literal["name", "name and shapes"]:
        """``name``, or ``name and shapes`` where both sides have recorded shapes."""
        return "name and shapes" if self._shaped else "name"

    @property
    def table_notes(self) -> tuple[str, ...]:
        """What ``operators`` and ``kernels`` do not show."""
        if self.tables is None:
            return ()
        steps, shapes = [side.steps for side in self.tables], self._by_shape
        notes = []
        if 1 in steps:
            names = ("each", "the first", "the second")
            which = names[0 if steps == [1, 1] else 1 + steps.index(1)]
            notes = [f"only one step of {which} side was profiled: times of operators may be noise"]
        if bool(shapes[0]) != bool(shapes[1]):
            which = "first" if shapes[0] else "second"
            notes += [f"operators are compared by name: only the {which} side has recorded shapes"]
        return tuple(notes)

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
        """Kernels, copies and sets of the mean step, the most changed first; empty without
        ``tables``."""
        amounts = [_kernels(side.kernels, side.steps) for side in self.tables or ()]
        return _ordered(_changes(*amounts), on_gpu=True) if amounts else ()

    @cached_property
    def operators_whole(self) -> Whole | None:
        """The whole of ``operators``, their own times; None without any."""
        if not self.operators:
            return None
        before, after = _sums(self.operators)
        return Whole("time in operators, all threads", before.cpu_ns, after.cpu_ns)

    @cached_property
    def kernels_whole(self) -> Whole | None:
        """The time that ``kernels`` are parts of; None without any."""
        if self.tables is None or not self.kernels:
            return None
        first, second = (side.busy // max(side.steps, 1) for side in self.tables)
        before, after = _sums(self.kernels)
        return Whole("GPU busy", first, second, before.gpu_ns - first, after.gpu_ns - second)

    @cached_property
    def figures(self) -> tuple[FigureChange, ...]:
        """Memory, data loader and use of the machine that are known of one side at least; memory
        by category only where of both."""
        sides = dict(_figures(self.before)), dict(_figures(self.after))
        names = dict.fromkeys((*sides[0], *sides[1]))
        return (
            *(FigureChange(*key, sides[0].get(key), sides[1].get(key)) for key in names),
            *_by_category(self.before, self.after),
        )

    @property
    def estimate(self) -> Estimate | None:
        """The ratio and its interval by pairs of runs; None with fewer than six of them."""
        return self.repeats.verdict.estimate if self.repeats else None


def compare(before: Facts, after: Facts) -> Comparison:
    """Compare the steady training steps of two runs or traces.

    One run each gives no confidence interval: pooling their steps would call a difference
    significant in up to half of all cases where there is none. The verdict therefore asks for more
    than two runs of one program differ by."""
    both_runs = _both_runs(before, after)
    first, second = steps = _step(before, both_runs), _step(after, both_runs)
    unlike = "" if both_runs else _other_clocks(before, after)
    ratios = _ratios(first, second) if not unlike else None
    rows = differing(conditions(before), conditions(after)) if both_runs else ()
    rows += tuple(edited(before, after)) if both_runs else ()
    verdict, reason = _judge(before, after, steps, ratios, unlike, rows)
    return Comparison(
        before,
        after,
        steps,
        ratios.cautious if ratios else None,
        verdict,
        reason,
        _phases(first, second) if not unlike else (),
        in_force_changes(in_force(before), in_force(after)) if both_runs else (),
        notes_of_runs(before, after) if both_runs else notes_of_traces(before, after),
        rows,
    )


def _both_runs(before: Facts, after: Facts) -> bool:
    return before.run is not None and after.run is not None


def _step(facts: Facts, of_run: bool) -> StepBreakdown | None:
    """The mean step as the training thread has it, or as the trace has."""
    if of_run:
        return step_breakdown(facts)
    steps = trace_steps.or_none(facts)
    return steps.breakdown if steps else None


def _other_clocks(before: Facts, after: Facts) -> str:
    """Why the steps of two traces cannot be compared, empty where nothing is against it."""
    traced = [trace_steps.or_none(side) for side in (before, after)]
    for name, side, steps in zip(("first", "second"), (before, after), traced, strict=True):
        if steps is None and side.run is not None:
            return f"no window of the {name} run was profiled, and a trace has no other steps"
        if steps is None:
            return f"the {name} trace has no duration"
    first, second = traced
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
    names = dict.fromkeys(name for side in (before, after) for name, _ in side.parts)
    return tuple(PhaseChange(name, before.part(name), after.part(name)) for name in names)


def _judge(
    before: Facts,
    after: Facts,
    steps: tuple[StepBreakdown | None, StepBreakdown | None],
    ratios: Ratios | None,
    unlike: str,
    rows: Sequence[Difference],
) -> tuple[Verdict, str]:
    if unlike:
        return Verdict.INCONCLUSIVE, unlike
    counts = [step.count if step else 0 for step in steps]
    if min(counts) < FEWEST_STEPS:
        return Verdict.INCONCLUSIVE, _too_few((before, after), counts)
    if ratios is None:
        return Verdict.INCONCLUSIVE, "a run has steps of zero length"
    if _both_runs(before, after):
        unlike = (
            other_work(conditions(before), conditions(after))
            or other_machine(rows)
            or missed(after)
            or busy(before, after)
        )
    if unlike:
        return Verdict.INCONCLUSIVE, unlike
    # Where steps grow or a host changes, a run does not tell how long the next one's would be.
    noise, drift = noise_of(min(counts)), max(step.drift for step in steps if step)
    which = "two runs of one program" if drift <= noise else "parts of one of these runs"
    verdict, reason = _by_size(ratios, max(noise, min(drift, NOISE_FEW)), which)
    is_decided = verdict in (Verdict.FASTER, Verdict.SLOWER)
    if is_decided and not rows and _is_one_program(before, after):
        return Verdict.INCONCLUSIVE, "both runs are of one program: so much do runs differ here"
    return verdict, reason


def _is_one_program(before: Facts, after: Facts) -> bool:
    """Whether both runs keep copies of the same source, and ran it with the same changes."""
    if in_force_changes(in_force(before), in_force(after)):
        return False
    changes = [side.manifest.overrides for side in (before, after) if side.manifest]
    copies = compared_sources(before, after)
    return changes[:1] == changes[1:] and bool(copies) and not any(copies.values())


def _too_few(sides: tuple[Facts, Facts], counts: Sequence[int]) -> str:
    number = 0 if counts[0] <= counts[1] else 1
    if not counts[number] and not _both_runs(*sides):
        return "these traces have no marks that show their steps: the whole traces are compared"
    which = ("first", "second")[number]
    what = "run" if sides[number].run is not None else "trace"
    return f"the {which} {what} has {fmt.several(counts[number], 'steady step')} of {FEWEST_STEPS}"


def _by_size(ratios: Ratios, noise: float, which: str) -> tuple[Verdict, str]:
    """The usual step has to have changed by more than noise, and so has the time of all steps."""
    usual = f"{which} differ by up to {fmt.percent(noise)}"
    beyond = math.log1p(noise)
    if abs(math.log(ratios.cautious)) > beyond:
        return (Verdict.FASTER if ratios.cautious > 1 else Verdict.SLOWER), f"beyond noise: {usual}"
    if max(abs(math.log(ratios.mean)), abs(math.log(ratios.usual))) <= beyond:
        return Verdict.NO_CLEAR_DIFFERENCE, usual
    unlike = "the mean step and the usual step changed in opposite directions"
    return Verdict.NO_CLEAR_DIFFERENCE, unlike if ratios.opposite else usual


_OF_TRIAL = {
    Outcome.FASTER: Verdict.FASTER,
    Outcome.SLOWER: Verdict.SLOWER,
    Outcome.NO_DIFFERENCE: Verdict.NO_CLEAR_DIFFERENCE,
    Outcome.INCONCLUSIVE: Verdict.INCONCLUSIVE,
}


def with_repeats(result: Comparison, repeats: Repeats) -> Comparison:
    """The comparison ``result``, beside other runs of both sides.

    With pairs enough they decide, as those of a trial; what forbids the comparison of the two still
    does."""
    if min(len(repeats.before), len(repeats.after)) < 1 or len(repeats.ratios) < 1:
        return result
    if max(len(repeats.before), len(repeats.after)) == 1 and not repeats.left_out:
        return result
    notes = (*repeats.notes, *(note for note in result.notes if note != ONE_RUN_EACH))
    repeated = replace(result, repeats=repeats, notes=notes)
    verdict = repeats.verdict
    if verdict.estimate is None or result.verdict is Verdict.INCONCLUSIVE:
        return repeated
    word = _OF_TRIAL[verdict.outcome]
    reason = f"by {fmt.several(verdict.estimate.pairs, 'pair')} of runs"
    return replace(repeated, verdict=word, reason=reason, speedup=verdict.estimate.ratio)
