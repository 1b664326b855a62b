"""What to do next about a run: which fix to write, to try or to run, and for which finding."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perftui.diagnosis.model import Finding
    from perftui.experiments.trial.proof import Proof
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
    every = list(_every(snapshot))
    written = (one for one in every if one.option.is_written)
    proven = (one for one in every if one.proof is not None and one.proof.is_faster)
    if (found := next(iter([*written, *proven]), None)) is not None:
        todo = Todo.RUN if found.option.is_written else Todo.WRITE
        return NextThing(todo, found.finding, found.option, found.proof)
    top = snapshot.diagnosis.top
    first = [one for one in every if one.finding is top]
    if not first:
        return None
    possible = [one for one in first if one.option.is_possible]
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


def _every(snapshot: Snapshot) -> Iterator[NextThing]:
    for finding in snapshot.diagnosis.findings:
        for option in snapshot.fixes(finding):
            proof = snapshot.proof(option)
            if not option.is_possible and not option.is_written:
                todo = Todo.NOTHING
            else:
                todo = Todo.TRY if proof is None else Todo.LOOK
            yield NextThing(todo, finding, option, proof)
