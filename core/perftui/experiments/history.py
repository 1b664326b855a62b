"""A run among others of its command: whether it is slower, since when, and what pairs come to."""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path

import numpy as np

from perftui import format as fmt
from perftui.experiments.conditions import (
    Conditions,
    Difference,
    InForce,
    conditions,
    differing,
    in_force,
    in_force_changes,
    other_machine,
    other_work,
)
from perftui.experiments.trial_runs import spread
from perftui.experiments.trial_verdict import (
    FEWEST_STEPS,
    Ratios,
    TrialVerdict,
    judge,
    next_look,
    noise_of,
)
from perftui.facts.cpu.machine import busy_host
from perftui.facts.fact import Facts
from perftui.facts.step.steps import robust_spread, step_breakdown
from perftui.run.manifest import Manifest, ManifestError
from perftui.run.reader import RunEntry, RunReader, list_runs

# The logarithms of step times are gone through in order. Runs within the noise are the usual ones:
# their median is what is usual, their median absolute deviation gives the noise, since a cold first
# run or a disturbed one must move neither. A run beyond the noise begins an interval of slow runs,
# and those after it that stay beyond half of the noise belong to it.

FEWEST_RUNS = 5
"""Earlier runs that can be compared, below which nothing is certain."""

DEVIATIONS = 3.0
"""Robust standard deviations (1.4826 times the median absolute deviation) that noise stays within.
Where two runs differ by up to 6 %, fewer than 1 in 100 are called slower without being so, and 86
in 100 that are 10 % slower; 4 deviations would find 74 of those. docs/experiments.md has all
rates."""


class Standing(str, enum.Enum):
    """Where a run lies among those before it."""

    UNKNOWN = "unknown"
    """Too few runs came before it."""
    USUAL = "usual"
    SLOWER = "slower"
    FASTER = "faster"


@dataclass(frozen=True)
class Level:
    """One run beside earlier runs."""

    place: Standing
    usual_ns: float | None = None
    """Median step of the usual runs before it; None where they are too few."""
    noise: float | None = None
    """The share by which a step has to be longer than that to count as slower."""
    since: int | None = None
    """For a slower run, the number of the first run of its slow interval."""


def levels(steps: Sequence[int], floors: Sequence[float]) -> list[Level]:
    """The level of each run, by those before it.

    Args:
        steps: usual step of each run in ns, > 0, the oldest run first.
        floors: shares that two runs of one program may always differ by, one for each.
    """
    usual: list[float] = []
    fast: list[float] = []
    slow_since: int | None = None
    result = []
    for number, (step, floor) in enumerate(zip(map(math.log, steps), floors, strict=True)):
        if len(usual) < FEWEST_RUNS:
            usual.append(step)
            result.append(Level(Standing.UNKNOWN))
            continue
        middle, deviation = robust_spread(np.array(usual))
        noise = max(math.log1p(floor), DEVIATIONS * deviation)
        longer = step - middle
        if longer > (noise if slow_since is None else noise / 2):
            place = Standing.SLOWER
            slow_since = number if slow_since is None else slow_since
        else:
            place = Standing.FASTER if longer < -noise else Standing.USUAL
            slow_since = None
        # After so many faster runs in a row, they are what is usual.
        fast = [*fast, step] if place is Standing.FASTER else []
        if place is Standing.USUAL:
            usual.append(step)
        if len(fast) == FEWEST_RUNS:
            usual, fast = fast, []
        result.append(Level(place, math.exp(middle), math.expm1(noise), slow_since))
    return result


def earlier_runs_of(root: Path, manifest: Manifest) -> Iterator[RunEntry]:
    """The runs of ``runs_of`` that started before this one."""
    for entry in runs_of(root, manifest):
        if entry.manifest is not None and entry.manifest.started_ns < manifest.started_ns:
            yield entry


def runs_of(root: Path, manifest: Manifest) -> Iterator[RunEntry]:
    """The runs beside ``root`` that have ended and ran the same command to the same end, newest
    first. Machine, versions and source may differ."""
    ran = what_ran(manifest)
    for entry in list_runs(root.parent):
        other = entry.manifest
        if other is None or entry.root.name == root.name or not other.status.is_over:
            continue
        if what_ran(other) == ran:
            yield entry


def what_ran(manifest: Manifest) -> tuple[object, ...]:
    """What two runs of one command have in common: the words after the interpreter, the directory,
    the exit code and what fixes changed."""
    changed = manifest.overrides, manifest.patched
    return manifest.command[1:], manifest.cwd, manifest.exit_code, *changed


MOST_RUNS = 30
"""Earlier runs that are read, the newest first: 15 ms each. A slower level that has lasted so long
is what is usual."""


