"""What to do next about a run: which fix to write, to try or to run, and for which finding."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perftui.diagnosis.model import Finding
    from perftui.experiments.journal import Proof
    from perftui.fixes.model import FixOption
    from perftui_tui.reading.snapshot import Snapshot


class Todo(str, enum.Enum):
    """How far a fix has come, in the word that stands before it."""

    RUN = "WRITTEN"
    WRITE = "PROVEN"
    TRY = "DO THIS"
    LOOK = "TRIED"
    """Nothing is left to try: the result may be of use."""
    NOTHING = "NO FIX"
    """No fix is possible here."""


_ORDER = {Todo.RUN: 0, Todo.WRITE: 1, Todo.TRY: 2, Todo.LOOK: 2, Todo.NOTHING: 3}
"""Which of the fixes of one finding is named; of equals the first."""


@dataclass(frozen=True)
class NextThing:
    """A fix, the finding that it is for, and what was measured of it."""

    todo: Todo
    finding: Finding
    option: FixOption
    proof: Proof | None


def next_thing(snapshot: Snapshot) -> NextThing | None:
    """The fix to go on with: one that is written, else one that is proven to gain, else the first
    that was not tried, of the first finding or of later ones, else what is known of the first
    finding's. None where no fix is known for that and nothing is written or proven."""
    top, every = snapshot.diagnosis.top, list(_every(snapshot))
    ready = [one for todo in (Todo.RUN, Todo.WRITE) for one in every if one.todo is todo]
    first = [one for one in every if one.finding is top]
    if ready or not first:
        return ready[0] if ready else None
    possible = [one for one in first if one.todo is not Todo.NOTHING]
    later = [one for one in every if one.finding is not top and one.option.is_triable]
    untried = [one for one in (*possible, *later) if one.proof is None]
    unclear = [one for one in possible if one.proof is not None and not one.proof.is_decided]
    return [*untried, *unclear, *possible, *first][0]


def next_try(snapshot: Snapshot) -> NextThing | None:
    """The fix that is tried next where none is chosen: the first that can be and was not yet, else
    the first that can be; where none can be, the first of all."""
    every = list(_every(snapshot))
    triable = [one for one in every if one.option.is_triable]
    untried = [one for one in triable if one.proof is None]
    return next(iter([*untried, *triable, *every]), None)


def best_of(finding: Finding, snapshot: Snapshot) -> NextThing | None:
    """The fix of ``finding`` that has come furthest, or else the best that is possible here; None
    where none is known."""
    return min(_of(finding, snapshot), key=lambda one: _ORDER[one.todo], default=None)


def _every(snapshot: Snapshot) -> Iterator[NextThing]:
    for finding in snapshot.diagnosis.findings:
        yield from _of(finding, snapshot)


def _of(finding: Finding, snapshot: Snapshot) -> Iterator[NextThing]:
    for option in snapshot.fixes(finding):
        proof = snapshot.proof(option)
        yield NextThing(_todo(option, proof), finding, option, proof)


def _todo(option: FixOption, proof: Proof | None) -> Todo:
    if option.is_written:
        return Todo.RUN
    if proof is not None and proof.is_faster:
        return Todo.WRITE
    if not option.is_possible:
        return Todo.NOTHING
    return Todo.TRY if proof is None else Todo.LOOK
