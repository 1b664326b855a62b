"""The workers of the data loader, a block for each, with their queue and what takes them time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perftui_tui.charts.blocks import LOWER_EIGHTHS, filled_steps
from perftui_tui.look.format import percent, rate
from perftui_tui.look.rows import Row, crop, row, with_fitting
from perftui_tui.look.units import format_ns
from perftui_tui.panes.loader import RECENT_NS, RECENT_ROWS, queue_notes, recent_work
from perftui_tui.panes.meter import NAME_WIDTH
from perftui_tui.reading.snapshot import Snapshot

if TYPE_CHECKING:
    from perftui.facts.data_loader.loader import LoaderFacts
    from perftui.run.table import Table

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