@dataclass(frozen=True)
class PastRun:
    """The facts that are kept of one run of many."""

    root: Path
    conditions: Conditions
    in_force: InForce
    steps: int
    """Steady steps."""
    mean_ns: int | None
    """Mean steady step; None without any."""
    usual_ns: int | None
    """``mean_ns`` without the slowest and the fastest tenth of the steps."""
    busy: str = ""
    """Why its host was too busy to measure on; empty where it was not."""

    @property
    def run_id(self) -> str:
        """The name of its directory."""
        return self.root.name

    @property
    def started_ns(self) -> int:
        """When it began, ns since the epoch."""
        return self.conditions.manifest.started_ns

    @property
    def unusable(self) -> str:
        """Why its steps say nothing, empty where they do."""
        if self.steps < FEWEST_STEPS or not self.usual_ns:
            return f"fewer than {FEWEST_STEPS} steady steps"
        return f"the host was busy: {self.busy}" if self.busy else ""


@dataclass(frozen=True)
class LeftOut:
    """An earlier run that is not compared with."""

    run: str
    why: str


@dataclass(frozen=True)
class History:
    """A run and the earlier ones of its command."""

    now: PastRun
    before: tuple[PastRun, ...]
    """The earlier runs that it can be compared with, the oldest first."""
    left_out: tuple[LeftOut, ...]

    @cached_property
    def level(self) -> Level | None:
        """The run's level among them; None where its own steps say nothing."""
        if self.now.unusable:
            return None
        runs = (*self.before, self.now)
        steps, floors = [run.usual_ns or 1 for run in runs], [noise_of(run.steps) for run in runs]
        return levels(steps, floors)[-1]

    @property
    def slower(self) -> float | None:
        """Share by which its step is longer than before; None if it is not, or not certainly."""
        level, step = self.level, self.now.usual_ns
        if level is None or level.place is not Standing.SLOWER or not level.usual_ns or not step:
            return None
        return step / level.usual_ns - 1

    @property
    def first_slow(self) -> PastRun | None:
        """The first run since which they are slower; None where this one is not slower."""
        since = self.level.since if self.level else None
        return None if since is None else (*self.before, self.now)[since]

    @property
    def last_before(self) -> PastRun | None:
        """The run before ``first_slow``, else the newest earlier one; None without any."""
        since = self.level.since if self.level else None
        upto = self.before if since is None else self.before[:since]
        return upto[-1] if upto else None

    @property
    def differences(self) -> tuple[Difference, ...]:
        """What changed where the runs became slower, else since the newest earlier run."""
        last, first = self.last_before, self.first_slow or self.now
        return differing(last.conditions, first.conditions) if last else ()

    @property
    def changes(self) -> tuple[str, ...]:
        """What changed in the set-up of the training between the same runs."""
        last, first = self.last_before, self.first_slow or self.now
        return in_force_changes(last.in_force, first.in_force) if last else ()


def past_run(run: Facts) -> PastRun:
    """What is kept of ``run``. Not applicable to a trace without a run."""
    made_with, mean = conditions(run), step_breakdown(run)
    return PastRun(
        run.run.root if run.run else Path(),
        made_with,
        in_force(run),
        mean.count if mean else 0,
        mean.mean or None if mean else None,
        mean.usual or None if mean else None,
        busy_host(run),
    )


def read_past_run(root: Path) -> PastRun | None:
    """What is kept of the run in the directory ``root``; None where it cannot be read."""
    try:
        return past_run(Facts(RunReader(root).poll()))
    except (ManifestError, OSError):
        return None


def history_of(root: Path, run: Facts) -> History:
    """``run`` in the directory ``root`` among the earlier runs beside it. Not applicable to a trace
    without a run."""
    now = past_run(run)
    earlier = islice(earlier_runs_of(root, now.conditions.manifest), MOST_RUNS)
    return among(now, (read_past_run(entry.root) for entry in earlier))


def among(now: PastRun, earlier: Iterable[PastRun | None]) -> History:
    """``now`` among ``earlier`` runs of its command, the newest first."""
    before: list[PastRun] = []
    left_out: list[LeftOut] = []
    for run in filter(None, earlier):
        why = run.unusable or unlike(run, now)
        if why:
            left_out.append(LeftOut(run.run_id, why))
        else:
            before.append(run)
    return History(now, tuple(reversed(before)), tuple(left_out))


