"""What perftui costs a training on a GPU, and whether its readings of how busy the GPU is agree."""

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median
from typing import Any

import numpy as np

from perftui.analysis.steps import COMPUTE, EXPOSED_COMMUNICATION
from perftui.run.reader import RunReader, RunSnapshot
from tests.gpu.checks.machine import TESTS, Machine, Row, State
from tests.verify.benchmarks.bench_agent_step import FEWEST_PAIRS, median_within

TRAININGS = TESTS / "gpu" / "trainings"

HOOKS = {"gpu-tiny": (18, 4.0), "gpu-realistic": (16, 0.5)}
"""Kinds of steps of ``agent_on_off.py``: seconds to measure, and what hooks may add in per cent of
a step; docs/overhead.md has the same limits."""

RUNS = {"busy": ("language.py", "6", "8"), "host": ("tiny.py", "6")}
"""A training whose GPU is busy all the time, and one whose GPU waits for the host."""

MOST_HOOKS = {"busy": 0.01, "host": 0.04}
MOST_STALL_NS = 150_000_000
"""What the hooks may take of a run, whose steps are tiny where the GPU waits for the host, and how
long a window may hold a training up."""

ABOVE_EVENTS, BESIDE_NVML = 0.10, 0.20
"""How far the window's kernels, as a share of an unprofiled step, may be above the share of the
events around its phases, and apart from NVML's, which is a mean over other steps."""

WARM = 12
"""Steps at the beginning that NVML's share leaves out."""


def hooks(machine: Machine) -> Iterator[Row]:
    """The step benchmark: steps with hooks and without, in turns in one process."""
    script = TESTS / "verify" / "benchmarks" / "agent_on_off.py"
    for shape, (seconds, most) in HOOKS.items():
        words = (sys.executable, script, shape, str(seconds))
        env = {"OMP_NUM_THREADS": "1"}
        ended = machine.run(*words, seconds=seconds + 60, env=env).checked()
        yield judge_hooks(f"{shape} steps", json.loads(ended.out), most)


def judge_hooks(name: str, pairs: Sequence[tuple[float, float, float]], most: float) -> Row:
    """What hooks add, by the ns of a step in pairs of turns: without, with, and whole."""
    if len(pairs) < FEWEST_PAIRS:
        return Row(name, State.UNKNOWN, f"only {len(pairs)} pairs of turns: too few to tell")
    added, low, high = median_within([100 * (on - off) / whole for off, on, whole in pairs])
    step = median(whole for _, _, whole in pairs) / 1e6
    text = f"hooks add {added:+.2f} % ({low:+.2f} to {high:+.2f}) to {step:.2f} ms, limit {most} %"
    values = {"added": added, "low": low, "high": high, "step_ms": step, "pairs": len(pairs)}
    return Row.of(name, low <= most, text, **values)


def recorded(machine: Machine, kind: str, *options: str) -> Path:
    """A run of one of ``RUNS``; those without options are read again by the other checks."""
    name, *arguments = RUNS[kind]
    script = machine.script(name, (TRAININGS / name).read_text())
    kept_as = "-".join((kind, *(option.strip("-") for option in options)))
    return machine.record(kept_as, *options, script, *arguments, seconds=75)


def whole_run(kind: str, option: str, machine: Machine) -> Iterator[Row]:
    """What recording takes of a whole run, with shapes of tensors or without."""
    options = (option,) if option else ()
    report = machine.report(recorded(machine, kind, *options))
    yield judge_run(" ".join(("run", kind, *options)), report, MOST_HOOKS[kind])


def judge_run(name: str, report: dict[str, Any], most: float) -> Row:
    """What the run of ``report`` cost, by its own account and by its profiled steps; ``most`` is
    the share that hooks may take."""
    cost, windows = report["recording"]["cost"], report["recording"]["windows"]
    if cost is None or not windows:
        return Row(name, State.WRONG, "no steps or no window was recorded")
    hooks = cost["hooks"] / max(cost["whole"], 1)
    stall = max(window["stall"] for window in windows)
    profiled, plain = step_lengths(report)
    slower = f"{profiled / plain:.2f}x as long" if profiled and plain else "not known"
    text = (
        f"hooks {hooks:.2%}, longest stall {stall / 1e6:.0f} ms, profiled steps {slower} "
        f"as the others of {(plain or 0) / 1e6:.1f} ms"
    )
    values = {"cost": cost, "stall_ns": stall, "profiled_ns": profiled, "step_ns": plain}
    return Row.of(name, hooks <= most and stall <= MOST_STALL_NS, text, **values)


