"""Data loader: how long each step waits for it, and whether batches are ready."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perftui.format import several
from perftui_tui.look.format import percent, rate
from perftui_tui.look.units import format_ns
from perftui_tui.panes.meter import Meter
from perftui_tui.reading.snapshot import Snapshot
from perftui_tui.reading.telemetry import latest, table_of

if TYPE_CHECKING:
    from perftui.facts.data_loader.loader import LoaderFacts
    from perftui.facts.data_loader.loader_work import LoaderWork
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
    from perftui.facts.data_loader.loader import training_loader

    facts, steps = snapshot.ask(training_loader), snapshot.train
    waits = steps["input_wait"][-RECENT_VALUES:].tolist()
    durations = steps["duration"][-RECENT_VALUES:].tolist()
    recent = waits[-RECENT_STEPS:]
    share = sum(recent) / max(1, sum(durations[-RECENT_STEPS:]))
    return Meter(
        "Loader",
        f"wait {percent(100 * share)}",
        _word(share),
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

    from perftui.facts.data_loader.loader_work import work_of

    workers = workers.where(np.arange(len(workers)) >= len(workers) - RECENT_ROWS)
    newest = workers.where(np.isin(workers["loader"], facts.numbers))["time"][-1:]
    during = (int(newest[0]) - RECENT_NS, int(newest[0]) + 1) if len(newest) else None
    return work_of(workers, facts.numbers, during)


def _word(share: float) -> str:
    from perftui.diagnosis.symptoms.data_loader.wait_limits import WAIT_LIMITS

    return "HIGH" if share >= WAIT_LIMITS.warning else "OK"


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
    """CPU use of the workers of all ranks, where telemetry has it."""
    table = table_of(snapshot)
    cores = latest(table, "processes.workers_cpu")
    # Before it was known who loads data, the column held whatever the training had started.
    if cores is None or table is None or "processes.ranks_cpu" not in table:
        return []
    notes = [f"workers use {cores / 100:.1f} cores"]
    read = latest(table, "processes.workers_read")
    return [*notes, f"read {rate(read)}"] if read else notes
