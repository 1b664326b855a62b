"""How a run was recorded, as plain text."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from perftui import format as fmt
from perftui.facts.fact import Facts
from perftui.facts.gpu.device_phases import DeviceShare
from perftui.facts.gpu.memory import MemoryUse
from perftui.facts.step.own_cost import OwnCost, cost_text, overhead_budget, recording_cost
from perftui.report.recorded import REASONS, Recorded, Recording, Snapshot
from perftui.report.shown import printable

MEMORY_TITLE = "GPU memory, by torch's allocator"

MOST_WINDOWS = 5
"""Windows that are listed: the first, and the newest."""


def recorded(recording: Recording | None, facts: Facts) -> Iterator[str]:
    """How the run was recorded; nothing for a trace alone."""
    if recording is not None:
        yield "Recording"
        yield from (f"  {line}" for line in recording_lines(recording, facts))


def recording_lines(recording: Recording, facts: Facts) -> Iterator[str]:
    """The options in force, the cost, each window with why it was opened, files to open."""
    if recording.options:
        yield f"options: {' '.join(recording.options)}"
    yield from _cost(recording_cost(facts), overhead_budget(facts))
    yield from _windows(recording.windows)
    for snapshot in recording.snapshots:
        yield _snapshot(snapshot)
    for report in recording.nsys:
        yield _opened("Nsight Systems report", report)
    if "--nsys" in recording.options and not recording.nsys:
        yield "no report of Nsight Systems: nsys/nsys.log in the run's directory says why"


def gpu_phases(phases: DeviceShare | None) -> Iterator[str]:
    """What phases take on the GPU."""
    if phases is not None:
        yield phases_title(phases)
        yield from (f"  {name:<24} {time / 1e6:12.2f} ms" for name, time in phases.parts)


def phases_title(phases: DeviceShare) -> str:
    """What the times of phases are, and of how many steps."""
    steps = fmt.several(phases.count, "step")
    return f"Phases on the GPU, timed by CUDA events (mean of {steps})"


def gpu_memory(memory: MemoryUse | None) -> Iterator[str]:
    """What torch's allocator holds on the GPU."""
    if memory is not None:
        yield MEMORY_TITLE
        yield from (f"  {name:<30} {value:>12}" for name, value in memory_rows(memory))


def memory_rows(memory: MemoryUse) -> Iterator[tuple[str, str]]:
    """Each figure of the allocator with its value."""
    yield "allocated at the last step", fmt.size(memory.allocated[-1])
    yield "peak so far", fmt.size(memory.peak_allocated)
    yield "reserved", fmt.size(memory.reserved[-1])
    if memory.retries:
        yield "allocation retries", str(memory.retries)
    if memory.failures:
        yield "allocations that failed", str(memory.failures)


def _cost(cost: OwnCost | None, limit: float | None) -> Iterator[str]:
    if cost is None:
        yield "what perftui took is not known"
        return
    parts = (("hooks", cost.hooks), ("windows", cost.stalls), ("slower steps", cost.slowed))
    listed = ", ".join(f"{name} {fmt.duration(value)}" for name, value in parts)
    told = cost_text(cost.total / cost.whole, limit)
    yield f"{told}, of {fmt.duration(cost.whole)} of steps ({listed})"
    if not cost.slowed and cost.slowed_at_most:
        most = fmt.duration(cost.slowed_at_most)
        yield f"  how much slower profiled steps were is within their variation: at most {most}"


def _windows(windows: tuple[Recorded, ...]) -> Iterator[str]:
    shown = windows
    if len(windows) > MOST_WINDOWS:
        shown = (windows[0], *windows[1 - MOST_WINDOWS :])
    for number, window in enumerate(shown):
        if number == 1 and len(shown) < len(windows):
            yield f"... {fmt.several(len(windows) - len(shown), 'window')} in between"
        yield _window(window)


def _window(window: Recorded) -> str:
    last = window.first_step + window.steps - 1
    steps = f"step {last}" if window.steps <= 1 else f"steps {window.first_step}-{last}"
    by = "window" if window.file is not None else "nsys"
    reason = REASONS.get(window.reason, window.reason or "reason not known")
    return printable(f"{by}: {steps}, {reason}; stalled the training {fmt.duration(window.stall)}")


def _snapshot(snapshot: Snapshot) -> str:
    size = "" if snapshot.peak is None else f" of {fmt.size(snapshot.peak)}"
    what = f"at the peak{size}" if snapshot.reason == "peak" else "as memory ran out"
    return _opened(f"GPU memory {what}, step {snapshot.step}", snapshot.file)


def _opened(what: str, path: Path) -> str:
    return printable(f"{what}: perftui {path}")
