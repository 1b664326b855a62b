"""What telemetry says of the machine while the steady steps ran."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from perftui.facts.fact import Facts, fact
from perftui.facts.memory import peak_reserved
from perftui.facts.steps import steady_span
from perftui.facts.trace_steps import trace_steps
from perftui.run.aggregates import NO_AGGREGATES, Aggregates, Group
from perftui.run.table import Table

Mask = npt.NDArray[np.bool_]

BUSY_SHARE = 0.2
"""Other programs on this share of the cores take time from a training that uses them all."""

BUSY_PRESSURE = 10.0
"""Percent of stalled time (/proc/pressure/cpu). Above it the same change measured 9x faster that
measures 8 % slower on an idle machine. Below it no task had to wait for a core, whoever used the
others."""


@dataclass(frozen=True)
class DeviceMemory:
    """Memory of one device over a whole run, in bytes."""

    device: int
    total: int
    peak: int
    """Highest use sampled, by all processes: others on the card take room too."""

    @property
    def share(self) -> float:
        """Peak over total."""
        return self.peak / self.total


@dataclass(frozen=True)
class MachineFacts:
    """Means over the steady steps; None stands for what was not sampled."""

    cores: int | None = None
    """Cores the training may use."""
    installed_cores: int | None = None
    """Cores of the whole machine: a container or an affinity may leave the training fewer."""
    tree_cores: float | None = None
    """Cores kept busy by the training and its workers."""
    workers_cores: float | None = None
    """Cores kept busy by the data-loader workers of all ranks of the machine."""
    workers_read: float | None = None
    """Bytes a second that those read from storage."""
    machine_cores: float | None = None
    """Cores kept busy by everything on the machine."""
    pressure: float | None = None
    """Percent of the time some task waited for a core (pressure stall information)."""
    cards: int = 0
    """Cards of the machine that were sampled, whoever uses them."""
    holds_memory: bool = False
    """Whether a card lists memory of the run's own processes. It may not where it does: in a
    container the driver names processes by numbers that nobody there knows."""
    gpu_busy: float | None = None
    """Share of the time a kernel ran, as NVML samples it, of the busiest card the run uses; 0 to 1.
    None also where nothing tells which cards those are."""
    memory: tuple[DeviceMemory, ...] = ()
    """Of the cards the run uses, as far as it is known which those are."""

    @property
    def other_cores(self) -> float | None:
        """Cores that other programs take of those the training may use.

        Of a machine with more cores, others take the ones that the training may not use first.
        """
        if self.tree_cores is None or self.machine_cores is None:
            return None
        return max(self.machine_cores - self.tree_cores - self._out_of_reach, 0.0)

    @property
    def idle_cores(self) -> float | None:
        """Cores that nothing used and the training may use."""
        if self.cores is None or self.machine_cores is None:
            return None
        idle = self.cores + self._out_of_reach - self.machine_cores
        return max(min(idle, self.cores - (self.tree_cores or 0.0)), 0.0)

    @property
    def _out_of_reach(self) -> int:
        """Cores of the machine that the training may not use."""
        if self.cores is None or self.installed_cores is None:
            return 0
        return max(self.installed_cores - self.cores, 0)


def machine_facts(
    telemetry: Mapping[str, Table],
    host: str,
    cores: int | None,
    during: tuple[int, int] | None,
    on_gpu: bool = False,
    downsampled: Aggregates = NO_AGGREGATES,
) -> MachineFacts:
    """Aggregate the samples of ``host``; ``during`` is a (start, end) in ns, None for all.

    ``on_gpu`` says that the training is known to use a GPU: where the machine has but one, it is
    that one. ``downsampled`` are the samples that are no longer kept as rows.
    """
    table = telemetry.get(host, Table())
    rows = _within(table, during)
    between = _between(downsampled, during)
    tree = _mean(table, "processes.cpu", rows, between)
    workers = _mean(table, "processes.workers_cpu", rows, between)
    if "processes.ranks_cpu" not in table:
        # Before it was known who loads data, the column held whatever the training had started.
        workers = None
    machine = _mean(table, "cpu.utilization", rows, between)
    counted = _mean(table, "cpu.cores", rows, between)
    installed = cores if counted is None else round(counted)
    every, holding = _devices(table), _holding(table, downsampled.of())
    used = holding or (every if on_gpu and len(every) == 1 else [])
    return MachineFacts(
        cores=cores,
        installed_cores=installed,
        tree_cores=None if tree is None else tree / 100,
        workers_cores=None if workers is None else workers / 100,
        workers_read=_mean(table, "processes.workers_read", rows, between),
        machine_cores=None if machine is None or not installed else machine / 100 * installed,
        pressure=_mean(table, "pressure.cpu", rows, between),
        cards=len(every),
        holds_memory=bool(holding),
        gpu_busy=_busiest(table, used, rows, between),
        memory=_memory(table, used, downsampled.of()),
    )


def _within(table: Table, during: tuple[int, int] | None) -> Mask:
    """Samples taken inside ``during``, or all where none was (steps shorter than the interval)."""
    everything = np.ones(len(table), dtype=np.bool_)
    if during is None or "time" not in table:
        return everything
    inside = (table["time"] >= during[0]) & (table["time"] <= during[1])
    return inside if inside.any() else everything


def _between(downsampled: Aggregates, during: tuple[int, int] | None) -> Group:
    """The samples that are no longer kept as rows, if all of them were taken inside ``during``."""
    every = downsampled.of()
    if during is None or (during[0] <= every.first and every.last <= during[1]):
        return every
    return Group()


def _mean(table: Table, name: str, rows: Mask, between: Group) -> float | None:
    values = _finite(table, name, rows)
    kept = between.of(name)
    count = len(values) + kept.count
    return (float(values.sum()) + kept.total) / count if count else None


def _finite(table: Table, name: str, rows: Mask) -> npt.NDArray[np.float64]:
    if name not in table:
        return np.zeros(0)
    values = np.asarray(table[name][rows], dtype=np.float64)
    return values[np.isfinite(values)]


def _busiest(table: Table, devices: list[int], rows: Mask, between: Group) -> float | None:
    means = [_mean(table, f"gpu{device}.utilization", rows, between) for device in devices]
    known = [mean for mean in means if mean is not None]
    return max(known) / 100 if known else None


def _memory(table: Table, devices: list[int], downsampled: Group) -> tuple[DeviceMemory, ...]:
    """Peaks over the whole run: memory that ran short in the warm-up ran short."""
    everything = np.ones(len(table), dtype=np.bool_)
    found = []
    for device in devices:
        used = _finite(table, f"gpu{device}.memory_used", everything)
        total = _finite(table, f"gpu{device}.memory_total", everything)
        if len(used) and len(total) and total.max() > 0:
            peak = max(used.max(), downsampled.of(f"gpu{device}.memory_used").highest)
            found.append(DeviceMemory(device, int(total.max()), int(peak)))
    return tuple(found)


def _holding(table: Table, downsampled: Group) -> list[int]:
    """Cards on which the run's own processes held memory at some time."""
    everything = np.ones(len(table), dtype=np.bool_)
    return [
        device
        for device in _devices(table)
        if (_finite(table, f"gpu{device}.process_memory", everything) > 0).any()
        or downsampled.of(f"gpu{device}.process_memory").above_zero
    ]


