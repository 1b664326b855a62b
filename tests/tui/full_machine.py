"""A run on a machine of which everything is sampled: several cards, many cores, disks in use."""

from __future__ import annotations

import math
from pathlib import Path

from perftui.run.journal import Column, JournalWriter
from perftui.run.layout import RunLayout
from tests.tui.recorded import SECOND, START, manifest, write_run

GIB = 2**30
SAMPLES = 180


def write_full_machine(runs: Path, *, cards: int, cores: int = 64, workers: int = 8) -> Path:
    """A run of a training with ``workers`` loader workers on such a machine; returns its path."""
    root = write_run(runs, gpu=cards > 0, workers=workers, wait_ms=20)
    path = RunLayout(root).telemetry(manifest().host)
    path.unlink()
    rows = [_sample(number, cards, cores) for number in range(SAMPLES)]
    journal = JournalWriter(path, [Column("time"), *(Column(name) for name in rows[0])])
    journal.append([[START + at * SECOND, *row.values()] for at, row in enumerate(rows)])
    journal.close()
    return root


def _sample(number: int, cards: int, cores: int) -> dict[str, float]:
    wave = math.sin(number / 7)
    busy = {f"cpu.core{n}": 20.0 + 15 * ((n * 7 + number) % 5) for n in range(cores)}
    busy["cpu.core3"] = 100.0
    sampled = {
        "cpu.utilization": sum(busy.values()) / max(cores, 1),
        **busy,
        "processes.cpu": 1450.0 + 60 * wave,
        "processes.rss": 61.0 * GIB,
        "processes.pss": 44.0 * GIB,
        "processes.workers_cpu": 640.0,
        "memory.used": (120 + 5 * wave) * GIB,
        "memory.total": 512.0 * GIB,
        "memory.shm_used": 9.0 * GIB,
        "memory.shm_total": 64.0 * GIB,
        "memory.page_cache": 210.0 * GIB,
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
        "sm_activity": 71.0,
        "tensor_activity": 32.0,
        "dram_activity": 48.0,
        "pcie_receive": 1.2e9,
        "pcie_transmit": 8e7,
    }
