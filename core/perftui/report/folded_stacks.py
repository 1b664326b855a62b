"""Folded stacks for flamegraph.pl, inferno and speedscope: of a trace in ns, of a run in samples.

Each stack begins with its thread, so that one picture has them all."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from perftui.analysis.ops.call_paths import stack_times
from perftui.analysis.timeline.tracks import MAIN, track_label
from perftui.facts.fact import Facts
from perftui.facts.source.lines import stack_samples
from perftui.report.output_text import printable
from perftui.report.report import Report
from perftui.run.columns import STACK_RATE
from perftui.run.table import Table
from perftui.trace.model import Trace

Stack = tuple[Sequence[str], int]
"""Names from the outermost frame on, and its ns or samples."""

UNNAMED = "(no name)"

_NUMBER_LAST = re.compile(r"\s+(?=\d+(?:\.\d*)?\Z)")
"""In front of a number at the end: flamegraph.pl and inferno take it for the count of a second
profile."""


def folded_text(stacks: Iterable[Stack]) -> str:
    """A line for each stack whose number is above 0, equal ones added up, in order of the text."""
    totals: Counter[str] = Counter()
    for names, number in stacks:
        if number > 0:
            totals[";".join(map(frame, names))] += number
    return "".join(f"{stack} {totals[stack]}\n" for stack in sorted(totals))


def frame(name: str) -> str:
    """A name as one frame: a colon for each semicolon, an escape for each control character."""
    text = printable(name).replace(";", ":").strip()
    return _NUMBER_LAST.sub("_", text) or UNNAMED


WORKERS = "data loader workers"

_EVERY = 1_000_000_000 // STACK_RATE
"""ns between samples in runs that did not record it."""


class NoStacksError(ValueError):
    """There are no stacks; the message says why."""


def render(report: Report) -> str:
    """The stacks of operators and Python functions of a trace, or of the newest window of a run,
    with their own time in ns; of a run without one its stack samples, with their number. Raises
    NoStacksError if there are none of either."""
    analysis = report.subject.analysis
    if analysis is not None:
        text = folded_text(_of_trace(analysis.trace))
        why = "the trace contains neither operators nor Python functions"
    else:
        text = folded_text(_of_run(report.facts))
        why = "; ".join((*report.subject.notes, "the run has no stack samples"))
    if not text:
        raise NoStacksError(why)
    return text


def _of_trace(trace: Trace) -> Iterator[Stack]:
    stacks = tuple(stack_times(trace))
    labels = {stack.track: track_label(trace, stack.track) for stack in stacks}
    times = Counter(labels.values())
    for stack in stacks:
        label, track = labels[stack.track], trace.tracks[stack.track]
        if times[label] > 1:
            label = f"{label} ({track.process}/{track.thread})"
        yield (label, *stack.names), stack.own


def _of_run(facts: Facts) -> Iterator[Stack]:
    outside, _ = stack_samples(facts)
    yield from _sampled(MAIN, outside)
    if facts.rank is not None:
        yield from _sampled(WORKERS, facts.rank.worker_stacks)


def _sampled(thread: str, stacks: Table) -> Iterator[Stack]:
    """The line of the user's code, what that called, and the innermost frame.

    Samples are counted as if all were taken at the usual rate: the first seconds are sampled more
    often, and would look longer."""
    totals: Counter[tuple[str, ...]] = Counter()
    empty = [""] * len(stacks)
    names = ("file", "line", "function", "via", "inner")
    columns = [stacks[name].tolist() if name in stacks else empty for name in names]
    times = stacks["held"].tolist() if len(stacks) else []
    for file, line, function, via, inner, time in zip(*columns, times, strict=True):
        own = (f"{function} ({file}:{line})",) if file else ()
        # If the line is known to have called nothing, it is the innermost frame itself.
        below = _inner(via, inner) if via or not own or "via" not in stacks else ()
        stack = (thread, *own, *below)
        totals[stack] += time
    period = max(int(stacks["every"].max()), 1) if "every" in stacks and len(stacks) else _EVERY
    yield from ((stack, max(1, round(time / period))) for stack, time in totals.items())


def _inner(via: str, inner: str) -> tuple[str, ...]:
    """What the line called and the innermost frame, which may be one and the same."""
    file, _, function = via.rpartition(" ")
    is_same = inner.startswith(f"{file}:") and inner.endswith(f" {function}")
    return tuple(name for name in (via if not is_same else "", inner) if name)
