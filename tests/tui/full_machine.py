"""A run on a machine of which everything is sampled: several cards, many cores, disks in use."""

from __future__ import annotations

import math
from pathlib import Path

from perftui.run.columns import WORKER_COLUMNS
from perftui.run.journal import Column, JournalWriter
from perftui.run.layout import RunLayout
from tests.traces.builder import TraceBuilder
from tests.tui.recorded import SECOND, START, manifest, write_run

GIB = 2**30
SAMPLES = 180


def write_full_machine(
    runs: Path, *, cards: int, cores: int = 64, workers: int = 8, window: TraceBuilder | None = None
) -> Path:
    """A run of a training with ``workers`` loader workers on such a machine, and with a profiled
    ``window``; returns its path."""
    root = write_run(runs, gpu=cards > 0, workers=workers, wait_ms=20)
    _write_workers(root, workers)
    if window is not None:
        file = RunLayout(root).rank(0).window(100)
        file.parent.mkdir()
        window.write(file)
    path = RunLayout(root).telemetry(manifest().host)
    path.unlink()
    rows = [_sample(number, cards, cores) for number in range(SAMPLES)]
    journal = JournalWriter(path, [Column("time"), *(Column(name) for name in rows[0])])
    journal.append([[START + at * SECOND, *row.values()] for at, row in enumerate(rows)])
    journal.close()
    return root


def _write_workers(root: Path, workers: int) -> None:
    """Every second worker makes batches all the time, the others half of it."""
    names = [column.name for column in WORKER_COLUMNS]
    rows = []
    for number in range(workers):
        made = SECOND if number % 2 else SECOND // 2
        known = {
            "time": START + SAMPLES * SECOND // 3,
            "loader": 1,
            "worker": number,
            "pid": 5000 + number,
            "elapsed": SECOND,
            "batches": 4,
            "sized": 4,
            "bytes": 4 * 77_000_000,
            "fetch": made * 9 // 10,
            "collate": made // 10,
        }
        rows.append([known.get(name, 0) for name in names])
    journal = JournalWriter(RunLayout(root).rank(0).workers, WORKER_COLUMNS)
    journal.append(rows)
    journal.close()


def _sample(number: int, cards: int, cores: int) -> dict[str, float]:
    wave = math.sin(number / 7)
    busy = {f"cpu.core{n}": 20.0 + 15 * ((n * 7 + number) % 5) for n in range(cores)}
    busy["cpu.core3"] = 100.0
    sampled = {
        "cpu.utilization": sum(busy.values()) / max(cores, 1),
        **busy,
        "processes.cpu": 1450.0 + 60 * wave,
        "processes.rss": 61.0 * GIB,
        "processes.ranks_rss": 20.0 * GIB,
        "processes.workers_rss": 40.0 * GIB,
        "processes.rest_rss": 1.0 * GIB,
        "processes.pss": 44.0 * GIB,
        "processes.workers_cpu": 640.0,
        "memory.used": (120 + 5 * wave) * GIB,
        "memory.total": 512.0 * GIB,
        "memory.shm_used": 9.0 * GIB,
        "memory.shm_total": 64.0 * GIB,
        "memory.page_cache": 210.0 * GIB,
        "swap.used": 3.0 * GIB,
        "disk.read": 4e8 + 1e8 * wave,
        "disk.write": 2e6,
        "disk.utilization": 34.0,
        "network.receive": 3e5,
        "network.transmit": 2e5,
    }
    for card in range(cards):
        sampled |= {f"gpu{card}.{name}": value for name, value in _card(card, number).items()}
    return sampled


def _card(card: int, number: int) -> dict[str, float]:
    busy = 92 + 6 * math.sin(number / 5 + card) if card != 5 else 41 + 8 * math.sin(number / 3)
    return {
        "utilization": busy,
        "memory_used": (61 + card) * GIB,
        "memory_total": 80.0 * GIB,
        "process_memory": (60 + card) * GIB,
        "power": 540 + 12 * card + busy,
        "power_limit": 700.0,
        "temperature": 58.0 + 4 * card,
        "clock_sm": 1755.0 if card != 7 else 1410.0,
        "clock_sm_max": 1980.0,
        "throttle_reasons": 0x20 if card == 7 else 0,
        "sm_activity": 71.0,
        "tensor_activity": 32.0,
        "dram_activity": 48.0,
        "pcie_generation": 5.0,
        "pcie_width": 16.0,
        "nvlink_receive": 31e9,
        "nvlink_transmit": 29e9,
        "processes": 1.0,
        "pcie_receive": 1.2e9,
        "pcie_transmit": 8e7,
    }
