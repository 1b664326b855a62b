"""What the link between the cards of one machine carries at most, each way."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class CardLink:
    """The way by which a card sends to another of the same machine."""

    name: str
    """``NVLink``, ``PCIe 4`` and the like."""
    rate: float
    """GB/s each way."""


_NVLINK = "NVLink"
_LINKS: tuple[tuple[str, CardLink], ...] = (
    ("T4|V100.*PCI", CardLink("PCIe 3", 16)),
    ("H100 PCIe|RTX 50[789]0|RTX PRO 6000", CardLink("PCIe 5", 64)),
    ("A10G?|L4|L40S?|RTX 40[6789]0", CardLink("PCIe 4", 32)),
    ("B200", CardLink(_NVLINK, 900)),
    ("H200(?! NVL)|H100 80GB HBM3|H100 SXM", CardLink(_NVLINK, 450)),
    (r"A100.SXM\d", CardLink(_NVLINK, 300)),
    (r"V100.SXM\d", CardLink(_NVLINK, 150)),
)
"""From NVIDIA's data sheets, which add up both ways. Left out are cards that a bridge may join."""

_BY_NAME = tuple((re.compile(rf"(?<![A-Z0-9])({name})(?![0-9])"), link) for name, link in _LINKS)


def link_of(card: str) -> CardLink | None:
    """The link of the card that calls itself so; None where it is not listed."""
    return next((link for pattern, link in _BY_NAME if pattern.search(card)), None)
