"""Training steps: where they are, their parts, and which are slow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from perftui.analysis import kinds
from perftui.analysis.gpu_idle.causes import Idle, main_track
from perftui.analysis.intervals import EMPTY, Intervals, subtract, sums, unite
from perftui.analysis.kinds import once
from perftui.analysis.model import GapCause, Step, StepParts
from perftui.analysis.ops.calls import Links
from perftui.trace.model import KERNEL, MEMCPY, NONE, Int64, Mask, Trace

FEWEST_MARKS = 3
"""Fewest optimizer steps that show a rhythm: two steps lie between them."""


def unmarked_steps(trace: Trace) -> tuple[Step, ...]:
    """Steps that end as the optimizer's does, or without an optimizer begin with fetching a batch;
    time before the first and after the last mark is in no step.

    Of several optimizers the one with fewest steps counts, as several may take turns in one
    iteration. If two or more of its steps share a batch, like those of a generator and its
    discriminator, batches count instead; several batches for one step are accumulation.
    """
    stepping = _rarest(trace, kinds.optimizer_steps(trace))
    fetching = _rarest(trace, kinds.fetches(trace))
    if len(stepping) and (not len(fetching) or 2 * len(fetching) > len(stepping) + 1):
        return _between(trace.ends_of(stepping), stepping[1:])
    return _between(trace.start[fetching], fetching[:-1])


def _rarest(trace: Trace, marks: Mask) -> Int64:
    """Rows of the name with fewest ``marks`` on the thread with most time in them, in order of
    time; names with fewer than ``FEWEST_MARKS`` are left out."""
    rows = np.flatnonzero(marks & kinds.believable(trace)) if marks.any() else np.flatnonzero(marks)
    if not len(rows):
        return rows
    times = np.bincount(trace.track[rows], trace.duration[rows])
    rows = rows[trace.track[rows] == np.argmax(times)]
    alike = [same for same in _by_name(trace, rows) if len(same) >= FEWEST_MARKS]
    return min(alike, key=lambda same: (len(same), -trace.duration[same].sum()), default=rows[:0])


def _by_name(trace: Trace, rows: Int64) -> Iterator[Int64]:
    """The rows of each name in order of time, without nested ones."""
    ordered = rows[np.argsort(trace.start[rows], kind="stable")]
    for name in np.unique(trace.name[ordered]).tolist():
        alike = ordered[trace.name[ordered] == name]
        ended = np.maximum.accumulate(trace.ends_of(alike))
        yield alike[np.append(True, trace.start[alike[1:]] >= ended[:-1])]


def _between(times: Int64, rows: Int64) -> tuple[Step, ...]:
    starts, ends = times[:-1].tolist(), times[1:].tolist()
    spans = zip(starts, ends, rows.tolist(), strict=True)
    return tuple(Step(index, start, end, row) for index, (start, end, row) in enumerate(spans))


NEXT_TO_NOTHING = 0.05
"""Share of the recorded work below which step marks do not stand for the recording, or a last step
for those before it."""


def times_of(steps: Sequence[Step]) -> tuple[Int64, Int64]:
    """When each of ``steps`` starts and ends."""
    starts, ends = ([step.start for step in steps], [step.end for step in steps])
    return np.array(starts, dtype=np.int64), np.array(ends, dtype=np.int64)


def held_by(trace: Trace, steps: Sequence[Step]) -> Int64:
    """Number of operators and device calls that begin in each of ``steps`` on the host."""
    # Each thread's rows are in order: merging these takes a fifth of sorting.
    begun = np.sort(trace.start[_work(trace)], kind="stable")
    start, end = times_of(steps)
    return np.searchsorted(begun, end) - np.searchsorted(begun, start)


def are_bogus(trace: Trace, steps: Sequence[Step]) -> bool:
    """Whether ``steps`` hold next to nothing of the host's recorded work and time."""
    rows = np.flatnonzero(_work(trace))
    if not len(rows):
        return False
    recorded = int(trace.ends_of(rows).max() - trace.start[rows].min())
    marked = sum(step.duration for step in steps)
    inside = int(held_by(trace, steps).sum())
    return inside < NEXT_TO_NOTHING * len(rows) and marked < NEXT_TO_NOTHING * recorded


