"""Run directories with known contents, written as the recorder writes them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from perftui.run.columns import EVENT_COLUMNS, PHASES, STEP_COLUMNS
from perftui.run.journal import Column, JournalWriter
from perftui.run.layout import RunLayout, create_run_directory
from perftui.run.manifest import Manifest, Status, write_manifest
from tests.step_rows import step_row

START = 1_700_000_000_000_000_000
SECOND = 1_000_000_000
MS = 1_000_000
NOW = START + 432 * SECOND

ENDED = {"status": Status.EXITED, "exit_code": 0, "ended_ns": START + 10**11}
"""Of a run whose script has ended."""

SCRIPT = """\
from torch.utils.data import DataLoader

def loader(pictures):
    return DataLoader(pictures, batch_size=128, shuffle=True)
"""

GPU_COLUMNS = ("utilization", "memory_used", "memory_total", "power", "temperature")
MACHINE_COLUMNS = (
    "cpu.utilization",
    "processes.cpu",
    "processes.rss",
    "disk.read",
    "disk.write",
    "disk.utilization",
    "network.receive",
    "network.transmit",
    "memory.used",
    "memory.total",
)


def manifest(**changes: Any) -> Manifest:
    """A run of ``train.py`` that still going on."""
    base = Manifest(
        run_id="20231114-221320-train",
        command=("/usr/bin/python3", "train.py", "--lr", "0.1"),
        cwd="/home/ada/vision",
        started_ns=START,
        host="node1",
        cpu_count=16,
        torch_version="2.13.0",
        status=Status.RUNNING,
        profile={"profile": True, "window_steps": 2},
    )
    return replace(base, **changes)


def write_run(
    runs: Path,
    *,
    steps: int = 200,
    wait_ms: int = 118,
    workers: int = 0,
    gpu: bool = False,
    output: bytes | None = None,
    script: Path | None = None,
    loader_line: int = 41,
    **changes: Any,
) -> Path:
    """A run directory below ``runs`` whose steps wait ``wait_ms`` for data; returns its path."""
    contents = manifest(gpus=("NVIDIA H200",) if gpu else (), **changes)
    layout = create_run_directory(runs, contents.run_id)
    write_manifest(layout.manifest, contents)
    if output is None:
        output = b"".join(b"epoch 1 step %d loss %.4f\r\n" % (n, 3 - n / 200) for n in range(steps))
    layout.output.write_bytes(output)
    rows = step_rows(steps, wait_ms, workers, gpu)
    if contents.torch_version:
        _write_rank(layout, rows, loader_data(workers, script, loader_line))
    _write_telemetry(layout, contents.host, gpu, _last_end(rows))
    return layout.root


def loader_data(workers: int, script: Path | None, line: int) -> dict[str, Any]:
    """The data of a ``loader`` event."""
    return {
        "id": 1,
        "role": "train",
        "num_workers": workers,
        "pin_memory": False,
        "persistent_workers": workers > 0,
        "prefetch_factor": 2 if workers else None,
        "batch_size": 128,
        "dataset": "Pictures",
        "is_iterable": False,
        "start_method": "fork",
        "file": str(script) if script else "/home/ada/vision/train.py",
        "line": line,
    }


def _write_rank(layout: RunLayout, rows: list[list[Any]], loader: dict[str, Any]) -> None:
    events = JournalWriter(layout.rank(0).events, EVENT_COLUMNS)
    events.append([[START, "process", 0, -1, {"pid": 4711, "rank": 0}]])
    events.append([[START, "loader", 0, -1, loader]])
    if loader["num_workers"]:
        applied = {
            "number": 0,
            "outcome": "applied",
            "file": loader["file"],
            "line": loader["line"],
        }
        events.append([[START, "override", 0, -1, applied]])
    events.close()
    if rows:
        journal = JournalWriter(layout.rank(0).steps, STEP_COLUMNS)
        journal.append(rows)
        journal.close()


def step_rows(steps: int, wait_ms: int, workers: int, gpu: bool) -> list[list[Any]]:
    """Rows of ``STEP_COLUMNS``: a slow first step, then steps that vary by a few milliseconds."""
    rows, at = [], START + 8 * SECOND
    for index in range(steps):
        slow = 900 * MS if index == 0 else 0
        parts = {
            "input_wait": (wait_ms + index * 7 % 11) * MS,
            "forward": 71 * MS + slow,
            "backward": (88 + index * 3 % 5) * MS,
            "optimizer": 14 * MS,
            "other": 12 * MS,
        }
        durations = [parts.get(phase, 0) for phase in PHASES]
        known: dict[str, int] = {"start": at, "overhead": 40_000}
        if gpu:
            known |= {"allocated": 20 << 30, "reserved": 24 << 30, "peak_allocated": 31 << 30}
        if workers:
            known |= {"batches_ready": 0}
        rows.append(step_row(index, durations, **known))
        at += sum(durations)
    return rows


def _last_end(rows: list[list[Any]]) -> int:
    """When the last step ends: two minutes after the start where there is none."""
    if not rows:
        return START + 120 * SECOND
    last = dict(zip((column.name for column in STEP_COLUMNS), rows[-1], strict=True))
    end: int = last["start"] + last["duration"]
    return end


def _write_telemetry(layout: RunLayout, host: str, gpu: bool, until: int) -> None:
    names = ["time", *MACHINE_COLUMNS]
    if gpu:
        names += [f"gpu0.{name}" for name in GPU_COLUMNS]
    journal = JournalWriter(layout.telemetry(host), [Column(name) for name in names])
    journal.append([_sample(number, gpu, (until - START) // 120) for number in range(120)])
    journal.close()


def _sample(number: int, gpu: bool, every: int) -> list[float]:
    wave = number * 13 % 17
    machine = [22.0 + wave, 180.0 + wave, 9.1e9, 2.0e8 + wave * 4e6, 1e6, 35.0, 3e5 + wave, 2e5]
    machine += [21.0 * 2**30, 64.0 * 2**30]
    card = [50.0 + wave, 31.0 * 2**30, 141.0 * 2**30, 412.0, 54.0] if gpu else []
    return [START + number * every, *machine, *card]
