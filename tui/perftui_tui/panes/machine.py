"""The meters of step, processor, memory, disk, network and loader; each core, each worker."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from perftui.format import several
from perftui_tui.charts.cells import nice_step, sparkline, usual_top
from perftui_tui.look.format import format_bytes, format_ns, of_ceiling, percent, rate
from perftui_tui.look.rows import Row, crop, joined, row, with_fitting
from perftui_tui.panes.meter import NAME_WIDTH, Meter
from perftui_tui.panes.verdict import own_cost
from perftui_tui.reading.snapshot import SLOW_RATIO, Snapshot
from perftui_tui.reading.telemetry import (
    RESIDENT,
    STOPPED,
    gpus,
    known_in,
    latest,
    series,
    table_of,
    why_absent,
)

if TYPE_CHECKING:
    from perftui.facts.data_loader.loader import LoaderFacts, LoaderWork
    from perftui.facts.gpu.cards import OwnCeilings
    from perftui.run.table import Table

FULL = 95.0
"""Per cent of a core from which it is highlighted."""

_GROUPED = ", the busiest of {} in each"


def cores(snapshot: Snapshot, cells: int, height: int) -> list[Row]:  # noqa: ARG001 - a drawing
    """One row; empty where single cores are not sampled."""
    busy = busy_of_cores(snapshot)
    if not busy:
        return []
    full_cores = sum(value >= FULL for value in busy)
    busiest = f"{full_cores} full" if full_cores else f"busiest {percent(max(busy))}"
    words = f"  {len(busy)} cores, {busiest}"
    group, room = 1, cells - NAME_WIDTH - len(words)
    if len(busy) > room:
        group = -(-len(busy) // max(1, room - len(_GROUPED)))
        words += _GROUPED.format(group)
    shown = [max(busy[at : at + group]) for at in range(0, len(busy), group)]
    styles = ["chart-warn" if value >= FULL else "chart" for value in shown]
    blocks = joined(list(zip(sparkline(shown, len(shown), 100.0), styles, strict=True)))
    return [crop(row(("Cores".ljust(NAME_WIDTH), "bold"), *blocks, (words, "dim")), cells)]


def busy_of_cores(snapshot: Snapshot) -> list[float]:
    """Per cent of each core that is sampled now, in their order."""
    table = table_of(snapshot)
    if table is None:
        return []
    # Their numbers have gaps where cores are switched off.
    names = (column.name for column in table.columns if column.name.startswith("cpu.core"))
    known = (latest(table, name) for name in names if name[8:].isdecimal())
    return [value for value in known if value is not None]


def ceilings(snapshot: Snapshot) -> OwnCeilings | None:
    """What ``perftui probe`` measured on the machine of the run; None where it did not.

    They are read with the rules: the first frame, which is not judged, does not wait for them."""
    if not snapshot.is_judged:
        return None
    from perftui.facts.gpu.cards import own_ceilings

    return snapshot.ask(own_ceilings)


FULL_CPU = 90.0
"""Per cent of all cores; above it more workers cannot help."""

FULL_MEMORY = 95.0
"""Per cent of what can be used; above it the kernel ends processes before long."""

FULL_DISK = 80.0
"""Per cent of the time the disk had work: above it requests wait for each other."""

SMALLEST_SCALE = 1e6
"""Bytes a second: the scale never zooms into less, where noise would look like load."""


NO_GPU = "no GPU: times are CPU times"


def cpu(snapshot: Snapshot) -> Meter:
    """All cores of the machine, and the training's part of them."""
    table = table_of(snapshot)
    values = series(table, "cpu.utilization")
    if not values:
        return Meter("CPU", absent=why_absent(snapshot))
    now = latest(table, "cpu.utilization")
    reading = STOPPED if now is None else percent(now)
    manifest = snapshot.manifest
    has_gpu = gpus(table) or (manifest is not None and manifest.gpus)
    notes = [] if has_gpu else [NO_GPU]
    total_cores = manifest.cpu_count if manifest else 0
    own = latest(table, "processes.cpu")
    if own is not None:
        cores = f" of {total_cores} cores" if total_cores else " cores"
        notes.append(f"training {own / 100:.1f}{cores}")
    memory = latest(table, RESIDENT)
    if memory is not None:
        notes.append(f"mem {format_bytes(memory)}")
    word = _full(now, FULL_CPU)
    return Meter("CPU", reading, word, values, notes=tuple(notes), total=len(table or ()))


