"""The runs of a trial: in which order, how long, made to their end, and what counts of each."""

from __future__ import annotations

import enum
import math
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count, pairwise
from pathlib import Path
from statistics import median

from perftui import format as fmt
from perftui.experiments.noise import FEWEST_STEPS
from perftui.experiments.restore import restore
from perftui.facts.cpu.machine import busy_host
from perftui.facts.events import notes_of
from perftui.facts.fact import Facts
from perftui.facts.gpu.cards import Card, cards
from perftui.facts.peak_memory import PeakMemory, peak_memory
from perftui.facts.step.steps import steady_rows, steady_span, steady_step
from perftui.recorder.launch import Launch, start
from perftui.run.control import STOP, request
from perftui.run.layout import RunLayout
from perftui.run.manifest import Manifest, Status, StopReason, run_state, wait_until_over
from perftui.run.reader import RunReader, RunSnapshot

RUN_SECONDS = 5.0
"""Steady time of each run, where the training is long enough."""

WARM_UP = 30
"""Steps beside the steady ones: by experience the first few epochs of a loader, and compilation."""

LOSSES = 20
"""Steps of each run whose losses are compared: most fixes that go wrong show at once."""

MANY_STEPS = 2_000
"""Steady steps beyond which more of them tell nothing new."""


class Arm(str, enum.Enum):
    """The training as it is, and with the change."""

    BEFORE = "before"
    AFTER = "after"


@dataclass(frozen=True)
class TrialRun:
    """One run of a trial that is over."""

    arm: Arm
    root: Path
    step_ns: int
    """Time of a training step, with whatever the script does between steps."""
    losses: tuple[float, ...] = ()
    """Of the first steps, each the sum over its backward passes."""
    start_ns: int | None = None
    """Until its steps were steady, without their time; None where that is not known."""
    memory: PeakMemory | None = None
    disturbed: str = ""
    """What disturbed it; empty where nothing is known to."""
    clock: float | None = None
    """Mean clock of its GPU over the highest; None where that was not sampled."""


def order() -> Iterator[tuple[Arm, Arm]]:
    """Pairs without end, every other one turned around: what changes steadily, such as the heat of
    the machine, then falls out."""
    for number in count():
        pair = (Arm.BEFORE, Arm.AFTER)
        yield pair if number % 2 == 0 else pair[::-1]


def runs_of(pairs: int, pairs_of_run: int | None = None) -> int:
    """How many runs so many pairs take: one before all others and two each, or fewer where a run
    has so many pairs of blocks."""
    return 1 + 2 * pairs if pairs_of_run is None else math.ceil(pairs / pairs_of_run)


def steps_of_each(run: Facts, seconds: float | None = None) -> int:
    """How many training steps the runs of a trial should make, by one that was recorded: so many
    ``seconds`` of steady ones, by default ``RUN_SECONDS``.

    Raises:
        UnknownError: it has too few steps to know.
    """
    steady = steady_step(run)
    wanted = round((seconds or RUN_SECONDS) * 1e9 / max(steady.mean, 1))
    return WARM_UP + min(max(wanted, FEWEST_STEPS), MANY_STEPS)


def shortened(launch: Launch, runs: Path, steps: int) -> Launch:
    """``launch`` for a trial: so many steps, without windows and samples, kept in ``runs``;
    what it writes to is given back by ``restore``."""
    options = replace(
        launch.options, profile=False, max_steps=steps, spares_files=True, losses=LOSSES
    )
    return replace(launch, runs=runs, options=options, stack_samples_per_second=0)


def step_time(run: Facts) -> int | None:
    """Time from one steady step to the next, ns, evaluation and saving between them included; None
    where there are too few steps."""
    rows = steady_rows(run)
    if len(rows) < FEWEST_STEPS:
        return None
    last = rows["start"].argmax()
    whole = int(rows["start"][last] + rows["duration"][last]) - int(rows["start"].min())
    return whole // len(rows)


def noise(runs: list[TrialRun]) -> float | None:
    """By how much two runs in turn of the same arm differ, the median, as a share; None where none
    were."""
    in_turn = [
        (one.step_ns, other.step_ns) for one, other in pairwise(runs) if one.arm is other.arm
    ]
    return spread(in_turn)


def spread(series: Iterable[Sequence[int]]) -> float | None:
    """By how much two in turn of the steps of each series differ, the median, as a share; None
    without any two."""
    alike = [abs(math.log(one / other)) for steps in series for one, other in pairwise(steps)]
    return math.expm1(median(alike)) if alike else None


STOP_SECONDS = 60.0
"""How long a training may take to stop: it may be saving a checkpoint."""


class TrialError(RuntimeError):
    """The trial cannot go on; the message says why."""


class TrialCancelledError(RuntimeError):
    """Nobody waits for the trial any more; its training was stopped."""


