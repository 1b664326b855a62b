"""Run directories with known contents, written as the recorder writes them."""

import math
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from perftui.run.columns import EVENT_COLUMNS, PHASES, STEP_COLUMNS, WORKER_COLUMNS
from perftui.run.journal import Column, JournalWriter
from perftui.run.layout import RunLayout, create_run_directory
from perftui.run.manifest import Manifest, Status, write_manifest
from tests.step_rows import step_row
from tests.traces.builder import TraceBuilder, ms, us

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
    "processes.ranks_rss",
    "processes.workers_rss",
    "processes.rest_rss",
    "disk.read",
    "disk.write",
    "disk.utilization",
    "network.receive",
    "network.transmit",
    "memory.used",
    "memory.total",
)


def write_script(folder: Path, text: str = SCRIPT) -> Path:
    """``train.py`` as it was when the run began: a script edited since is not what ran."""
    path = folder / "train.py"
    path.write_text(text)
    os.utime(path, ns=(START - SECOND, START - SECOND))
    return path


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
        made = {"number": 0, "outcome": "applied", "file": loader["file"], "line": loader["line"]}
        events.append([[START, "override", 0, -1, made]])
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
    machine = [22.0 + wave, 180.0 + wave, 9.1e9, 8.3e9, 0.8e9, 0.0]
    machine += [2.0e8 + wave * 4e6, 1e6, 35.0, 3e5 + wave, 2e5, 21.0 * 2**30, 64.0 * 2**30]
    card = [50.0 + wave, 31.0 * 2**30, 141.0 * 2**30, 412.0, 54.0] if gpu else []
    return [START + number * every, *machine, *card]


GPU_SCRIPT = """\
from torch.utils.data import DataLoader

def train(model, pictures, optimizer):
    loader = DataLoader(pictures, batch_size=128, shuffle=True)
    for batch in loader:
        loss = model(batch).sum()
        loss.backward()
        optimizer.step()
"""
LOADER_LINE, COSTLY_LINE = 4, 6
WAITS = (ms(118), ms(126), ms(121))
"""For data in each step; the GPU idles longer, as the step before ends without it."""

_STEP, _CONVOLUTION, _SUM = ms(300), ms(90), ms(8)


def write_gpu_run(folder: Path) -> tuple[Path, Path]:
    """A run that is over, whose window has a GPU that waits for a loader, and the script of it."""
    script = write_script(folder, GPU_SCRIPT)
    root = write_run(
        folder / ".perftui" / "runs",
        gpu=True,
        script=script,
        loader_line=LOADER_LINE,
        cwd=str(folder),
        **ENDED,
    )
    window = RunLayout(root).rank(0).window(100)
    window.parent.mkdir()
    gpu_window().write(window)
    return root, script


def gpu_window() -> TraceBuilder:
    """Steps that wait for data, then convolve and sum up on the GPU."""
    story = TraceBuilder().numbered(100)
    for at, wait in zip((0, _STEP, 2 * _STEP), WAITS, strict=True):
        go = at + wait + ms(2)
        story.at(at).step(_STEP - ms(1)).at(at + ms(1)).data_wait(wait)
        _operator(story.at(go), "aten::conv2d", "conv_kernel", go + us(300), _CONVOLUTION)
        summed = go + us(350) + _CONVOLUTION
        _operator(story.at(go + ms(2)), "aten::sum", "reduce_kernel", summed, _SUM)
    return story


def _operator(story: TraceBuilder, name: str, kernel: str, starts: int, lasting: int) -> None:
    at = story.now
    story.at(at - us(50)).frame(f"train.py({COSTLY_LINE}): train", us(1_500))
    story.at(at).op(name, ms(1)).at(at + us(100))
    story.launch(kernel, lasting, call=us(20), starts=starts)


GIB = 2**30
SAMPLES = 180


def write_full_machine(
    runs: Path, *, cards: int, cores: int = 64, workers: int = 8, window: TraceBuilder | None = None
) -> Path:
    """A run of a training with ``workers`` loader workers, with a profiled ``window``, on a machine
    of which everything is sampled; returns its path."""
    root = write_run(runs, gpu=cards > 0, workers=workers, wait_ms=20)
    _write_workers(root, workers)
    if window is not None:
        file = RunLayout(root).rank(0).window(100)
        file.parent.mkdir()
        window.write(file)
    path = RunLayout(root).telemetry(manifest().host)
    path.unlink()
    rows = [_full_sample(number, cards, cores) for number in range(SAMPLES)]
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


def _full_sample(number: int, cards: int, cores: int) -> dict[str, float]:
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
