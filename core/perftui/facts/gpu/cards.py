"""What telemetry shows of the cards that the training uses, while its steady steps ran."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from perftui.facts.cpu.machine import machine_use
from perftui.facts.fact import Facts, fact
from perftui.facts.samples import samples
from perftui.facts.step.steps import steady_span
from perftui.run.table import Table
from perftui.telemetry.gpu.names import POWER, THERMAL, bits_of, gpu_name

FEWEST_SAMPLES = 5
"""Samples below which a share of them means nothing."""

_THERMAL = bits_of(THERMAL)
_POWER = bits_of(POWER)


@dataclass(frozen=True)
class Card:
    """One card; shares are 0 to 1, None stands for what was not sampled."""

    prefix: str
    """What its columns begin with: ``gpu0``, or ``gpu0.mig1`` for a MIG device."""
    thermal: float | None = None
    """Share of the samples in which heat held clocks down."""
    power: float | None = None
    """Share of the samples in which power did."""
    clock: float | None = None
    """Mean SM clock over the highest, while it computed."""
    temperature: float | None = None
    """Highest, in degrees Celsius."""
    busy: float | None = None
    """Share of the time a kernel of anybody ran."""
    memory_total: float | None = None
    memory_others: float | None = None
    """Bytes that other processes hold, at least at some time all through."""
    generation: float | None = None
    """PCIe, highest seen: a link that idles may slow down."""
    most_generation: float | None = None
    width: float | None = None
    most_width: float | None = None

    @property
    def name(self) -> str:
        """How a person calls the GPU."""
        return gpu_name(self.prefix)


@fact
def cards(facts: Facts) -> tuple[Card, ...]:
    """Cards of the rank's host; empty if none was sampled, or it is not known which it uses."""
    run, rank = facts.run, facts.rank
    if run is None or rank is None:
        return ()
    table = _steady(samples(facts), facts)
    if len(table) < FEWEST_SAMPLES:
        return ()
    return tuple(_card(table, memory.prefix) for memory in machine_use(facts).memory)


def _steady(table: Table, facts: Facts) -> Table:
    during = steady_span(facts)
    if during is None or "time" not in table:
        return table
    return table.where((table["time"] >= during[0]) & (table["time"] <= during[1]))


def _card(table: Table, prefix: str) -> Card:
    def known(name: str) -> npt.NDArray[np.float64]:
        column = f"{prefix}.{name}"
        if column not in table:
            # Clocks, heat and the link of a MIG device are those of its card.
            column = f"{prefix.partition('.')[0]}.{name}"
        values = np.asarray(table[column], np.float64) if column in table else np.zeros(0)
        return values[np.isfinite(values)]

    def one(name: str, of: str = "max") -> float | None:
        values = known(name)
        return float(getattr(values, of)()) if len(values) else None

    reasons = known("throttle_reasons").astype(np.int64)
    clock, most = one("clock_sm", "mean"), one("clock_sm_max")
    used, mine = known("memory_used"), known("process_memory")
    busy = one("utilization", "mean")
    both = len(used) == len(mine) > 0
    return Card(
        prefix,
        thermal=float(np.mean(reasons & _THERMAL != 0)) if len(reasons) else None,
        power=float(np.mean(reasons & _POWER != 0)) if len(reasons) else None,
        clock=clock / most if clock and most else None,
        temperature=one("temperature"),
        busy=None if busy is None else busy / 100,
        memory_total=one("memory_total"),
        memory_others=float((used - mine).min()) if both else None,
        generation=one("pcie_generation"),
        most_generation=one("pcie_generation_max"),
        width=one("pcie_width"),
        most_width=one("pcie_width_max"),
    )