def memory(snapshot: Snapshot) -> Meter:
    """The machine's memory, or the container's, and what the run holds of it."""
    table = table_of(snapshot)
    used, whole = latest(table, "memory.used"), latest(table, "memory.total")
    if used is None or not whole:
        return Meter("Memory", absent=why_absent(snapshot))
    share = 100 * used / whole
    values = tuple(100 * value / whole for value in series(table, "memory.used"))
    return Meter(
        "Memory",
        percent(share),
        _full(share, FULL_MEMORY),
        values,
        notes=(f"{format_bytes(used)} of {format_bytes(whole)}", *_memory_notes(table)),
        total=len(table or ()),
    )


def _memory_notes(table: Table | None) -> list[str]:
    """What the run holds, then what else can run out, where there is anything of it."""
    notes = []
    # What is read seldom, however old.
    shared_once = known_in(table, "processes.pss")
    held = float(shared_once[-1]) if len(shared_once) else latest(table, RESIDENT)
    if held is not None:
        notes.append(f"training {format_bytes(held)}")
    shared, most = latest(table, "memory.shm_used"), latest(table, "memory.shm_total")
    if shared is not None and most:
        notes.append(f"shared {format_bytes(shared)} of {format_bytes(most)}")
    for name, word in (("memory.page_cache", "page cache"), ("swap.used", "swap")):
        if value := latest(table, name):
            notes.append(f"{word} {format_bytes(value)}")
    if kills := latest(table, "memory.oom_kills"):
        notes.append(f"{kills:.0f} killed for memory")
    return notes


def disk(snapshot: Snapshot) -> Meter:
    """Reads and writes of all disks together; of the data's disk what it reads of what it can."""
    busy = latest(table_of(snapshot), "disk.utilization")
    found = _traffic(snapshot, "Disk", ("read", "disk.read"), ("write", "disk.write"), busy)
    # What is read of the data set's disk, beside what ``perftui probe`` measured there.
    now, known = latest(table_of(snapshot), "data_disk.read"), ceilings(snapshot)
    if now is None or known is None or known.data_disk is None:
        return found
    return replace(found, notes=(f"data {of_ceiling(now, known.data_disk)}", *found.notes))


def network(snapshot: Snapshot) -> Meter:
    """What all network interfaces but loopback carry."""
    return _traffic(snapshot, "Network", ("in", "network.receive"), ("out", "network.transmit"))


def _traffic(
    snapshot: Snapshot,
    name: str,
    first: tuple[str, str],
    second: tuple[str, str],
    busy: float | None = None,
) -> Meter:
    """Bytes a second both ways, each by its word and its metric; the first is the reading."""
    table = table_of(snapshot)
    known = series(table, first[1])
    other = series(table, second[1])
    both = tuple(map(sum, zip(known, other, strict=True))) if known and other else known or other
    if not both:
        return Meter(name, absent=why_absent(snapshot), is_missing=True)
    flows = [
        [] if (now := latest(table, metric)) is None else [f"{word} {rate(now)}"]
        for word, metric in (first, second)
    ]
    # One burst does not flatten all others, and a round top stays while values move.
    known_values = [value for value in both if value == value]
    top = nice_step(max(SMALLEST_SCALE, usual_top(known_values or [0.0])), 1)
    return Meter(
        name,
        next(iter(flows[0]), STOPPED if known else ""),
        _full(busy, FULL_DISK),
        both,
        high=top,
        limit=_scale(top),
        notes=(*flows[1], *([] if busy is None else [f"busy {percent(busy)}"])),
        is_missing=not any(value >= SMALLEST_SCALE for value in both),
        total=len(table or ()),
    )