def _devices(table: Table) -> list[int]:
    names = (re.match(r"gpu(\d+)\.", column.name) for column in table.columns)
    return sorted({int(match[1]) for match in names if match})


@fact
def machine_use(facts: Facts) -> MachineFacts:
    """The rank's host over its steady steps."""
    run, rank = facts.run, facts.rank
    if run is None or rank is None:
        return MachineFacts()
    trace = trace_steps.or_none(facts)
    on_gpu = peak_reserved(facts) is not None or bool(trace and trace.has_gpu)
    host = rank.host or run.manifest.host
    return machine_facts(
        run.telemetry,
        host,
        run.manifest.cpu_count or None,
        steady_span(facts),
        on_gpu,
        run.downsampled.get(host, NO_AGGREGATES),
    )


@fact
def ranks_here(facts: Facts) -> int:
    """Training processes on the host of the rank, which share its cores."""
    run, rank = facts.run, facts.rank
    if run is None or rank is None:
        return 1
    return len({each.place for each in run.ranks if each.host == rank.host})


@fact
def busy_host(facts: Facts) -> str:
    """Why the rank's host was too busy to measure on, empty where it was not."""
    use = machine_use(facts)
    if use.pressure is not None and use.pressure <= BUSY_PRESSURE:
        return ""
    if use.other_cores is not None and use.cores:
        taken = use.other_cores >= BUSY_SHARE * use.cores
        return f"other programs used {use.other_cores:.1f} of {use.cores} cores" if taken else ""
    if use.pressure is None:
        return ""
    return f"tasks waited for a core {use.pressure:.0f} % of the time"