def _work(trace: Trace) -> Mask:
    works: Mask = kinds.operators(trace) | kinds.launches(trace)
    return works & kinds.believable(trace)


def find_steps(trace: Trace) -> tuple[Step, ...]:
    """``ProfilerStep#N`` on the CPU, in order of time; the marks on the device are copies.

    If several threads mark steps of one number, those of the thread with most time in steps count.
    A trace without marks, or whose marks hold next to nothing of it, has the steps of
    ``unmarked_steps``, numbered from 0.
    """
    marks = kinds.ranges_named(trace, kinds.STEP.match)
    if not marks.any():
        return unmarked_steps(trace)
    rows = np.flatnonzero(marks & kinds.believable(trace))
    times = sums(trace.track[rows], trace.duration[rows], len(trace.tracks))
    main = trace.track[rows] == np.argmax(times)
    rows = rows[main | ~np.isin(trace.name[rows], trace.name[rows[main]])]
    ordered = rows[np.argsort(trace.start[rows], kind="stable")]
    numbers = [kinds.STEP.match(trace.name_of(row)) for row in ordered.tolist()]
    steps = tuple(
        Step(int(match[1]) if match else -1, start, end, row)
        for match, start, end, row in zip(
            numbers,
            trace.start[ordered].tolist(),
            trace.ends_of(ordered).tolist(),
            ordered.tolist(),
            strict=True,
        )
    )
    return unmarked_steps(trace) if are_bogus(trace, steps) else steps


def step_source(trace: Trace, steps: Sequence[Step]) -> str:
    """What ``find_steps`` derived the steps from: ``optimizer`` or ``data loader``; empty if they
    are marked, or there are none."""
    name = trace.name_of(steps[0].row) if steps else ""
    if name.startswith(kinds.OPTIMIZER_STEP):
        return "optimizer"
    return "data loader" if kinds.FETCH.match(name) else ""


_TENTHS = 11
"""Tenths of the median from which a step is slow: healthy steps vary by a few percent."""