def _full(busy: float | None, limit: float) -> str:
    """The word; none where it is not known how busy."""
    if busy is None:
        return ""
    return "FULL" if busy >= limit else "OK"


def _scale(bytes_per_second: float) -> str:
    """The top of the axis in four cells: ``212M``."""
    unit, name = (1e9, "G") if bytes_per_second >= 1e9 else (1e6, "M")
    value = bytes_per_second / unit
    return f"{value:.0f}{name}" if value >= 10 else f"{value:.1f}{name}"


RECENT_VALUES = 4000
"""Steps that are charted, as many as the step-time chart shows."""

RECENT_NS = 5_000_000_000
"""Time before the newest row of the workers over which what they do is taken."""

RECENT_ROWS = 1000
"""Rows among which those are: five seconds of two hundred workers."""

RECENT_STEPS = 20
"""Steps over which "now" is taken."""


def loader(snapshot: Snapshot) -> Meter:
    """The loader wait of each step as a share of it; the status word is about the queue."""
    rank = snapshot.rank
    if rank is None or not len(rank.steps):
        return Meter("Loader", absent="no step yet")
    if not snapshot.train:
        return Meter("Loader", absent="no training step yet")
    from perftui.diagnosis.symptoms.data_loader.input_wait import WAIT_LIMITS

    facts, steps = _facts(snapshot), snapshot.train
    waits = steps["input_wait"][-RECENT_VALUES:].tolist()
    if facts is None and not any(waits):
        return Meter("Loader", absent="no data loader", is_missing=True)
    durations = steps["duration"][-RECENT_VALUES:].tolist()
    recent, work = waits[-RECENT_STEPS:], recent_work(rank.workers, facts)
    share = sum(recent) / max(1, sum(durations[-RECENT_STEPS:]))
    return Meter(
        "Loader",
        f"wait {percent(100 * share)}",
        "HIGH" if share >= WAIT_LIMITS.warning else "OK",
        tuple(100 * w / max(1, d) for w, d in zip(waits, durations, strict=True)),
        total=snapshot.train_steps,
        notes=(
            f"{format_ns(sum(recent) // len(recent))}/step, last {len(recent)}",
            *queue_notes(snapshot, facts),
            *_effort(work.busy if work else None, work),
            *_resources(snapshot),
        ),
    )


def recent_work(workers: Table, facts: LoaderFacts | None) -> LoaderWork | None:
    """How long the newest batches took to make; None where it is not known."""
    if facts is None or not facts.numbers or not len(workers):
        return None
    # The first frame has no numbers to reckon with, and importing numpy takes longer than drawing.
    import numpy as np

    from perftui.facts.data_loader.loader import work_of

    workers = workers.where(np.arange(len(workers)) >= len(workers) - RECENT_ROWS)
    newest = workers.where(np.isin(workers["loader"], facts.numbers))["time"][-1:]
    during = (int(newest[0]) - RECENT_NS, int(newest[0]) + 1) if len(newest) else None
    return work_of(workers, facts.numbers, during)


def queue_notes(snapshot: Snapshot, facts: LoaderFacts | None) -> list[str]:
    """Batches that lay ready at the newest steps, of how many, and how many workers make them."""
    notes = []
    workers = facts.num_workers if facts is not None else None
    steps = snapshot.train["batches_ready"][-RECENT_STEPS:].tolist() if snapshot.train else []
    if ready := [count for count in steps if count >= 0]:
        depth = f"/{facts.queue_depth}" if facts and workers else ""
        notes.append(f"queue {sum(ready) / len(ready):.1f}{depth}")
    if workers is not None:
        notes.append("main thread" if not workers else several(workers, "worker"))
    return notes


def _effort(busy: float | None, work: LoaderWork | None, of: str = "") -> list[str]:
    """How busy the workers are, which part of a batch takes how long, and how much comes of it."""
    notes = [] if busy is None else [f"{percent(100 * busy)} busy"]
    if work is not None:
        notes.append(f"fetch {format_ns(work.fetch)} + collate {format_ns(work.collate)}{of}")
        notes += [rate(work.bytes_per_second)] if work.bytes_per_second else []
    return notes


