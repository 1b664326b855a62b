"""Several runs on each side of a comparison, and what their pairs come to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from perftui import format as fmt
from perftui.experiments.conditions import Conditions, differing
from perftui.experiments.history import (
    MOST_RUNS,
    LeftOut,
    PastRun,
    read_past_run,
    runs_of,
    unlike,
    what_ran,
)
from perftui.experiments.noise import Ratios
from perftui.experiments.trial_runs import spread
from perftui.experiments.verdict import TrialVerdict, judge, next_look


@dataclass(frozen=True)
class Repeats:
    """Runs before and after, those that are compared among them, in the order of their starts."""

    before: tuple[PastRun, ...]
    after: tuple[PastRun, ...]
    left_out: tuple[LeftOut, ...] = ()
    """Runs that were named and cannot be used, and why."""

    @property
    def ratios(self) -> list[float]:
        """Step before over step after of each pair: the first of both sides, the second..."""
        return [_ratio(one, other) for one, other in zip(self.before, self.after, strict=False)]

    @property
    def verdict(self) -> TrialVerdict:
        """As that of a trial of so many pairs, beside what two runs of one side differ by."""
        steps = ([one.usual_ns or 0 for one in side] for side in (self.before, self.after))
        return judge(self.ratios, spread(steps) or 0.0)

    @property
    def notes(self) -> Iterator[str]:
        """Which they are, and what limits what they say."""
        for name, side in (("before", self.before), ("after", self.after)):
            if len(side) > 1:
                yield f"{name}: {fmt.several(len(side), 'run')}, {_range(side)}"
        for one in self.left_out:
            yield f"{one.run} was left out: {one.why}"
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
    found = [one for one in map(read_past_run, roots) if one is not None]
    why = {one.run_id: one.unusable or unlike(found[0], one) for one in found}
    usable = _in_order(one for one in found if not why[one.run_id])
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
        _is_committed(first)
        and what_ran(first.manifest) == what_ran(second.manifest)
        and first.manifest.git_commit == second.manifest.git_commit
        and not differing(first, second)
        and not unlike(one, other)
        and one.in_force == other.in_force
    )


def _is_committed(conditions: Conditions) -> bool:
    manifest = conditions.manifest
    return manifest.git_commit is not None and manifest.git_dirty is False


def _with_repeats(one: PastRun, other: PastRun) -> tuple[PastRun, ...]:
    found = runs_of(one.root, one.conditions.manifest)
    beside = (entry.root for entry in found if entry.root.name != other.run_id)
    read = filter(None, map(read_past_run, islice(beside, MOST_RUNS)))
    return _in_order([one, *(each for each in read if not each.unusable and is_repeat(one, each))])


def _in_order(runs: Iterable[PastRun]) -> tuple[PastRun, ...]:
    return tuple(sorted(runs, key=lambda one: one.started_ns))


def _ratio(before: PastRun, after: PastRun) -> float:
    found = Ratios(
        (before.mean_ns or 1) / (after.mean_ns or 1), (before.usual_ns or 1) / (after.usual_ns or 1)
    )
    return found.cautious


def _range(side: Sequence[PastRun]) -> str:
    steps = [one.usual_ns or 0 for one in side]
    return f"usual step {fmt.duration(min(steps))} to {fmt.duration(max(steps))}"
