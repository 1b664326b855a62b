"""The data loader: its meter, and its workers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perftui.format import several
from perftui_tui.charts.bars import LOWER_EIGHTHS, filled_steps
from perftui_tui.look.format import format_ns, percent, rate
from perftui_tui.look.rows import Row, crop, row, with_fitting
from perftui_tui.panes.meter import NAME_WIDTH, Meter
from perftui_tui.reading.snapshot import Snapshot
from perftui_tui.reading.telemetry import latest, table_of

if TYPE_CHECKING:
    from perftui.facts.data_loader.loader import LoaderFacts, LoaderWork
    from perftui.run.table import Table

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
    from perftui.facts.data_loader.loader import training_loader

    facts, steps = snapshot.ask(training_loader), snapshot.train
    waits = steps["input_wait"][-RECENT_VALUES:].tolist()
    durations = steps["duration"][-RECENT_VALUES:].tolist()
    recent = waits[-RECENT_STEPS:]
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
            *_effort(recent_work(rank.workers, facts)),
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


def _effort(work: LoaderWork | None) -> list[str]:
    """How busy the workers are, which part of a batch takes how long, and how much comes of it."""
    if work is None:
        return []
    notes = [] if work.busy is None else [f"{percent(100 * work.busy)} busy"]
    notes.append(f"fetch {format_ns(work.fetch)} + collate {format_ns(work.collate)}")
    if work.bytes_per_second:
        notes.append(rate(work.bytes_per_second))
    return notes


def _resources(snapshot: Snapshot) -> list[str]:
    table = table_of(snapshot)
    cores = latest(table, "processes.workers_cpu")
    # Before it was known who loads data, the column held whatever the training had started.
    if cores is None or table is None or "processes.ranks_cpu" not in table:
        return []
    notes = [f"workers use {cores / 100:.1f} cores"]
    read = latest(table, "processes.workers_read")
    return [*notes, f"read {rate(read)}"] if read else notes


MOST_BLOCKS = 32


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
    full = len(LOWER_EIGHTHS) - 1
    blocks = "".join(LOWER_EIGHTHS[max(filled_steps(one, full), 1)] for one in busy[:MOST_BLOCKS])
    head = row(("Workers".ljust(NAME_WIDTH), "bold"), (blocks, "chart"))
    texts = [*queue_notes(snapshot, facts)[::-1], *_work(rank.workers, facts, busy)]
    return [crop(with_fitting(head, [(text, "dim") for text in texts], cells), cells)]


def _facts(snapshot: Snapshot) -> LoaderFacts | None:
    from perftui.facts.data_loader.loader import training_loader

    return snapshot.ask(training_loader)


def _work(table: Table, facts: LoaderFacts, busy: list[float]) -> list[str]:
    """How busy the workers are, and what a batch takes, the most telling first."""
    texts = []
    if busy:
        waiting = sum(one < 0.5 for one in busy)
        texts.append(f"{percent(100 * sum(busy) / len(busy))} busy")
        texts += [f"{waiting} mostly waiting"] if waiting else []
    work = recent_work(table, facts)
    if work is not None:
        texts.append(f"fetch {format_ns(work.fetch)} + collate {format_ns(work.collate)} a batch")
        texts += [rate(work.bytes_per_second)] if work.bytes_per_second else []
    return texts


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
