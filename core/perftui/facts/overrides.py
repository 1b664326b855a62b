"""What became of each override of a run."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from perftui.facts.events import notes_of
from perftui.facts.fact import Facts, fact
from perftui.facts.settings import fields_of
from perftui.run.manifest import Override
from perftui.run.reader import RunSnapshot


class Arrival(str, enum.Enum):
    """How far an override has come."""

    APPLIED = "applied"
    PARTLY = "partly"
    """Some arguments, or at some of the calls."""
    REFUSED = "refused"
    NEVER_REACHED = "never reached"
    """The run is over, and nothing was created at the call."""
    NOT_YET = "not yet"
    """The run goes on, and nothing has been made at the call."""
    UNKNOWN = "unknown"
    """Not known from the run: it trained too little, or an older version recorded it."""


@dataclass(frozen=True)
class AppliedOverride:
    """One override of the manifest with what became of it."""

    override: Override
    arrival: Arrival
    why: str = ""
    """The reasons against, or what is missing; empty where it was applied."""
    file: str | None = None
    line: int | None = None
    """Where it was applied or refused, the first of several places."""
    values: Mapping[str, Any] = field(default_factory=dict)
    """What is in force there."""

    @property
    def place(self) -> str:
        """``file:line`` of the call, or of the one it was meant for; empty where none is known."""
        file = self.file or self.override.file
        line = self.line or self.override.line
        return f"{Path(file).name}:{line}" if file else ""


@fact
def overrides(facts: Facts) -> tuple[AppliedOverride, ...]:
    """What became of each override of the manifest, by the notes of all ranks; none without a
    run."""
    run = facts.run
    if run is None:
        return ()
    notes = [note for rank in run.ranks for note in notes_of(rank.events, "override")]
    notes_all = any(notes_of(rank.events, "settings") for rank in run.ranks)
    return tuple(
        _applied(override, [note for note in notes if note.get("number") == number], run, notes_all)
        for number, override in enumerate(run.manifest.overrides)
    )


def _applied(
    override: Override, notes: Sequence[Mapping[str, Any]], run: RunSnapshot, notes_all: bool
) -> AppliedOverride:
    """What became of ``override``; ``notes_all``: the run is known to note every override."""
    unknown = AppliedOverride(override, Arrival.UNKNOWN)
    if not notes:
        return _not_made(override, run.manifest.status.is_over) if notes_all else unknown
    outcomes = {note.get("outcome") for note in notes}
    arrival = Arrival.PARTLY
    if len(outcomes) == 1 and (outcome := outcomes.pop()) in ("applied", "refused"):
        arrival = Arrival(outcome)
    # Where several calls were made the one to name is that which lacks something.
    shown = next((note for note in notes if note.get("outcome") != "applied"), notes[0])
    known = fields_of(AppliedOverride, shown)
    return AppliedOverride(**{**known, "override": override, "arrival": arrival})


def _not_made(override: Override, is_over: bool) -> AppliedOverride:
    unmade = AppliedOverride(override, Arrival.NEVER_REACHED if is_over else Arrival.NOT_YET)
    what = f"no {override.target} was created"
    if override.target == "source" and override.file:
        what = f"{Path(override.file).name} was not run in the training process"
    elif override.target == "parameters":
        what = "the training has made fewer than three steps"
    elif unmade.place:
        what = f"nothing was created at {unmade.place}"
    return replace(unmade, why=what if is_over else f"{what} so far")
