"""The blocks of steps in which a switch was changed, and those in which it was not."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from perftui.facts.events import notes_of
from perftui.facts.fact import Facts, fact


@dataclass(frozen=True)
class Block:
    """Steps in a row, from the number ``first``, in which the switch flips, to before ``end``."""

    is_changed: bool
    first: int
    end: int


@fact
def blocks(facts: Facts) -> tuple[Block, ...]:
    """The whole blocks of the rank in their order: of the last one no end is known."""
    return tuple(
        Block(bool(one["is_changed"]), int(one["step"]), int(following["step"]))
        for one, following in pairwise(notes_of(facts.events, "block"))
    )
