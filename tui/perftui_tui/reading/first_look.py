"""A run as its journals show it, before it is judged: what can be drawn at once.

Nothing here imports rules or fixes: those are 300 modules, which take as long to load as all that
the first frame needs."""

from __future__ import annotations

import numpy as np

from perftui.diagnosis.model import Diagnosis
from perftui.facts.fact import Facts
from perftui.facts.step.steps import run_breakdown, step_breakdown, step_count, step_kind
from perftui.run.reader import RunSnapshot
from perftui.run.table import Table
from perftui_tui.reading.snapshot import JUDGING, DrawnStep, Snapshot, phase_of

RECENT_STEPS = 4000
"""Steps that are charted: minutes of a quick training."""


def unjudged(run: RunSnapshot, facts: Facts, rank_number: int, now_ns: int) -> Snapshot:
    """The snapshot of ``run`` with its steps alone; ``facts`` are those of the rank shown."""
    rank = facts.rank
    train = rank.steps.where(rank.steps["kind"] == step_kind(facts)) if rank else None
    return Snapshot(
        source=run.root,
        phase=phase_of(run.manifest),
        title=run.manifest.script,
        now_ns=now_ns,
        is_judged=False,
        diagnosis=Diagnosis(progress=JUDGING),
        run=run,
        rank_number=rank_number,
        facts=facts,
        breakdown=_breakdown(facts, train),
        step_ms=tuple(ns / 1e6 for ns in train["duration"][-RECENT_STEPS:].tolist())
        if train is not None
        else (),
        train_steps=step_count(facts),
        train=train,
    )


def _breakdown(facts: Facts, train: Table | None) -> DrawnStep | None:
    steady = step_breakdown(facts)
    if steady is not None:
        return DrawnStep(steady, f"{steady.count} steady steps")
    if train is None:
        return None
    share = run_breakdown(train, np.ones(len(train), dtype=np.bool_))
    return DrawnStep(share, f"{share.count} steps, warming up") if share else None
