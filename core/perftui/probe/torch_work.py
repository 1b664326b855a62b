"""Run by the interpreter that trains: measures copies, memory and matrix products with torch.

``python torch_work.py SECONDS`` prints lines of JSON: ``{"torch", "gpu"}`` first, then for each
ceiling and round ``{"name", "unit", "how", "rates"}``, or once ``{"name", "problem"}``, and
``{"done": true}`` last. Standard library and torch only.
"""

from __future__ import annotations

import json
import math
import sys
from importlib import import_module
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    # Interpreters before 3.9 cannot read these.
    Run = Callable[[], object]
    Prepare = Callable[[float], tuple[Run, float, str]]
    """From the seconds of a slot: what is run, the amount of work of each run, and a
    description."""

ROUNDS = 5
"""Each goes through all ceilings, so that a short disturbance is not in all of one."""

LARGEST_GPU, LARGEST_CPU = 8192, 4096
SMALLEST = 256
"""Rows of square matrices."""

TRIES = 5
"""Products that are timed to choose the size."""

NEARLY = 0.98
"""A larger size is taken if it is at least this fast beside the fastest: it is timed better."""

SAMPLE_SECONDS = 0.01
"""Least time of a measurement, beside which waiting for the device takes nothing."""

AMPERE = 8
"""Compute capability from which on there are TF32 and bfloat16."""


class Task(NamedTuple):
    """One ceiling."""

    name: str
    unit: str
    prepare: Prepare


class Prepared(NamedTuple):
    """A task with its buffers."""

    task: Task
    run: Run
    amount: float
    how: str
    inner: int
    """Runs in each measurement."""


def main(seconds: float, tell: Callable[[dict[str, Any]], None]) -> None:
    """Measure everything in about ``seconds``, and ``tell`` each result."""
    torch: Any = import_module("torch")
    on_gpu = bool(torch.cuda.is_available())
    gpu = str(torch.cuda.get_device_name(0)) if on_gpu else None
    tell({"torch": str(torch.__version__), "gpu": gpu})
    tasks = gpu_tasks(torch) if on_gpu else cpu_tasks(torch)
    wait: Run = torch.cuda.synchronize if on_gpu else _nothing
    slot = seconds / (ROUNDS + 1) / len(tasks)
    ready = [prepared for task in tasks if (prepared := _prepared(task, wait, slot, tell))]
    for _ in range(ROUNDS):
        for prepared in ready:
            row = {"name": prepared.task.name, "unit": prepared.task.unit, "how": prepared.how}
            tell({**row, "rates": _rates(prepared, wait, slot)})
    tell({"done": True})


def gpu_tasks(torch: Any) -> list[Task]:
    """The ceilings of the first card."""
    is_nvidia = not torch.version.hip
    is_ampere = torch.cuda.get_device_capability(0)[0] >= AMPERE
    has_bfloat16 = is_ampere or not is_nvidia
    half = ("bfloat16", torch.bfloat16) if has_bfloat16 else ("float16", torch.float16)
    tf32 = [Task("matrix, TF32", "FLOP/s", _product(torch, "cuda", torch.float32, "high"))]
    return [
        Task("host to device, pinned", "B/s", _copy(torch, to_device=True, pinned=True)),
        Task("host to device, pageable", "B/s", _copy(torch, to_device=True, pinned=False)),
        Task("device to host, pinned", "B/s", _copy(torch, to_device=False, pinned=True)),
        Task("device to host, pageable", "B/s", _copy(torch, to_device=False, pinned=False)),
        # Far more than caches hold.
        Task("device memory", "B/s", _memory(torch, "cuda", 512 << 20)),
        Task("matrix, float32", "FLOP/s", _product(torch, "cuda", torch.float32, "highest")),
        *(tf32 if is_ampere and is_nvidia else ()),
        Task(f"matrix, {half[0]}", "FLOP/s", _product(torch, "cuda", half[1], "highest")),
    ]


def cpu_tasks(torch: Any) -> list[Task]:
    """The ceilings of the processor."""
    float32, bfloat16 = torch.float32, torch.bfloat16
    return [
        Task("CPU memory", "B/s", _memory(torch, "cpu", 256 << 20)),
        Task("CPU matrix, float32", "FLOP/s", _product(torch, "cpu", float32, "highest")),
        Task("CPU matrix, bfloat16", "FLOP/s", _product(torch, "cpu", bfloat16, "highest")),
    ]


