"""How much of the training's batches is padding, as the agent has seen in a few of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from perftui.analysis.model import TraceAnalysis
from perftui.facts.events import notes_of
from perftui.facts.fact import Facts, NotApplicableError, UnknownError, fact, trace_fact
from perftui.facts.source.source_search import matching_line

FEWEST_BATCHES = 2

_NAMES = ("rows", "tokens", "padded", "spare")

_SKIP = re.compile(
    r"^(aten|torch|nested|jagged|flash_attn\w*)::.*(_pack_padded_sequence|nested|jagged|varlen)"
    r"|flash_attn_varlen|FlashAttnVarlen"
)
"""Names of operators that compute on rows of their own length each."""

_SKIPS = r"\bpack_(padded_)?sequence\b|\bnested_tensor|\bvarlen|_varlen"


@dataclass(frozen=True)
class Padding:
    """What was seen in all batches that were looked at, rows up to a bound of each."""

    batches: int
    rows: int
    tokens: int
    padded: int
    """Of the tokens."""
    spare: int
    """Of those padded, beyond the longest row of their batch."""

    @property
    def share(self) -> float:
        """Padding of all tokens, 0 to 1."""
        return self.padded / self.tokens

    @property
    def spare_share(self) -> float:
        """What would be won by padding to the longest row of each batch, of all tokens, 0 to 1."""
        return self.spare / self.tokens


@fact
def padding(facts: Facts) -> Padding:
    """The padding of the batches that were looked at.

    Raises:
        NotApplicableError: none of them held token ids, or it was not recorded.
        UnknownError: too few were looked at.
    """
    read = [_numbers(note) for note in notes_of(facts.events, "padding")]
    found = [each for each in read if each is not None]
    rows, tokens, padded, spare = (sum(each[at] for each in found) for at in range(len(_NAMES)))
    if not tokens:
        raise NotApplicableError
    if len(found) < FEWEST_BATCHES:
        raise UnknownError("only a single batch was checked for padding")
    return Padding(len(found), rows, tokens, padded, spare)


def _numbers(note: Mapping[str, Any]) -> list[int] | None:
    """None where another version wrote them in another form."""
    numbers = [number for name in _NAMES if isinstance(number := note.get(name), int)]
    return numbers if len(numbers) == len(_NAMES) else None


@trace_fact
def _skips_in_trace(analysis: TraceAnalysis) -> bool:
    return any(_SKIP.search(name) for name in analysis.trace.names)


def skips_padding(facts: Facts) -> bool:
    """Whether operators of the window, or the text of the user's files, take packed or nested
    sequences, which leave padding out."""
    return bool(_skips_in_trace.or_none(facts)) or matching_line(facts, _SKIPS) is not None
