"""Data loader: how long each step waits for it, and whether batches are ready."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perftui.diagnosis.policy import Policy
from perftui_tui.charts.units import format_ns
from perftui_tui.format import percent
from perftui_tui.panes.meter import Meter
from perftui_tui.snapshot import Snapshot

if TYPE_CHECKING:
    from perftui.diagnosis.loader_facts import LoaderFacts
    from perftui.run.table import Table

HIGH_SHARE = Policy.input_warning
"""Wait as a share of the step, the limit at which ``input-bound`` warns."""

RECENT_VALUES = 4000
"""Steps that are charted, as many as the step-time chart shows."""

RECENT_STEPS = 20
"""Steps over which "now" is taken."""


def loader(snapshot: Snapshot) -> Meter:
    """The wait of each step as a share of it; the word says whether the queue feeds the step."""
    rank = snapshot.rank
    if rank is None or not len(rank.steps):
        return Meter("Loader", absent="no step yet")
    if not snapshot.train:
        return Meter("Loader", absent="no training step yet")
    return _meter(snapshot.train, snapshot.train_steps, snapshot.loader)


def _meter(steps: Table, total: int, facts: LoaderFacts | None) -> Meter:
    waits = steps["input_wait"][-RECENT_VALUES:].tolist()
    durations = steps["duration"][-RECENT_VALUES:].tolist()
    shares = tuple(100 * w / max(1, d) for w, d in zip(waits, durations, strict=True))
    recent_wait = sum(waits[-RECENT_STEPS:])
    share = recent_wait / max(1, sum(durations[-RECENT_STEPS:]))
    ready = [n for n in steps["batches_ready"][-RECENT_STEPS:].tolist() if n >= 0]
    word, style = _word(share, ready)
    per_step = recent_wait // len(waits[-RECENT_STEPS:])
    return Meter(
        "Loader",
        f"wait {percent(100 * share)}",
        word,
        style,
        shares,
        limit="100 %",
        total=total,
        notes=(f"{format_ns(per_step)}/step", *_configuration(ready, facts)),
    )


def _word(share: float, ready: list[int]) -> tuple[str, str]:
    if share >= HIGH_SHARE:
        return ("EMPTY", "bad") if ready and sum(ready) / len(ready) < 1 else ("HIGH", "bad")
    return "OK", "good"


def _configuration(ready: list[int], facts: LoaderFacts | None) -> list[str]:
    notes = []
    if ready:
        depth = _depth(facts)
        notes.append(f"queue {sum(ready) / len(ready):.1f}" + (f"/{depth}" if depth else ""))
    if facts is not None and facts.num_workers is not None:
        count = facts.num_workers
        notes.append("main thread" if not count else f"{count} worker{'s'[: count > 1]}")
    return notes


def _depth(facts: LoaderFacts | None) -> int:
    """Batches the loader may hold ready: ``prefetch_factor`` for each worker."""
    if facts is None or not facts.num_workers:
        return 0
    return facts.num_workers * (facts.prefetch_factor or 2)
