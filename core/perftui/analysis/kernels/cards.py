"""What cards can do at most: arithmetic by precision, and bytes from their memory.

Dense rates from NVIDIA's data sheets and whitepapers of each card (those of Hopper, Ada and
Blackwell list the double, for sparse matrices), with sums in float32; GeForce halves them then.
AMD's are of its data sheets for matrix instructions; a MI250X is two devices, each listed here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from perftui.analysis.kernels.precision import Precision


@dataclass(frozen=True)
class Card:
    """Peaks of one device."""

    float32: float
    """TFLOP/s of the ordinary units, of AMD's cards of its matrix units."""
    tf32: float
    """TFLOP/s of tensor cores; 0 where they do not know it."""
    half: float
    """float16, and bfloat16 from compute capability 8 on."""
    bandwidth: float
    """GB/s of the memory."""

    def rate(self, precision: Precision) -> float:
        """TFLOP/s in that precision, 0 where it is not known."""
        known = {
            Precision.FLOAT32: self.float32,
            Precision.TF32: self.tf32,
            Precision.HALF: self.half,
        }
        return known.get(precision, 0.0)


_CARDS: tuple[tuple[str, Card], ...] = (
    ("B200", Card(75, 1125, 2250, 8000)),
    ("GH200", Card(67, 494.7, 989.4, 4000)),
    ("H200", Card(67, 494.7, 989.4, 4800)),
    ("H100 NVL", Card(60, 417.5, 835.5, 3938)),
    ("H100 PCIe", Card(51.2, 378, 756, 2039)),
    ("H100", Card(67, 494.7, 989.4, 3350)),
    ("A100.*PCI.*80|A100 80.*PCI", Card(19.5, 156, 312, 1935)),
    ("A100.*80", Card(19.5, 156, 312, 2039)),
    ("A100", Card(19.5, 156, 312, 1555)),
    ("A30", Card(10.3, 82, 165, 933)),
    ("A40", Card(37.4, 74.8, 149.7, 696)),
    ("A6000", Card(38.7, 77.4, 154.8, 768)),
    ("A10G", Card(35, 35, 70, 600)),
    ("A10", Card(31.2, 62.5, 125, 600)),
    ("L40S", Card(91.6, 183, 362, 864)),
    ("L40", Card(90.5, 90.5, 181, 864)),
    ("L4", Card(30.3, 60, 121, 300)),
    ("V100", Card(15.7, 0, 125, 900)),
    ("T4", Card(8.1, 0, 65, 320)),
    ("RTX 5090", Card(104.8, 104.8, 209.5, 1792)),
    ("RTX 4090", Card(82.6, 82.6, 165.2, 1008)),
    ("RTX 4080", Card(48.7, 48.7, 97.5, 717)),
    ("RTX 4070", Card(29.1, 29.1, 58.3, 504)),
    ("RTX 4060", Card(15.1, 15.1, 30.3, 272)),
    ("RTX 3090", Card(35.6, 35.6, 71, 936)),
    ("RTX 3080", Card(29.8, 29.8, 59.5, 760)),
    ("RTX 3070", Card(20.3, 20.3, 40.6, 448)),
    ("RTX 3060", Card(12.7, 12.7, 25.5, 360)),
    ("RTX 2080 Ti", Card(13.4, 0, 53.8, 616)),
    ("MI325X", Card(163.4, 653.7, 1307.4, 6000)),
    ("MI300X", Card(163.4, 653.7, 1307.4, 5300)),
    ("MI250", Card(47.9, 0, 191.5, 1638)),
    ("MI210", Card(45.3, 0, 181, 1638)),
)

_BY_NAME = tuple((re.compile(rf"(?<![A-Z0-9])({name})(?![0-9])"), card) for name, card in _CARDS)


def card_of(name: str) -> Card | None:
    """The card that calls itself so; None where it is not listed."""
    return next((card for pattern, card in _BY_NAME if pattern.search(name)), None)