def finished(launch: Launch, cancelled: threading.Event) -> tuple[Path, Manifest]:
    """Run ``launch`` to its end and give back what it wrote to; its directory and manifest.

    Raises:
        TrialCancelledError: ``cancelled`` was set; the training was stopped.
        OSError: it cannot be started, or a file not be given back.
    """
    root = start(launch)
    try:
        manifest = wait_until_over(root, float("inf"), cancelled)
    finally:
        # Also where the wait is interrupted.
        _stop(root)
        restore(root)
    if cancelled.is_set():
        raise TrialCancelledError
    return root, manifest


def run_at(root: Path) -> RunSnapshot:
    """The run in the directory ``root``."""
    return RunReader(root).poll()


def facts_of(root: Path) -> Facts:
    """The facts of the run in ``root``, without its windows."""
    return Facts(run_at(root), None)


def _stop(root: Path) -> None:
    """Ask the training to end where it has not, and wait until it has."""
    if not run_state(root).status.is_over:
        request(RunLayout(root), STOP, reason=StopReason.USER)
        wait_until_over(root, STOP_SECONDS)


def run_seconds(run: Facts, steps: int) -> float | None:
    """How long a run of ``steps`` steps takes, its start included, by one that was recorded; None
    where that is not known."""
    steady, start = steady_step.or_none(run), start_ns(run)
    return None if steady is None or start is None else (start + steps * steady.mean) / 1e9


def start_ns(run: Facts) -> int | None:
    """From the start of the command to where steps are steady, ns, without as much as that many
    steady steps take: imports, making of the model, compilation; None where that is not known."""
    steady, span = steady_step.or_none(run), steady_span.or_none(run)
    if steady is None or span is None or run.manifest is None:
        return None
    warming_up = int((run.steps["start"] < span[0]).sum())
    return max(0, round(span[0] - run.manifest.started_ns - warming_up * steady.mean))


HOT = 0.05
"""Share of the samples in which heat has to hold clocks down to be told."""

CLOCKS_APART = 0.03
"""Share by which the clocks of both arms have to differ to be told: as much as a gain worth it."""

OTHERS = 1 << 30
"""Bytes of a card that other processes hold: a context alone takes half of that."""


def disturbance(run: Facts) -> str:
    """What disturbed one run; empty where nothing is known to."""
    if busy := busy_host(run):
        return f"the host was busy: {busy}"
    return next(filter(None, map(_of_card, cards(run))), "")


def clock(run: Facts) -> float | None:
    """Mean clock of the slowest card of a run over its highest, while it computed; None where that
    was not sampled."""
    return min((one.clock for one in cards(run) if one.clock is not None), default=None)


def disturbance_notes(runs: Sequence[TrialRun]) -> tuple[str, ...]:
    """What to know of the ``runs`` of a trial, for a person."""
    disturbed = [run.disturbed for run in runs if run.disturbed]
    found = []
    if disturbed:
        of = f"in {len(disturbed)} of {fmt.several(len(runs), 'run')}"
        found.append(f"{disturbed[-1]} ({of})")
    return (*found, *_clocks(runs))


def _of_card(card: Card) -> str:
    if card.thermal is not None and card.thermal >= HOT:
        return f"heat throttled the clocks of {card.name}"
    if card.memory_others is not None and card.memory_others >= OTHERS:
        return f"other processes hold {fmt.size(card.memory_others)} of {card.name}"
    return ""


def _clocks(runs: Sequence[TrialRun]) -> tuple[str, ...]:
    """Where both arms did not run at the same clock."""
    before, after = (
        [run.clock for run in runs if run.arm is arm and run.clock is not None] for arm in Arm
    )
    if not before or not after:
        return ()
    old, new = median(before), median(after)
    if abs(new / old - 1) < CLOCKS_APART:
        return ()
    told_clocks = f"{fmt.percent(old)} of its maximum before and {fmt.percent(new)} after"
    return (f"the GPU's clock was {told_clocks} the change",)


def measured(arm: Arm, launch: Launch, cancelled: threading.Event) -> TrialRun:
    """One run of ``launch`` to its end.

    Raises:
        TrialError: it failed, or made too few steps to judge.
        TrialCancelledError: ``cancelled`` was set.
        OSError: it cannot be started.
    """
    root, manifest = finished(launch, cancelled)
    if manifest.status is not Status.EXITED or manifest.exit_code:
        code = "" if manifest.exit_code is None else f" with exit code {manifest.exit_code}"
        raise TrialError(f"a run {arm.value} the change ended{code}: see {root}")
    facts = facts_of(root)
    found = step_time(facts)
    if found is None:
        raise TrialError(f"a run {arm.value} the change had too few steps to judge: see {root}")
    return TrialRun(
        arm,
        root,
        found,
        losses(facts),
        start_ns(facts),
        peak_memory.or_none(facts),
        disturbance(facts),
        clock(facts),
    )


def losses(facts: Facts) -> tuple[float, ...]:
    """Of the first steps of the rank that went backward, in order, each the sum over its backward
    passes; empty where they were not kept, or were no single numbers. What was no finite number is
    nan or infinite."""
    notes = notes_of(facts.events, "losses")
    values = notes[0].get("values") if notes else None
    return tuple(map(float, values)) if isinstance(values, list) else ()
