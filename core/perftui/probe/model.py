"""Measured ceilings of a machine."""

from __future__ import annotations

import enum
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

SCHEMA = 1

BUSY = 0.1
"""Share of the cores from which on other programs are said to disturb what is measured."""


class Ceiling(str, enum.Enum):
    """A peak rate that is measured; the value is its name on screen and in JSON."""

    DISK_READ = "disk read"
    TO_DEVICE_PINNED = "host to device, pinned"
    TO_DEVICE_PAGEABLE = "host to device, pageable"
    TO_HOST_PINNED = "device to host, pinned"
    TO_HOST_PAGEABLE = "device to host, pageable"
    MEMORY = "device memory"
    FLOAT32 = "matrix, float32"
    TF32 = "matrix, TF32"
    BFLOAT16 = "matrix, bfloat16"
    FLOAT16 = "matrix, float16"
    """Only where the device has no bfloat16."""
    CPU_MEMORY = "CPU memory"
    CPU_FLOAT32 = "CPU matrix, float32"
    CPU_BFLOAT16 = "CPU matrix, bfloat16"


@dataclass(frozen=True)
class Rate:
    """One ceiling."""

    name: Ceiling
    unit: str
    """``B/s`` or ``FLOP/s``."""
    value: float
    """The best of the medians of the rounds."""
    low: float
    """The lowest of them."""
    repeats: int
    """Measurements, in all rounds together."""
    how: str
    """What was done, in words."""

    @property
    def spread(self) -> float:
        """How far the lowest median is below the best, as a share of it."""
        return (self.value - self.low) / self.value if self.value else 0.0


@dataclass(frozen=True)
class NotMeasured:
    """A ceiling that is missing, and why."""

    name: Ceiling
    reason: str


@dataclass(frozen=True)
class Ceilings:
    """What one machine was measured to do, with one card and driver."""

    host: str
    measured_ns: int
    """When, on the wall clock."""
    rates: tuple[Rate, ...]
    gpu: str | None = None
    """The card's name; None where the CPU was measured."""
    driver: str | None = None
    torch: str | None = None
    path: str = ""
    """What the disk was read below."""
    not_measured: tuple[NotMeasured, ...] = ()
    others: float = 0.0
    """Cores that other programs kept busy meanwhile, in the mean."""
    cores: int = 1
    """Cores of the machine."""
    schema: int = SCHEMA

    @property
    def is_disturbed(self) -> bool:
        """Whether other programs took so much that the machine can do more than was measured."""
        return self.others > BUSY * self.cores

    def rate(self, name: Ceiling) -> Rate | None:
        """The ceiling of that name; None where it was not measured."""
        return next((rate for rate in self.rates if rate.name is name), None)


def rate_of(name: Ceiling, unit: str, rounds: Sequence[Sequence[float]], how: str) -> Rate:
    """The best and the lowest median of ``rounds``, none of them empty.

    The best, since what else runs on the machine only ever makes it slower; of medians, since a
    clock may be read late once.
    """
    medians = [statistics.median(one) for one in rounds]
    return Rate(name, unit, max(medians), min(medians), sum(map(len, rounds)), how)