def median_duration(steps: Sequence[Step]) -> int:
    """The median duration, ns, of a real step (the lower one of two); 0 without steps."""
    ordered = sorted(step.duration for step in steps)
    return ordered[(len(ordered) - 1) // 2] if ordered else 0


def slow_from(steps: Sequence[Step]) -> int:
    """The duration in ns from which a step is slow: a tenth above the median, rounded up."""
    return -(-_TENTHS * median_duration(steps) // 10)


def slow_steps(steps: Sequence[Step]) -> tuple[Step, ...]:
    """Steps that took at least ``slow_from``, in the order given."""
    bound = slow_from(steps)
    return tuple(step for step in steps if step.duration >= bound > 0)


MOSTLY = 0.5
"""Share of launches that must be known: the order of the others is guessed."""


def on_device_clock(
    trace: Trace, links: Links, mine: Mask, steps: Sequence[Step]
) -> tuple[Step, ...]:
    """``steps`` of the host on the clock of the device with activity ``links.activity[mine]``.

    A step begins on the device when everything launched before its start on the host is done: later
    than on the host if work was still queued, at the same time if the device was idle. The queue is
    that of the stream with most computing, as copies and collectives on other streams overtake it.
    Steps stay as they are if few launches of that stream are known.
    """
    rows, launch = _main_stream(trace, links.activity[mine], links.launch[mine])
    linked_rows = launch != NONE
    if not steps or np.count_nonzero(linked_rows) < MOSTLY * len(linked_rows):
        return tuple(steps)
    launched = np.where(linked_rows, trace.start[launch], np.iinfo(np.int64).min)
    latest = np.maximum.accumulate(launched)
    done = np.maximum.accumulate(trace.ends_of(rows))
    linked = int(np.flatnonzero(linked_rows)[-1]) + 1

    def reached(times: Int64) -> Int64:
        # After the last known launch, the launch order is unknown.
        before = np.minimum(np.searchsorted(latest, times), linked)
        return np.where(before > 0, np.maximum(times, done[before - 1]), times)

    starts, ends = (reached(times).tolist() for times in times_of(steps))
    return tuple(
        replace(step, start=start, end=end)
        for step, start, end in zip(steps, starts, ends, strict=True)
    )


def _main_stream(trace: Trace, rows: Int64, launch: Int64) -> tuple[Int64, Int64]:
    """Rows, by start, and launches of the stream with most computing."""
    computes = trace.in_category(KERNEL)[rows] & ~kinds.communication(trace)[rows]
    counted = computes if computes.any() else np.ones(len(rows), dtype=bool)
    times = np.bincount(trace.track[rows[counted]], trace.duration[rows[counted]].astype(float) + 1)
    here = trace.track[rows] == np.argmax(times)
    return rows[here], launch[here]


COMPUTE = "gpu compute"
EXPOSED_COMMUNICATION = "exposed communication"
EXPOSED_COPIES = "exposed copies"
OTHER = "other"


def device_parts(trace: Trace, rows: Int64, idle: Idle) -> Mapping[str, Intervals]:
    """Parts of one device's time: ``rows`` are its activity, ``idle`` the rest.

    Communication is exposed while nothing is computed, a copy while neither goes on. Setting memory
    counts as computing.
    """
    communicates = kinds.communication(trace)[rows]
    copies = trace.in_category(MEMCPY)[rows]
    compute = kinds.busy(trace, rows[~communicates & ~copies])
    communication = kinds.busy(trace, rows[communicates])
    copying = kinds.busy(trace, rows[copies])
    return {
        COMPUTE: compute,
        EXPOSED_COMMUNICATION: subtract(communication, compute),
        EXPOSED_COPIES: subtract(copying, unite(compute, communication)),
        **{cause.value: idle.causes[cause] for cause in GapCause},
    }


def step_parts(steps: tuple[Step, ...], parts: Mapping[str, Intervals]) -> tuple[StepParts, ...]:
    """The parts of each step; ``parts`` are exclusive, and uncovered time is ``other``."""
    start, end = times_of(steps)
    columns = {name: part.within(start, end) for name, part in parts.items()}
    rest = end - start - sum(columns.values())
    # With a device, activity and idle time leave no rest; on the CPU the rest is a part.
    result = []
    for index, step in enumerate(steps):
        of_step = [(name, int(column[index])) for name, column in columns.items()]
        if rest[index] or COMPUTE not in columns:
            of_step.append((OTHER, int(rest[index])))
        result.append(StepParts(step, tuple(of_step)))
    return tuple(result)


INPUT_WAIT = "input_wait"
FORWARD = "forward"
BACKWARD = "backward"
OPTIMIZER = "optimizer"
OPERATORS = "operators"

_PRECEDENCE = (INPUT_WAIT, OPTIMIZER, BACKWARD, FORWARD)
"""Precedence of phases that run inside others: a step runs its closure's forward within."""

_DRAWN = (INPUT_WAIT, FORWARD, BACKWARD, OPTIMIZER, OPERATORS)


@once
def find_phases(trace: Trace) -> Mapping[str, Intervals]:
    """Exclusive phases of the main thread, in drawing order, without absent ones.

    Each phase is taken from the agent's marks if the file has them, else from PyTorch's own:
    fetches of the data loader, calls of modules (in traces with stacks), operators of the autograd
    engine (on any thread: the main thread waits for it), the optimizer's step. If the agent marked
    no forward, the main thread's remaining operators are ``operators``.
    """
    by_pytorch = {
        INPUT_WAIT: kinds.input_wait(trace),
        OPTIMIZER: kinds.optimizer(trace),
        BACKWARD: kinds.backward(trace),
        FORWARD: kinds.modules(trace),
    }
    phases, taken, near = {}, EMPTY, kinds.believable(trace)
    for phase in _PRECEDENCE:
        marked = kinds.marked(trace, phase)
        covered = kinds.busy(trace, (marked if marked.any() else by_pytorch[phase]) & near)
        phases[phase] = subtract(covered, taken)
        taken = unite(taken, covered)
    if not kinds.marked(trace, FORWARD).any():
        operators = kinds.operators(trace) & (trace.track == main_track(trace))
        phases[OPERATORS] = subtract(kinds.busy(trace, operators & near), taken)
    return {name: phases[name] for name in _DRAWN if name in phases and len(phases[name])}
