"""Measured ceilings of a machine, and their files: one for each host, card and driver."""

from __future__ import annotations

import enum
import hashlib
import socket
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from perftui.run.files import read_or_none, replace_file
from perftui.trace.cache import cache_directory, is_private, make_private

SCHEMA = 1

BUSY = 0.1
"""Share of the cores beyond which other programs are said to disturb the measurement."""


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
    """Measured only where the device has no bfloat16."""
    CPU_MEMORY = "CPU memory"
    CPU_FLOAT32 = "CPU matrix, float32"
    CPU_BFLOAT16 = "CPU matrix, bfloat16"


@dataclass(frozen=True)
class Rate:
    """One ceiling."""

    name: Ceiling
    unit: Annotated[str, Meta(pattern="^(B|FLOP)/s$")]
    value: Annotated[
        float, Meta(description="Per second, in `unit`: the best median of all rounds.")
    ]
    low: Annotated[float, Meta(description="The lowest of those medians.")]
    repeats: Annotated[int, Meta(description="Number of measurements in all rounds.")]
    how: Annotated[str, Meta(description="What was done, in words.")]

    @property
    def spread(self) -> float:
        """Difference of the best and the lowest median, as a share of the best."""
        return (self.value - self.low) / self.value if self.value else 0.0


@dataclass(frozen=True)
class NotMeasured:
    """A ceiling that is missing, and why."""

    name: Ceiling
    reason: str


@dataclass(frozen=True)
class Ceilings:
    """The rates measured on one machine, with one card and driver."""

    host: str
    measured_ns: int
    """Time of the measurement, on the wall clock."""
    rates: tuple[Rate, ...]
    gpu: str | None = None
    """The card's name; None where the CPU was measured."""
    driver: str | None = None
    torch: str | None = None
    path: str = ""
    """The directory whose disk was read."""
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

    The best, since other work on the machine only ever makes it slower; medians, since a clock may
    be read late once.
    """
    medians = [statistics.median(times) for times in rounds]
    return Rate(name, unit, max(medians), min(medians), sum(map(len, rounds)), how)


LARGEST = 1 << 16
"""Bytes beyond which a file is none of ours."""


def ceilings_directory() -> Path | None:
    """``ceilings`` beside the cached traces; None where nothing is to be kept there."""
    traces = cache_directory()
    return None if traces is None else traces.with_name("ceilings")


def keep(rates: Ceilings) -> Path | None:
    """Keep ``rates`` in place of what was measured with the same host, card and driver.

    Returns the file; None where nothing is to be kept, or others can write to the directory.

    Raises:
        OSError: the directory cannot be written.
    """
    directory = ceilings_directory()
    if directory is None:
        return None
    make_private(directory)
    if not is_private(directory):
        return None
    path = directory / f"{_key(rates)}.json"
    replace_file(path, msgspec.json.encode(rates))
    return path


def ceilings(gpu: str | None = None) -> Ceilings | None:
    """The last measurement on this host, or with ``gpu`` on a card of that name; None without one.

    A card of that name in another host counts where this host has none: homes are shared.
    """
    host = socket.gethostname()
    rows = [row for row in _stored() if (row.host == host if gpu is None else row.gpu == gpu)]
    return max(rows, key=lambda row: (row.host == host, row.measured_ns), default=None)


def ceilings_of(host: str) -> list[Ceilings]:
    """All ceilings measured on that host, newest first."""
    rows = [row for row in _stored() if row.host == host]
    return sorted(rows, key=lambda row: -row.measured_ns)


def _stored() -> Iterator[Ceilings]:
    directory = ceilings_directory()
    if directory is None or not is_private(directory):
        return
    for path in sorted(directory.glob("*.json")):
        if kept := read_or_none(path, Ceilings, SCHEMA, "measured ceilings", LARGEST):
            yield kept


def _key(rates: Ceilings) -> str:
    name = "\0".join((rates.host, rates.gpu or "", rates.driver or ""))
    return hashlib.blake2b(name.encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()