def step_lengths(report: dict[str, Any]) -> tuple[float | None, float | None]:
    """Median ns of the steps in windows and of the others, the first ones apart."""
    rows = report["steps"]["rows"]
    inside = {
        window["first_step"] + at
        for window in report["recording"]["windows"]
        for at in range(window["steps"])
    }
    lengths = zip(rows["index"], rows["duration"], strict=True)
    profiled = [length for index, length in lengths if index in inside]
    plain = unprofiled(rows)
    return median(profiled) if profiled else None, median(plain) if plain else None


def unprofiled(rows: dict[str, list[int]]) -> list[int]:
    """ns of the steps without a window, the first ones apart."""
    steps = zip(rows["index"], rows["duration"], rows["profiled"], strict=True)
    return [length for index, length, profiled in steps if index >= WARM and not profiled]


@dataclass(frozen=True)
class Readings:
    """How much of its time a GPU computes, by three readings that do not know of each other; None
    where one of them says nothing."""

    window: float | None
    """Of profiled steps, by the union of their kernels."""
    unprofiled: float | None
    """The same kernels as a share of a mean step that is not profiled."""
    events: float | None
    """Of unprofiled steps, by events around their phases, which hold their kernels and the gaps
    between these."""
    nvml: float | None
    """By the driver, from when steps are steady."""


def readings_of(report: dict[str, Any], run: RunSnapshot) -> Readings:
    """The readings of a run."""
    rows = report["steps"]["rows"]
    plain = unprofiled(rows)
    traced = [one for one in report["step_breakdowns"] if one["source"] == "trace"]
    kernels = None
    if traced and report["trace"]["devices"]:
        # The driver does not count copies.
        kernels = sum(traced[0]["parts_ns"][part] for part in (COMPUTE, EXPOSED_COMMUNICATION))
    phases = (rows[f"device_{phase}"] for phase in ("forward", "backward", "optimizer"))
    timed = zip(*phases, rows["profiled"], strict=True)
    events = [sum(times) for *times, profiled in timed if min(times) >= 0 and not profiled]
    return Readings(
        kernels / traced[0]["step_ns"] if kernels is not None else None,
        min(kernels / fmean(plain), 1.0) if kernels is not None and plain else None,
        # The host may be far ahead: its steps and those of the GPU are of one length on average.
        min(median(events) / median(plain), 1.0) if events and plain else None,
        _by_nvml(rows, run),
    )


def _by_nvml(rows: dict[str, list[int]], run: RunSnapshot) -> float | None:
    if len(rows["start"]) <= WARM:
        return None
    first, last = rows["start"][WARM], rows["start"][-1]
    for table in run.telemetry.values():
        if "gpu0.utilization" in table:
            during = (table["time"] >= first) & (table["time"] <= last)
            known = table["gpu0.utilization"][during]
            known = known[~np.isnan(known)]
            if len(known):
                return float(known.mean()) / 100
    return None


def readings(machine: Machine) -> Iterator[Row]:
    """The readings of a training whose GPU is busy, of one whose host is, and of one that waits for
    data."""
    from tests.gpu.checks.planted import CASES, PLANTED

    roots = {kind: recorded(machine, kind) for kind in RUNS}
    roots["input"] = CASES[0].record(machine, PLANTED)
    for kind, root in roots.items():
        read = readings_of(machine.report(root), RunReader(root).poll())
        yield judge_readings(f"busy GPU, {kind}", read)


def judge_readings(name: str, read: Readings) -> Row:
    """Whether the kernels of the window are within what the other readings allow."""
    shares = {"window": read.window, "events": read.events, "NVML": read.nvml}
    told = ", ".join(f"{what} {share:.0%}" for what, share in shares.items() if share is not None)
    values = {**shares, "unprofiled": read.unprofiled}
    if read.unprofiled is None or read.events is None or read.nvml is None:
        lacks = ", ".join(what for what, share in shares.items() if share is None)
        state = State.UNKNOWN if lacks == "NVML" else State.WRONG
        return Row(name, state, f"{told}; nothing by {lacks}", values)
    told += f"; the window's kernels are {read.unprofiled:.0%} of a mean step without profiling"
    above = read.unprofiled - read.events > ABOVE_EVENTS
    apart = abs(read.unprofiled - read.nvml) > BESIDE_NVML
    told += "".join((above * "; more than the events allow", apart * "; NVML does not agree"))
    return Row.of(name, not above and not apart, told, **values)
