"""The card that a trace was recorded on."""

from __future__ import annotations

from dataclasses import dataclass

from perftui.analysis.kernels.cards import Card, card_of
from perftui.analysis.model import TraceAnalysis
from perftui.facts.fact import trace_fact

_AMD_WARP = 64


@dataclass(frozen=True)
class TraceCard:
    """The busiest device of a trace."""

    name: str
    """The card's name; empty where the file has none."""
    major: int
    """First number of the compute capability; 0 for AMD's, and where the file has none."""
    multiprocessors: int
    """Number of multiprocessors; 0 where the file has none."""
    peaks: Card | None
    """The card's peak rates; None where its name is not listed."""


@trace_fact
def trace_card(analysis: TraceAnalysis) -> TraceCard:
    """The card by the file and the list of cards."""
    busiest = max(analysis.activity, key=lambda each: each.busy, default=None)
    listed = analysis.trace.metadata.get("deviceProperties")
    all_known = (
        [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
    )
    number = busiest.device if busiest else None
    known = next((each for each in all_known if each.get("id") == number), {})
    # Numbers of devices and of their properties differ in traces of one process among several.
    known = known or (all_known[0] if all_known else {})
    name = known.get("name")
    name = name if isinstance(name, str) else ""
    is_amd = known.get("warpSize") == _AMD_WARP
    return TraceCard(
        name,
        0 if is_amd else _whole(known.get("computeMajor")),
        _whole(known.get("numSms")),
        card_of(name),
    )


def _whole(value: object) -> int:
    return value if isinstance(value, int) else 0
