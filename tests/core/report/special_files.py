"""Memory snapshots and reports of ncu with known contents."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

from tests.core.trace.memory_files import Allocator, snapshot

MIB = 1 << 20

Measured: TypeAlias = tuple[str, str, str, str, str]
"""Name, nanoseconds, compute, memory and occupancy as ncu prints them."""

METRICS = (
    "gpu__time_duration.sum",
    "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
    "sm__warps_active.avg.pct_of_peak_sustained_active",
)


def write_snapshot(path: Path, *allocators: Allocator) -> Path:
    """The snapshot of these allocators as torch pickles it."""
    path.write_bytes(pickle.dumps(snapshot(*allocators)))
    return path


def three_lines() -> Allocator:
    """4 MiB from line 10 before recording, 6 MiB from 20, 2 MiB from 30; 20 MiB for a moment."""
    allocator = Allocator(recording=False)
    allocator.alloc(4 * MIB, 10)
    allocator.recording = True
    allocator.alloc(6 * MIB, 20)
    moment = allocator.alloc(20 * MIB, 40)
    allocator.free(moment)
    allocator.alloc(2 * MIB - 100, 30)
    return allocator


def write_metrics(path: Path, rows: Sequence[Measured], said: str = "") -> Path:
    """The raw page of ncu, behind what the program ``said``."""
    columns = ["ID", "Process ID", "Kernel Name", "Context", "Stream", "Device", *METRICS]
    units = ["", "", "", "", "", "", "nsecond", "%", "%", "%"]
    lines = [columns, units]
    for number, (name, *values) in enumerate(rows):
        lines.append([str(number), "42", name, "1", "7", "0", *values])
    text = "\n".join(",".join(f'"{cell}"' for cell in line) for line in lines)
    path.write_text(f"{said}{text}\n")
    return path
