"""Rows of the tables of operators, modules and kernels, and their totals."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Totals:
    """Sums over all rows of a table, listed or not; times in ns."""

    rows: int
    calls: int
    cpu_own: int | None
    device: int


@dataclass(frozen=True)
class OpRow:
    """One operator or kernel; times in ns."""

    name: str
    calls: int
    cpu_own: int | None
    """Without the operators it calls, with the runtime calls in it (``cudaLaunchKernel``): torch's
    ``key_averages()`` leaves those out of "Self CPU" and lists them as rows of their own."""
    cpu_total: int | None
    device: int
