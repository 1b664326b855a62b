"""Where the time goes: the mean step as a bar of parts, the last step, the costliest operators."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from perftui.format import middle, several
from perftui.run.columns import phase_name
from perftui.trace.text import printable
from perftui_tui.charts.cells import LOWER_EIGHTHS, apportion, filled_steps
from perftui_tui.keys.own_keys import hint
from perftui_tui.look.format import format_ns, part_of_step, per_second, share
from perftui_tui.look.rows import Row, Span, crop, joined, row, with_fitting
from perftui_tui.look.rows import width as width_of
from perftui_tui.panes.verdict import own_cost
from perftui_tui.reading.snapshot import DrawnStep, Part, Snapshot, name_within, style_of

if TYPE_CHECKING:
    from perftui.analysis.model import Gap, TraceAnalysis
    from perftui.analysis.timeline.measure import BusyColumns, StepColumns
    from perftui.facts.gpu.idle import IdleOfCause
    from perftui.trace.model import Trace

EDGE = "▏"
"""Begins every part, so that parts can be distinguished without colour."""


def step_bar(snapshot: Snapshot, cells: int, height: int) -> list[Row]:  # noqa: ARG001 - a drawing
    """A heading, the bar with names, the bar with times, and what has no room in it."""
    breakdown = snapshot.breakdown
    rows = breakdown_bar(breakdown, cells, own=own_cost(snapshot))
    legend = legend_of(breakdown, cells, cells)
    return [*rows, legend] if legend else rows


def breakdown_bar(
    breakdown: DrawnStep | None, cells: int, room: int = 0, own: Sequence[Span] = ()
) -> list[Row]:
    """The figures of ``breakdown``, in ``room`` if given, among these ``own``, what perftui took;
    then its bar, ``cells`` wide."""
    if breakdown is None or not breakdown.mean.mean:
        return [row(("Mean step: no step has been measured yet", "dim")), (), ()]
    shown, whole = _columns(breakdown, cells), breakdown.mean.mean
    return [
        _heading(breakdown, room or cells, own),
        tuple(_cell(part, width, name_within(part.name, width - 1)) for part, width in shown),
        tuple(_cell(part, width, _figure(part, width, whole)) for part, width in shown),
    ]


def _columns(breakdown: DrawnStep, cells: int) -> list[tuple[Part, int]]:
    columns = apportion([part.ns for part in breakdown.parts], cells)
    return [(part, width) for part, width in zip(breakdown.parts, columns, strict=True) if width]


def legend_of(breakdown: DrawnStep | None, cells: int, room: int) -> Row:
    """The parts that a bar of ``cells`` gives no name or no figure, and those it does not show, as
    far as they fit in ``room``."""
    if breakdown is None or not breakdown.mean.mean:
        return ()
    columns, whole = dict(_columns(breakdown, cells)), breakdown.mean.mean

    def is_named(part: Part) -> bool:
        width = columns.get(part, 0)
        return bool(name_within(part.name, width - 1) and _figure(part, width, whole))

    small = tuple(part for part in breakdown.parts if part.ns and not is_named(part))
    legends = _legends(small, whole) if small else ()
    return next((line for line in legends if width_of(line) <= room), ())


def _legends(parts: tuple[Part, ...], whole: int) -> Iterator[Row]:
    """``parts`` in the order of the bar, with times and without; then the largest of them, and how
    many more there are."""
    yield _entries(parts, whole, with_time=True)
    yield _entries(parts, whole, with_time=False)
    largest = sorted(parts, key=lambda part: -part.ns)
    for count in range(len(parts) - 1, 0, -1):
        some = [part for part in parts if part in largest[:count]]
        more = (f"and {len(parts) - count} smaller", "dim")
        yield (*_entries(some, whole, with_time=False), more)


def _entries(parts: Sequence[Part], whole: int, with_time: bool) -> Row:
    spans: list[Span] = []
    for part in parts:
        time = f"{part_of_step(part.ns)} " if with_time else ""
        gap = "  " if with_time else " "
        spans += [
            (f"{EDGE}{part.name} ", f"part-{part.style}"),
            (f"{time}{share(part.ns, whole)}{gap}", ""),
        ]
    return tuple(spans)


def _heading(breakdown: DrawnStep, cells: int, own: Sequence[Span]) -> Row:
    """The mean in figures; what would be cut is left out, the least needed first."""
    basis, mean = (f"({breakdown.basis})", "dim"), breakdown.mean
    if not breakdown.is_step:
        whole = row(("Whole trace: ", "dim"), (format_ns(mean.mean), "bold"))
        return with_fitting(whole, [basis], cells)
    subject = "Mean step: " if mean.count > 1 else "Step: "
    spread = (f"p50 {format_ns(mean.p50)}", ""), (f"p95 {format_ns(mean.p95)}", "")
    rate = (f"{per_second(mean.steps_per_second)} steps/s", "")
    figures = (*(spread if mean.count > 1 else ()), rate, *own, basis)
    return with_fitting(row((subject, "dim"), (format_ns(mean.mean), "bold")), figures, cells)


def _cell(part: Part, width: int, text: str) -> Span:
    return (EDGE + text.ljust(width - 1), f"part-{part.style}")


def _figure(part: Part, width: int, whole: int) -> str:
    """The time of a part, shortened to fit; empty where nothing fits."""
    time, percentage = part_of_step(part.ns), share(part.ns, whole)
    return next((each for each in (f"{time} {percentage}", percentage) if len(each) < width), "")


NAME_WIDTH = 7
"""``GPU 0``, ``host``."""

LOW_SHARE = 0.5
"""Share of a column below which the GPU mostly waits in it."""


def last_step(snapshot: Snapshot, cells: int, height: int) -> list[Row]:
    """A row of phases, one for each device, and one or two that name the longest gaps."""
    if snapshot.analysis is None:
        return _no_window(snapshot, cells)
    from perftui.analysis.timeline.measure import step_columns

    columns = cells - NAME_WIDTH
    step = step_columns(snapshot.analysis, columns)
    if step is None:
        return [crop(row(("the profiled window marks no step", "dim")), cells)]
    gap_rows = 1 if step.gaps else 0
    devices = step.busy[: max(1, height - 1 - gap_rows)]
    rows = [_phases(step), *(_busy(one) for one in devices)]
    if gap_rows and len(rows) < height:
        rows.append(_gaps(step, columns))
    return [crop(line, cells) for line in rows[:height]]


def last_step_title(snapshot: Snapshot) -> str:
    """``Last profiled step: 31 ms``."""
    steps = snapshot.analysis.steps if snapshot.analysis else ()
    newest = max(steps, key=lambda one: one.start, default=None)
    return "Last profiled step" + (f": {format_ns(newest.duration)}" if newest else "")


def _phases(step: StepColumns) -> Row:
    """The phases as coloured parts with their names, as far as they have room."""
    spans: list[Span] = []
    for phase, columns in groupby(step.phases):
        width = len(list(columns))
        if not phase:
            spans.append((" " * width, ""))
            continue
        text = f"▏{name_within(phase_name(phase), width - 1)}" if width > 1 else "▏"
        spans.append((text.ljust(width), f"part-{style_of(phase)}"))
    return row(("step".ljust(NAME_WIDTH), "bold"), *spans)


def _busy(busy: BusyColumns) -> Row:
    """How busy a device was in each column, the columns in which it mostly waited highlighted."""
    name = "host" if busy.device < 0 else f"GPU {busy.device}"
    full = len(LOWER_EIGHTHS) - 1
    cells = [
        (LOWER_EIGHTHS[filled_steps(share, full)], "chart-bad" if share < LOW_SHARE else "chart")
        for share in busy.shares
    ]
    return row((name.ljust(NAME_WIDTH), "bold"), *joined(cells))


def _gaps(step: StepColumns, columns: int) -> Row:
    """The longest gaps below where they are, each with length and cause, where there is room."""
    taken: dict[int, str] = {}
    for gap in step.gaps:
        text = f"└{format_ns(gap.duration)} {gap.cause.value}"
        begin, end = max(gap.start, step.step.start), min(gap.end, step.step.end)
        at = step.column_of((begin + end) // 2)
        behind = at + len(text) + 2
        # At least two columns away from all that is there.
        is_free = all(behind <= a or at >= a + len(words) + 2 for a, words in taken.items())
        if at + len(text) <= columns and is_free:
            taken[at] = text
    line = ""
    for at, text in sorted(taken.items()):
        line = f"{line.ljust(at)}{text}"
    return row(("gaps".ljust(NAME_WIDTH), "bold"), (line, "warn"))


def cause_text(idle: IdleOfCause, device: str = "") -> str:
    """Idle time of one cause: in all, in how many gaps, the longest, and where the host was."""
    facts = [
        f"{format_ns(idle.total):>10}",
        f"{idle.cause.value:<15}",
        device,
        several(idle.count, "gap") if idle.count else "within other gaps",
        f"max {format_ns(idle.longest.duration)}" if idle.longest else "",
        idle.line.short if idle.line else "",
    ]
    return "  ".join(filter(None, facts))


def gap_text(gap: Gap, trace: Trace, device: str = "") -> str:
    """One gap: its length and cause, when, and in which phase and operator the host was."""
    name = printable(trace.name_of(gap.operator_row)) if gap.operator_row >= 0 else ""
    facts = [
        f"{format_ns(gap.duration):>10}",
        f"{gap.cause.value:<15}",
        device,
        f"at {format_ns(gap.start)}",
        printable(phase_name(gap.phase)),
        middle(name, LONGEST_NAME),
    ]
    return "  ".join(filter(None, facts))


LONGEST_NAME = 60
"""Characters of a name among others: C++ names of kernels fill whole lines."""


def top_ops(snapshot: Snapshot, cells: int, height: int) -> list[Row]:
    """Kernels where a GPU was recorded, else operators."""
    analysis = snapshot.analysis
    draw = kernels if analysis is not None and analysis.has_gpu else operators
    return draw(snapshot, cells, height)


def kernels(snapshot: Snapshot, cells: int, height: int) -> list[Row]:
    """One row for each kernel, costliest first: name, time in the window, share."""
    analysis = snapshot.analysis
    if analysis is None:
        return _no_window(snapshot, cells)
    table = analysis.kernels
    title = f"GPU time{_of_steps(analysis)}, by kernel"
    return _ranking(title, table.short_names, table.total.tolist(), cells, height)


def operators(snapshot: Snapshot, cells: int, height: int) -> list[Row]:
    """The top operators, by the GPU time they launched, else by their own CPU time."""
    analysis = snapshot.analysis
    if analysis is None:
        return _no_window(snapshot, cells)
    ops = analysis.ops
    on_device = bool(ops.device_self.sum())
    times = (ops.device_self if on_device else ops.cpu_self).tolist()
    title = f"{'GPU time' if on_device else 'own CPU'}{_of_steps(analysis)}, by operator"
    return _ranking(title, ops.names, times, cells, height)


def _of_steps(analysis: TraceAnalysis) -> str:
    return f" of {several(len(analysis.steps), 'step')}" if analysis.steps else ""


def _no_window(snapshot: Snapshot, cells: int) -> list[Row]:
    asking = hint("no window profiled yet: {app.capture} profiles one")
    text = asking if snapshot.phase.is_live else "no window was profiled"
    return [crop(row((text, "dim")), cells)]


def _ranking(
    title: str, names: Sequence[str], times: Sequence[int], cells: int, height: int
) -> list[Row]:
    whole = sum(times)
    order = sorted(range(len(times)), key=lambda at: -times[at])[: height - 1]
    numbers = f"{'time':>9} {'share':>6}"
    room = max(1, cells - len(numbers))
    return [
        crop(row((f"{title[:room]:<{room}}{numbers}", "dim")), cells),
        *(
            row(
                f"{middle(printable(names[at]), room):<{room}}",
                f"{format_ns(times[at]):>9} {share(times[at], whole):>6}",
            )
            for at in order
        ),
    ]
