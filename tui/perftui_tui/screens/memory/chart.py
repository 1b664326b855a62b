"""Memory by step and of the host: allocated under reserved, its peak, and the processes' own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from perftui.facts.gpu.cards import MemoryUse, gpu_memory
from perftui.run.table import Table
from perftui.telemetry.gpu.names import gpu_name
from perftui_tui.charts.cells import charted, sparkline
from perftui_tui.look.format import format_bytes, share
from perftui_tui.look.rows import Row, Span, crop, packed, row, spread, width, with_fitting, wrap
from perftui_tui.reading.memory import memory_curves
from perftui_tui.reading.snapshot import Phase, Snapshot
from perftui_tui.reading.telemetry import RESIDENT, gpus, known_in, latest, table_of, why_absent
from perftui_tui.screens.memory.allocations import (
    AXIS_CELLS,
    below_axis,
    highest_of_bins,
    stacked_cells,
    with_axis,
)


class Role(NamedTuple):
    """Processes that do one thing."""

    label: str
    column: str
    glyph: str
    style: str


ROLES = (
    Role("main", "processes.ranks_rss", "█", "fill-forward"),
    Role("workers", "processes.workers_rss", "▓", "fill-input_wait"),
    Role("other processes", "processes.rest_rss", "░", "dim"),
)
"""What trains, what loads its data, and what else the run has started."""

ROWS = (
    *((role.label, role.column, "") for role in ROLES),
    ("all (RSS)", RESIDENT, ""),
    ("shared once (PSS)", "processes.pss", ""),
    ("machine in use", "memory.used", "memory.total"),
    ("page cache", "memory.page_cache", ""),
    ("swap", "swap.used", ""),
    ("/dev/shm", "memory.shm_used", "memory.shm_total"),  # noqa: S108 - its size is shown
)
"""What each row is called, its metric, and that of its capacity."""

NAME_CELLS, FIGURE_CELLS = 18, 10

NOTE = "RSS counts a shared page in every process, PSS splits it between them."


def host_rows(snapshot: Snapshot, cells: int, height: int) -> list[Row]:
    """A row for each kind of memory that was sampled: now, highest, capacity and history."""
    table = table_of(snapshot)
    found = list(sampled(table)) if table is not None else []
    if table is None or not found:
        return wrap(f"the host's memory: {why_absent(snapshot)}", cells, "dim")
    chart, names = cells - NAME_CELLS - 3 * FIGURE_CELLS - 1, ["now", "highest", "capacity"]
    # To a short history the capacities give way.
    if chart < 12:
        chart += FIGURE_CELLS
        names.remove("capacity")
    head = " " * NAME_CELLS + "".join(f"{name:>{FIGURE_CELLS}}" for name in names)
    rows = [row((head, "dim"))]
    for name, _, of, known in found:
        most = float(known.max())
        capacity = "" if of is None else format_bytes(of)
        figures = (format_bytes(float(known[-1])), format_bytes(most), capacity)
        text = "".join(f"{figure:>{FIGURE_CELLS}}" for figure in figures[: len(names)])
        columns = max(1, chart)
        history = charted(known.tolist(), len(known), columns, live=False)
        line = "" if is_level(known) else sparkline(history, columns, most)
        rows.append(crop(row(f"{name:<{NAME_CELLS}}", text, (f" {line}", "chart")), cells))
    notes = wrap(NOTE, cells, "dim") if "processes.pss" in table else []
    return [*rows, *(notes if len(rows) + len(notes) <= height else [])][:height]


LEVEL = 0.01
"""Share of its highest value within which a series is a constant: a number, and no chart."""


def is_level(values: Any) -> bool:
    """Whether a series stays the same, but for its first two values."""
    settled = values[2:] if len(values) > 2 else values
    return bool(np.ptp(settled) <= LEVEL * settled.max())


def memory_is_level(snapshot: Snapshot) -> bool:
    """Whether each step takes the same memory of the GPU: then a chart of it would show nothing."""
    use = snapshot.ask(gpu_memory)
    return use is not None and all(map(is_level, (use.allocated, use.reserved, use.most)))


def sampled(table: Table) -> Iterator[tuple[str, str, float | None, Any]]:
    """Those of ``ROWS`` of which there is anything, once: name, metric, capacity if known, and the
    samples."""
    whole = known_in(table, RESIDENT)
    for name, column, limit in ROWS:
        known = known_in(table, column)
        is_whole = column != RESIDENT and np.array_equal(known, whole)
        if len(known) and known.max() > 0 and not is_whole:
            capacity = known_in(table, limit)
            yield name, column, float(capacity[-1]) if len(capacity) else None, known


def host_line(snapshot: Snapshot, cells: int, height: int) -> list[Row]:  # noqa: ARG001 - a drawing
    """What is used now, in one row, as much as fits."""
    table = table_of(snapshot)
    if table is None:
        return []
    spans = []
    for name, column, of, known in sampled(table):
        if column in _IN_LINE:
            whole = f" of {format_bytes(of)}" if of else ""
            spans.append((f"{name} {format_bytes(float(known[-1]))}{whole}", ""))
    return [with_fitting(row(("Host ", "dim")), spans, cells)]


_IN_LINE = (RESIDENT, "processes.pss", "memory.page_cache", "swap.used", "memory.shm_used")


def processes_chart(snapshot: Snapshot, cells: int, height: int) -> Sequence[Row]:
    """Resident memory of the run's processes, stacked by role."""
    if snapshot.run is None:
        return []
    table, absent = table_of(snapshot), f"the processes' memory: {why_absent(snapshot)}"
    if table is None or any(role.column not in table for role in ROLES):
        return wrap(absent, cells, "dim")
    parts = np.array([table[role.column] for role in ROLES])
    known = ~np.isnan(parts).any(axis=0)
    if not known.any():
        return wrap(absent, cells, "dim")
    columns, rows = max(1, cells - AXIS_CELLS), max(1, height - 2)
    sizes = parts[:, known].astype(np.int64)
    shown = highest_of_bins(sizes, columns, snapshot.phase.is_live)
    top = max(int(sizes.sum(axis=0).max()), 1)
    glyphs = {at: (one.glyph, one.style) for at, one in enumerate(ROLES)}
    drawn = with_axis(stacked_cells(shown, rows, top, glyphs), top)
    times = table["time"][known] if "time" in table else None
    last = "" if times is None else f"{(times[-1] - times[0]) / 1e9:.0f} s"
    times_row = below_axis(f"0{last:>{max(0, shown.shape[1] - 1)}}")
    at = sizes.shape[1] - 1 if snapshot.phase.is_live else int(sizes.sum(axis=0).argmax())
    held = sizes[:, at].tolist()
    when = "now" if snapshot.phase.is_live else "highest"
    items = [
        row((role.glyph * 2, role.style), f" {role.label} {format_bytes(size)}")
        for role, size, over_time in zip(ROLES, held, sizes, strict=True)
        if role is ROLES[0] or over_time.any()
    ]
    items[0] = (*row((f"{when} {format_bytes(sum(held))}: ", "dim")), *items[0])
    return [*drawn, times_row, *packed(items, cells)[:1]]