def _resources(snapshot: Snapshot) -> list[str]:
    table = table_of(snapshot)
    cores = latest(table, "processes.workers_cpu")
    if cores is None:
        return []
    notes = [f"workers use {cores / 100:.1f} cores"]
    read = latest(table, "processes.workers_read")
    return [*notes, f"read {rate(read)}"] if read else notes


def worker_count(snapshot: Snapshot) -> int:
    """Workers of the loader that feeds the training; 0 where there are none."""
    facts = _facts(snapshot)
    return (facts.num_workers or 0) if facts is not None else 0


def workers(snapshot: Snapshot, cells: int, height: int) -> list[Row]:  # noqa: ARG001 - a drawing
    """One row; empty without a loader, or where it has no workers."""
    facts, rank = _facts(snapshot), snapshot.rank
    if facts is None or rank is None or not facts.num_workers:
        return []
    busy = _busy_of_each(rank.workers, facts)
    shown = busy[:32]
    head = row(("Workers".ljust(NAME_WIDTH), "bold"), (sparkline(shown, len(shown), 1.0), "chart"))
    mean, waiting = sum(busy) / len(busy) if busy else None, sum(one < 0.5 for one in busy)
    work = _effort(mean, recent_work(rank.workers, facts), " a batch")
    work[1:1] = [f"{waiting} mostly waiting"] if waiting else []
    texts = [*queue_notes(snapshot, facts)[::-1], *work]
    return [crop(with_fitting(head, [(text, "dim") for text in texts], cells), cells)]


def _facts(snapshot: Snapshot) -> LoaderFacts | None:
    from perftui.facts.data_loader.loader import training_loader

    return snapshot.ask(training_loader)


def _busy_of_each(table: Table, facts: LoaderFacts) -> list[float]:
    """Share of the last seconds in which each worker made batches, in their order."""
    if not facts.numbers or not len(table):
        return []
    import numpy as np

    newest = table.where(np.arange(len(table)) >= len(table) - RECENT_ROWS)
    mine = newest.where(np.isin(newest["loader"], facts.numbers) & (newest["worker"] >= 0))
    if not len(mine):
        return []
    mine = mine.where(mine["time"] > int(mine["time"][-1]) - RECENT_NS)
    shares = []
    for worker in np.unique(mine["worker"]).tolist():
        rows = mine.where(mine["worker"] == worker)
        elapsed = int(rows["elapsed"].sum())
        made = int(rows["fetch"].sum() + rows["collate"].sum())
        shares.append(min(made / elapsed, 1.0) if elapsed else 0.0)
    return shares


UNSTEADY_RATIO = 1.5
"""p95 over p50 from which steps are called uneven: one in twenty takes half as long again."""


def step_time(snapshot: Snapshot) -> Meter:
    """Durations of the newest steps; beside them what perftui took of all."""
    values = snapshot.step_ms
    if not values:
        return Meter("Step", absent="no training step yet")
    top = usual_top(values)
    breakdown = snapshot.breakdown
    word = ""
    if breakdown is not None and breakdown.mean.count > 1:
        even = breakdown.mean.p95 < UNSTEADY_RATIO * breakdown.mean.p50
        word = "EVEN" if even else "UNEVEN"
    usual = sorted(values)[(len(values) - 1) // 2]
    slow = tuple(value >= SLOW_RATIO * usual for value in values)
    return Meter(
        "Step",
        f"last {format_ns(values[-1] * 1e6)}",
        word,
        values,
        high=top,
        limit=_time_scale(top),
        beside=own_cost(snapshot),
        notes=(f"! {sum(slow)} slow (from {SLOW_RATIO:g}x the median)",) if any(slow) else (),
        total=snapshot.train_steps,
        marked=slow,
    )


def _time_scale(milliseconds: float) -> str:
    """The top of the axis in five cells: ``341ms``, ``12.5s``."""
    seconds = milliseconds / 1000
    if seconds < 1:
        return f"{milliseconds:.0f}ms"
    return f"{seconds:.1f}s" if seconds < 100 else f"{seconds:.0f}s"