def listed(entries: Iterable[RunEntry]) -> dict[Path, History]:
    """The history by directory, for runs of ``entries`` that have ended and can be read."""
    runs: list[PastRun] = []
    for entry in entries:
        if entry.manifest is not None and entry.manifest.status.is_over:
            runs += filter(None, [read_past_run(entry.root)])
    result = {}
    for at, run in enumerate(runs):
        ran = what_ran(run.conditions.manifest)
        same = (other for other in runs[at + 1 :] if what_ran(other.conditions.manifest) == ran)
        result[run.root] = among(run, islice(same, MOST_RUNS))
    return result


def unlike(before: PastRun, after: PastRun) -> str:
    """Why the steps of both cannot be compared, empty where nothing is against it."""
    first, second = before.conditions, after.conditions
    return other_machine(differing(first, second)) or other_work(first, second)


@dataclass(frozen=True)
class Repeats:
    """The runs before and after a change, in the order of their starts."""

    before: tuple[PastRun, ...]
    after: tuple[PastRun, ...]
    left_out: tuple[LeftOut, ...] = ()
    """Runs that were named and cannot be used, and why."""

    @property
    def ratios(self) -> list[float]:
        """Step before over step after of each pair: the first of both sides, the second..."""
        return [_ratio(old, new) for old, new in zip(self.before, self.after, strict=False)]

    @property
    def verdict(self) -> TrialVerdict:
        """The verdict of a trial with these pairs, given what runs of one side differ by."""
        steps = ([run.usual_ns or 0 for run in side] for side in (self.before, self.after))
        return judge(self.ratios, spread(steps) or 0.0)

    @property
    def notes(self) -> Iterator[str]:
        """The runs of each side, and what limits their comparison."""
        for name, side in (("before", self.before), ("after", self.after)):
            if len(side) > 1:
                steps = [run.usual_ns or 0 for run in side]
                usual = f"usual step {fmt.duration(min(steps))} to {fmt.duration(max(steps))}"
                yield f"{name}: {fmt.several(len(side), 'run')}, {usual}"
        for run in self.left_out:
            yield f"{run.run} was left out: {run.why}"
        pairs = len(self.ratios)
        if pairs < (fewest := next_look(0) or 0):
            several = fmt.several(pairs, "pair")
            yield f"{several} of runs: a confidence interval takes {fewest}"
        elif self.before[-1].started_ns < self.after[0].started_ns:
            yield (
                "all runs before were made before all runs after: what changed on the machine "
                "meanwhile counts as a difference"
            )


def repeats_of(before: Sequence[Path], after: Sequence[Path]) -> Repeats:
    """The runs that were named on each side."""
    first, left_out = _usable(before)
    second, others = _usable(after)
    return Repeats(first, second, (*left_out, *others))


def _usable(roots: Sequence[Path]) -> tuple[tuple[PastRun, ...], tuple[LeftOut, ...]]:
    """The runs of one side that can be compared with its first, and the others."""
    runs = [run for run in map(read_past_run, roots) if run is not None]
    why = {run.run_id: run.unusable or unlike(runs[0], run) for run in runs}
    usable = _in_order(run for run in runs if not why[run.run_id])
    return usable, tuple(LeftOut(run, reason) for run, reason in why.items() if reason)


def found_repeats(before: PastRun, after: PastRun) -> Repeats:
    """Runs beside both that differ from them in nothing known, and whose source is known to be the
    same: one commit without changes. If both sides repeat each other there are none."""
    if is_repeat(before, after):
        return Repeats((before,), (after,))
    return Repeats(_with_repeats(before, after), _with_repeats(after, before))


def is_repeat(one: PastRun, other: PastRun) -> bool:
    """Whether both ran the same, of the same source, on the same machine."""
    first, second = one.conditions, other.conditions
    return (
        first.manifest.git_commit is not None
        and first.manifest.git_dirty is False
        and what_ran(first.manifest) == what_ran(second.manifest)
        and first.manifest.git_commit == second.manifest.git_commit
        and not differing(first, second)
        and not unlike(one, other)
        and one.in_force == other.in_force
    )


def _with_repeats(one: PastRun, other: PastRun) -> tuple[PastRun, ...]:
    entries = runs_of(one.root, one.conditions.manifest)
    roots = (entry.root for entry in entries if entry.root.name != other.run_id)
    read = filter(None, map(read_past_run, islice(roots, MOST_RUNS)))
    return _in_order([one, *(run for run in read if not run.unusable and is_repeat(one, run))])


def _in_order(runs: Iterable[PastRun]) -> tuple[PastRun, ...]:
    return tuple(sorted(runs, key=lambda run: run.started_ns))


def _ratio(before: PastRun, after: PastRun) -> float:
    ratios = Ratios(
        (before.mean_ns or 1) / (after.mean_ns or 1), (before.usual_ns or 1) / (after.usual_ns or 1)
    )
    return ratios.cautious