NO_MEMORY_IN_A_TRACE = "This trace has no memory by step: perftui train.py records it."
NO_STEP = "No step yet: memory is read at the end of each step."
NO_GPU_MEMORY = (
    "No GPU memory was recorded: PyTorch did not use CUDA in this run. Shown is the memory of the "
    "training's processes."
)


def memory_title(snapshot: Snapshot) -> str:
    """What the chart shows."""
    if snapshot.phase is Phase.TRACE or snapshot.run is None:
        return "Memory"
    has_steps = snapshot.ask(gpu_memory) and not memory_is_level(snapshot)
    return "GPU memory by step" if has_steps else "Memory of the training's processes (RSS)"


def memory_now(snapshot: Snapshot, cells: int, height: int) -> list[Row]:  # noqa: ARG001 - a drawing
    """Two rows: allocated memory and its peak, then the card's memory and failed allocations; none
    where that is not known by steps."""
    use, curves = snapshot.ask(gpu_memory), memory_curves(snapshot)
    if use is None and (snapshot.is_memory_alone or (snapshot.run is None and curves)):
        # The parts below say all that is known.
        return []
    if use is None:
        none = NO_GPU_MEMORY if snapshot.train_steps else NO_STEP
        return wrap(NO_MEMORY_IN_A_TRACE if snapshot.run is None else none, cells, "dim")
    step = f" reached by step {use.peak_step:,}" if use.peak_step >= 0 else ""
    allocations = row(
        ("Allocated ", "dim"),
        (format_bytes(int(use.allocated[-1])), "bold"),
        ("   reserved ", "dim"),
        (format_bytes(int(use.reserved[-1])), "bold"),
        ("   peak ", "dim"),
        (format_bytes(use.peak_allocated), "bold"),
        (step, "dim"),
    )
    level = [("the same at each step", "dim")] if memory_is_level(snapshot) else []
    second = (*_trouble(use), *_cards(snapshot))
    return [with_fitting(one, spans, cells) for one, spans in ((allocations, level), ((), second))]


