"""The card that a trace was recorded on."""

from __future__ import annotations

from dataclasses import dataclass

from perftui.analysis.kernels.limits import Card, card_of
from perftui.analysis.model import TraceAnalysis
from perftui.facts.fact import trace_fact
from perftui.probe.ceilings import Ceiling, ceilings

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
    listed: Card | None
    """The card's peak rates by its data sheet; None where its name is not listed."""
    measured: Card | None = None
    """What ``perftui probe`` measured on a card of that name; None where it did not."""

    @property
    def peaks(self) -> Card | None:
        """The peak rates that are listed, else those that were measured; None without both."""
        return self.listed or self.measured

    @property
    def is_measured(self) -> bool:
        """Whether ``peaks`` were measured."""
        return self.listed is None and self.measured is not None


@trace_fact
def trace_card(analysis: TraceAnalysis) -> TraceCard:
    """The card by the file, the list of cards, and what was measured here."""
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
        _measured(name),
    )


def _measured(name: str) -> Card | None:
    """Its rates by ``perftui probe``, where that has measured arithmetic and memory."""
    found = ceilings(name) if name else None
    if found is None:
        return None

    def tera(*names: Ceiling) -> float:
        rates = (found.rate(one) for one in names)
        return next((rate.value / 1e12 for rate in rates if rate is not None), 0.0)

    float32, memory = tera(Ceiling.FLOAT32), tera(Ceiling.MEMORY)
    if not float32 or not memory:
        return None
    half = tera(Ceiling.BFLOAT16, Ceiling.FLOAT16)
    return Card(float32, tera(Ceiling.TF32), half, memory * 1e3)


def _whole(value: object) -> int:
    return value if isinstance(value, int) else 0