def _prepared(
    task: Task, wait: Run, slot: float, tell: Callable[[dict[str, Any]], None]
) -> Prepared | None:
    try:
        run, amount, how = task.prepare(slot)
        # The first run also loads kernels, the second shows how long one takes.
        _timed(run, wait, 1)
        once = _timed(run, wait, 1)
    except (RuntimeError, MemoryError) as error:
        tell({"name": task.name, "problem": (str(error).splitlines() or ["no reason"])[0][:200]})
        return None
    return Prepared(task, run, amount, how, max(1, math.ceil(SAMPLE_SECONDS / max(once, 1e-7))))


def _rates(task: Prepared, wait: Run, slot: float) -> list[float]:
    """As many rates as ``slot`` seconds allow, one at least."""
    rates: list[float] = []
    until = perf_counter() + slot
    while not rates or perf_counter() < until:
        rates.append(task.inner * task.amount / _timed(task.run, wait, task.inner))
    return rates


def _timed(run: Run, wait: Run, times: int) -> float:
    """Seconds that ``times`` runs take, the device included."""
    wait()
    start = perf_counter()
    for _ in range(times):
        run()
    wait()
    return perf_counter() - start


def _copy(torch: Any, *, to_device: bool, pinned: bool) -> Prepare:
    def prepare(_: float) -> tuple[Run, float, str]:
        size = min(128 << 20, torch.cuda.mem_get_info()[0] // 16)
        # Written to, so that the system provides all of its pages.
        host = torch.ones(size, dtype=torch.uint8)
        host = host.pin_memory() if pinned else host
        device = torch.ones(size, dtype=torch.uint8, device="cuda")
        target, source = (device, host) if to_device else (host, device)
        how = f"copies of {size >> 20} MiB"
        return lambda: target.copy_(source, non_blocking=pinned), size, how

    return prepare


def _memory(torch: Any, device: str, most: int) -> Prepare:
    def prepare(_: float) -> tuple[Run, float, str]:
        size = min(most, torch.cuda.mem_get_info()[0] // 16) if device == "cuda" else most
        source = torch.ones(size // 4, dtype=torch.float32, device=device)
        target = torch.ones_like(source)
        how = f"copies of {size >> 20} MiB, read and written{_threads(torch, device)}"
        return lambda: target.copy_(source), 2 * source.numel() * 4, how

    return prepare


def _product(torch: Any, device: str, dtype: Any, precision: str) -> Prepare:
    """Products of square matrices of the fastest size of which ten fit into a slot of time."""

    def prepare(slot: float) -> tuple[Run, float, str]:
        rows, most = SMALLEST, LARGEST_GPU if device == "cuda" else LARGEST_CPU
        wait: Run = torch.cuda.synchronize if device == "cuda" else _nothing
        fastest: tuple[float, int, Run] | None = None
        while True:
            # Not zeros: they take less power, and clocks stay higher than in a training.
            matrix = torch.randn(rows, rows, device=device).to(dtype)
            run = _multiplying(torch, matrix, precision)
            _timed(run, wait, 1)
            # The shortest of several, as threads may have to wait for a core.
            shortest = min(_timed(run, wait, 1) for _ in range(TRIES))
            rate = rows**3 / shortest
            if fastest is None or rate > NEARLY * fastest[0]:
                fastest = rate, rows, run
            # Twice the rows take eight times as long.
            if rows >= most or 8 * shortest > slot / 10:
                break
            rows *= 2
        _, rows, run = fastest
        return run, 2.0 * rows**3, f"products of {rows} x {rows}{_threads(torch, device)}"

    return prepare


def _multiplying(torch: Any, matrix: Any, precision: str) -> Run:
    """A product of ``matrix`` with itself, in that precision whatever other tasks ask for."""
    out = torch.empty_like(matrix)

    def run() -> object:
        torch.set_float32_matmul_precision(precision)
        return torch.mm(matrix, matrix, out=out)

    return run


def _threads(torch: Any, device: str) -> str:
    if device != "cpu":
        return ""
    count = torch.get_num_threads()
    return ", 1 thread" if count == 1 else f", {count} threads"


def _nothing() -> None:
    """Nothing to wait for: a processor has computed when the call returns."""


def _print(line: dict[str, Any]) -> None:
    print(json.dumps(line), flush=True)


if __name__ == "__main__":
    # Modules beside this file must not be imported by the interpreter.
    del sys.path[0]
    main(float(sys.argv[1]), _print)