def _trouble(use: MemoryUse) -> list[Span]:
    """Retries and failures of allocations, as far as they are counted."""
    spans: list[Span] = []
    for count, one, several, style in (
        (use.retries, "retry", "retries", "warn"),
        (use.failures, "failure", "failures", "bad"),
    ):
        if count is None:
            spans.append((f"{several} not counted", "dim"))
        elif count:
            spans.append((f"{count:,} {one if count == 1 else several}", style))
        else:
            spans.append((f"no {several}", "good"))
    return spans


def _cards(snapshot: Snapshot) -> list[Span]:
    """What each card has in use, by all processes."""
    table = table_of(snapshot)
    spans: list[Span] = []
    for prefix in gpus(table):
        used = latest(table, f"{prefix}.memory_used")
        whole = latest(table, f"{prefix}.memory_total")
        if used is not None and whole:
            text = f"{gpu_name(prefix)}: {format_bytes(used)} of {format_bytes(whole)}"
            spans.append((f"{text} ({share(used, whole)})", ""))
    return spans


LAYERS = {"allocated": ("█", "chart"), "peak so far": ("▒", "chart"), "reserved": ("░", "dim")}
"""What the chart stacks, from below: each is drawn above the ones before."""


def memory_chart(snapshot: Snapshot, cells: int, height: int) -> Sequence[Row]:
    """Allocated as an area, below its peak so far and what is reserved; the processes' RSS without
    a GPU, or where its memory is the same at each step."""
    use = snapshot.ask(gpu_memory)
    if use is None or memory_is_level(snapshot):
        return processes_chart(snapshot, cells, height)
    columns, rows = max(1, cells - AXIS_CELLS), max(1, height - 2)
    live = snapshot.phase.is_live
    bins = [
        highest_of_bins(values[np.newaxis], columns, live)[0]
        for values in (use.allocated, use.most, np.maximum(use.most, use.reserved))
    ]
    parts = np.diff(np.stack(bins), axis=0, prepend=0)
    top = max(use.peak_allocated, use.peak_reserved, 1)
    drawn = with_axis(stacked_cells(parts, rows, top, dict(enumerate(LAYERS.values()))), top)
    first, last = f"step {int(use.step[0]):,}", f"{int(use.step[-1]):,}"
    room = len(bins[0]) - len(first)
    steps = below_axis(first + (f"{last:>{room}}" if room > len(last) else ""))
    legend = [span for word, layer in LAYERS.items() for span in (layer, (f" {word}   ", ""))]
    note = f"{use.summed:,} steps in between are stored as aggregates" if use.summed else ""
    return [*drawn, steps, spread(tuple(legend), row((note, "dim")), cells)]


def steps_line(snapshot: Snapshot, cells: int, height: int) -> list[Row]:  # noqa: ARG001 - a drawing
    """What is allocated at the end of each step, in one row."""
    use = snapshot.ask(gpu_memory)
    if use is None:
        return []
    top = format_bytes(use.peak_allocated)
    name, scale = row(("By step ", "dim")), row((f" 0 to {top}", "dim"))
    columns = max(1, cells - width(name) - width(scale))
    allocated = use.allocated.tolist()
    values = charted(allocated, len(allocated), columns, live=snapshot.phase.is_live)
    line = sparkline(values, columns, max(use.peak_allocated, 1))
    return [crop((*name, (line, "chart"), *scale), cells)]
