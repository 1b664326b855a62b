"""What ncu measured of each kernel launch, in one unit for each kind of quantity."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

MetricKey: TypeAlias = tuple[str, str]
"""Section and name: ``Memory Throughput`` is a share of the peak in one section, a rate in another.
The raw page and ``--metrics`` have no sections; the section is then ``""``."""

PERCENT, NANOSECONDS, BYTES, HERTZ, BYTES_PER_SECOND = "%", "ns", "byte", "Hz", "byte/s"


@dataclass(frozen=True)
class Metric:
    """One value; text is not yet safe to show."""

    value: float | None
    """None where ncu printed no number: ``n/a``, ``nan``, or words."""
    unit: str
    """Times are ``ns``, sizes ``byte``, rates ``Hz`` and ``byte/s``, shares ``%``; units of other
    kinds (``warp``, ``register/thread``) are spelled as in the file, without a prefix."""
    text: str
    """The value as the file spells it."""


@dataclass(frozen=True)
class Launch:
    """One launch of a kernel. What the file lacks is None."""

    id: str
    name: str
    compute_capability: str
    metrics: Mapping[MetricKey, Metric]

    @property
    def duration(self) -> float | None:
        """Nanoseconds that the kernel took under ncu: clocks fixed, caches flushed by default."""
        return self._named(_DURATION, NANOSECONDS)

    @property
    def compute_throughput(self) -> float | None:
        """Percent of the peak that the busiest compute unit reached."""
        return self._named(_COMPUTE, PERCENT)

    @property
    def memory_throughput(self) -> float | None:
        """Percent of the peak that the busiest memory unit reached."""
        return self._named(_MEMORY, PERCENT)

    @property
    def achieved_occupancy(self) -> float | None:
        """Percent of the warps that fit which were active."""
        return self._named(_OCCUPANCY, PERCENT)

    def _named(self, names: tuple[str, ...], unit: str) -> float | None:
        for name in names:
            for (_, own), metric in self.metrics.items():
                if own == name and metric.unit == unit and metric.value is not None:
                    return metric.value
        return None


# The name on the raw page, then those that versions of ncu print on the details page, newest first.
_DURATION = ("gpu__time_duration.sum", "Duration")
_COMPUTE = (
    "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "Compute (SM) Throughput",
    "Compute (SM) [%]",
    "SM [%]",
    "SOL SM",
)
_MEMORY = (
    "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
    "Memory Throughput",
    "Memory [%]",
    "SOL Memory",
)
_OCCUPANCY = ("sm__warps_active.avg.pct_of_peak_sustained_active", "Achieved Occupancy")


@dataclass(frozen=True, eq=False)
class KernelMetrics:
    """All launches of one report, in its order."""

    path: Path
    launches: tuple[Launch, ...]
    warnings: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.launches)
