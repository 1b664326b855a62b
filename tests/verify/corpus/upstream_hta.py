"""What HTA (HolisticTraceAnalysis) computes, from our columns.

An expected value is met if our own definition gives it. Otherwise HTA's definition must give it,
with as few of its disagreements as possible: those are the explanation. A ``Frame`` has a trace's
rows as HTA has them, one disagreement at a time; without any these are our own rows: device
activity, exact times, all steps."""

import gzip
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import combinations
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pytest

from perftui.analysis import kinds
from perftui.analysis.steps import step_source
from perftui.trace.model import NONE, Int64, Trace
from tests.verify.corpus.collection import ROOT
from tests.verify.corpus.opened import Opened, as_doubles, opened
from tests.verify.corpus.outcome import MET, Differs, Verdict, explained, not_shown

Float64 = npt.NDArray[np.float64]

_STEP = re.compile(r"ProfilerStep#\d+")
_COMMUNICATION = re.compile(r"nccl|hip|hccl|.*ncclKernel")
_MEMORY = re.compile(r"(hip)?Mem(cpy|set)|dma")
_NO_COMPUTATION = re.compile(
    r"nccl|.*Memcpy|.*Memset|.*dma|.*Sync|Stream Wait Event|cuda.*LaunchKernel|runFunction|hip|hccl"
    r"|job_exe|packet|pe_exe|cpum_exe_subgraph|collective_subgraph_execution"
)
_OUTSIDE_STREAMS = frozenset({"Event Sync", "Context Sync"})


class _Arguments(msgspec.Struct):
    stream: Any = None


class _Event(msgspec.Struct):
    ph: Any = None
    cat: str | None = None
    args: _Arguments | None = None


class _File(msgspec.Struct):
    traceEvents: list[_Event]  # noqa: N815 - as the file spells it


@cache
def streams(name: str) -> Int64:
    """The stream among each row's arguments, NONE where there is none; read from the file anew."""
    it = opened(name)
    reader = it.trace.read_arguments
    raw = (ROOT / name).read_bytes()
    text = gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw
    found = [
        _number(event.args.stream if event.args else None)
        for event in msgspec.json.decode(text, type=_File).traceEvents
        if event.ph == "X" and (event.cat is None or event.cat.lower() != "trace")
    ]
    column: Int64 = np.array(found, dtype=np.int64)[reader.sequence]
    return column


def _number(value: Any) -> int:
    try:
        return int(float(value))
    except (TypeError, ValueError):
        return NONE


@dataclass(frozen=True, eq=False)
class Frame:
    """Rows that count as device activity, with times in us."""

    name: str
    differs: frozenset[Differs]

    @cached_property
    def it(self) -> Opened:
        return opened(self.name)

    @cached_property
    def trace(self) -> Trace:
        return self.it.trace

    @cached_property
    def stream(self) -> Int64:
        return streams(self.name)

    @cached_property
    def times(self) -> tuple[Float64, Float64]:
        """Start and duration of all rows."""
        trace = self.trace
        if not self.differs & {Differs.ROUNDED, Differs.DOUBLES}:
            return trace.start / 1000, trace.duration / 1000
        start = as_doubles(trace.start + trace.origin)
        duration = trace.duration / 1000
        if Differs.ROUNDED in self.differs:
            end = np.floor(start + duration)
            start = np.ceil(start)
            duration = end - start
        # HTA leaves rows without a category out, and counts from the first that it keeps.
        return start - start.min(), duration

    @cached_property
    def kept(self) -> kinds.Mask:
        """All rows but those that the step filter drops."""
        trace = self.trace
        steps = kinds.named(trace, _STEP.match)
        dropping = self.differs & {Differs.UNLINKED, Differs.LAST_STEP}
        if not dropping or len(np.unique(trace.name[steps])) < 2:
            return np.ones(len(trace), dtype=bool)
        outside = kinds.named(trace, _OUTSIDE_STREAMS.__contains__)
        on_device = ((self.stream >= 0) & (trace.correlation >= 0)) | outside
        start, duration = self.times
        marks = steps & ~on_device
        if Differs.LAST_STEP in dropping:
            early = start < start[marks].max()
        else:
            early = start <= (start + duration)[marks].max()
        launched = np.isin(trace.correlation, trace.correlation[early & ~on_device])
        kept: kinds.Mask = np.where(on_device, launched, early)
        return kept

    @cached_property
    def rows(self) -> Int64:
        if Differs.STREAM_ROWS in self.differs:
            busy = self.stream != NONE
        else:
            busy = kinds.device_activity(self.trace)
        return np.flatnonzero(busy & self.kept).astype(np.int64)

    def of(self, chosen: kinds.Mask) -> tuple[Float64, Float64]:
        """Merged starts and ends of the chosen rows (a mask of the whole trace)."""
        rows = self.rows[chosen[self.rows]]
        start, duration = self.times
        return merged(start[rows], (start + duration)[rows])

    @cached_property
    def communication(self) -> kinds.Mask:
        if Differs.NAMES in self.differs:
            return kinds.named(self.trace, _COMMUNICATION.match)
        return kinds.communication(self.trace)

    @cached_property
    def memory(self) -> kinds.Mask:
        if Differs.NAMES in self.differs:
            return kinds.named(self.trace, _MEMORY.match) & ~self.communication
        return self.trace.in_category("gpu_memcpy", "gpu_memset")

    @cached_property
    def computation(self) -> kinds.Mask:
        trace = self.trace
        kernels = trace.in_category("kernel") & ~self.communication
        if not self.differs & {Differs.NAMES, Differs.STREAM_ROWS}:
            return kernels
        others = kinds.named(trace, _NO_COMPUTATION.match) | self.communication | self.memory
        by_name: kinds.Mask = ~others
        return by_name if Differs.NAMES in self.differs else by_name | kernels


@cache
def frame(name: str, differs: frozenset[Differs]) -> Frame:
    return Frame(name, differs)


def merged(start: Float64, end: Float64) -> tuple[Float64, Float64]:
    """The union; an interval that ends before it starts, as rounding makes them, counts as HTA
    counts it."""
    if not len(start):
        return start, end
    order = np.argsort(start, kind="stable")
    start, end = start[order], end[order]
    opens = np.append(True, start[1:] > np.maximum.accumulate(end)[:-1])
    first = np.flatnonzero(opens)
    return start[first], np.maximum.reduceat(end, first)


_LAUNCHES = frozenset(
    {"cudaLaunchKernel", "cudaLaunchKernelExC", "cudaMemcpyAsync", "cudaMemsetAsync"}
)
"""The calls that HTA's launch statistics are about."""

_RUNS = ("hta.default.", "hta.include_last.", "hta.noround.default.", "hta.noround.include_last.")

NOT_SHOWN = {
    "idle_breakdown": "idle time of each stream by itself",
    "queue_length": "length of a stream's queue",
    "error": "where another tool fails",
}


def claims(entry: dict[str, Any]) -> bool:
    """Whether the entry is one of a run of HTA."""
    return bool(entry["quantity"].startswith(_RUNS))


def judge(entry: dict[str, Any]) -> Verdict:
    """The verdict on one entry; fails where neither definition gives the value."""
    quantity = entry["quantity"].rsplit(".", 1)[1]
    if quantity in NOT_SHOWN:
        return not_shown(NOT_SHOWN[quantity])
    if quantity == "launch_stats" and _is_mtia(entry["trace"]):
        return not_shown("launches of what is no kernel, copy or set (MTIA)")
    measure, value = MEASURES[quantity], entry["value"]
    if quantity == "kernel_type_breakdown":
        # Two kinds that only touch overlap in HTA for no time at all.
        value = [line for line in value if line["sum"]]
    for differs in _disagreements(entry["quantity"]):
        if _equal(measure(frame(entry["trace"], differs)), value):
            return explained("HTA", *differs) if differs else MET
    everything = frame(entry["trace"], differs)
    pytest.fail(f"{entry['quantity']}: {measure(everything)} is not {value}")


def _is_mtia(name: str) -> bool:
    trace = opened(name).trace
    return bool(trace.in_category("mtia_ccp_events").any())


def _disagreements(quantity: str) -> Iterator[frozenset[Differs]]:
    """What may differ in a run, the fewest disagreements first."""
    candidates = [
        Differs.DOUBLES if ".noround." in quantity else Differs.ROUNDED,
        Differs.UNLINKED if ".include_last." in quantity else Differs.LAST_STEP,
        Differs.STREAM_ROWS,
        Differs.NAMES,
    ]
    for number in range(len(candidates) + 1):
        for chosen in combinations(candidates, number):
            yield frozenset(chosen)


def _equal(measured: Any, expected: Any) -> bool:
    """Equal to a thousandth of a nanosecond, and to the digits that percentages have."""
    if isinstance(expected, dict):
        return measured.keys() == expected.keys() and all(
            _equal(measured[name], value) for name, value in expected.items()
        )
    if isinstance(expected, list):
        return len(measured) == len(expected) and all(map(_equal, measured, expected))
    return bool(measured == pytest.approx(expected, abs=1e-6, rel=1e-12, nan_ok=True))


def rank_of(it: Frame) -> int:
    """The rank that the file names, or 0."""
    distributed = it.trace.metadata.get("distributedInfo") or {}
    return int(distributed.get("rank", 0))


def temporal(it: Frame) -> dict[str, float]:
    start, end = it.of(np.ones(len(it.trace), dtype=bool))
    if not len(start):
        return {}
    span = float(end[-1] - start[0])
    idle = span - float(np.sum(end - start))
    compute_start, compute_end = it.of(it.computation)
    compute = float(np.sum(compute_end - compute_start))
    parts = {"idle_time": idle, "compute_time": compute, "non_compute_time": span - compute - idle}
    return {
        "rank": rank_of(it),
        "kernel_time(us)": span,
        **{f"{name}(us)": part for name, part in parts.items()},
        **{f"{name}_pctg": round(100 * part / span, 2) for name, part in parts.items()},
    }


def stretches(it: Frame, *chosen: kinds.Mask) -> tuple[Int64, Float64]:
    """Between two moments at which anything begins or ends: what runs, as bits, and how long."""
    times: list[Float64] = []
    steps: list[Int64] = []
    for bit, rows in enumerate(chosen):
        start, end = it.of(rows)
        times += [start, end]
        steps += [np.full(len(start), 1 << bit), np.full(len(end), -(1 << bit))]
    time = np.concatenate(times)
    order = np.argsort(time, kind="stable")
    return np.cumsum(np.concatenate(steps)[order])[:-1], np.diff(time[order])


def kernel_types(it: Frame) -> list[dict[str, Any]]:
    """Time in which only one kind of activity runs, or two of them overlap; each stretch is cut to
    whole microseconds. Kinds in which no time passes are left out."""
    computation = it.computation
    running, lengths = stretches(it, computation, it.communication & ~computation, it.memory)
    names = ("COMPUTATION", "COMMUNICATION", "MEMORY")
    sums = {}
    for value in range(1, 8):
        label = " overlapping ".join(name for bit, name in enumerate(names) if value >> bit & 1)
        sums[label] = int(np.trunc(lengths[running == value]).sum())
    whole = sum(sums.values())
    return [
        {"kernel_type": label, "sum": length, "percentage": round(100 * length / whole, 1)}
        for label, length in sorted(sums.items(), key=lambda item: -item[1])
        if length
    ]


def overlap(it: Frame) -> list[dict[str, float]]:
    start, end = it.of(it.communication)
    if not len(start):
        return []
    running, lengths = stretches(it, it.communication, it.computation)
    share = lengths[running == 3].sum() / np.sum(end - start)
    return [{"rank": rank_of(it), "comp_comm_overlap_pctg": round(100 * share, 2)}]


def launch_stats(it: Frame) -> dict[str, dict[str, float | None]]:
    """Over our own links between launches and activity."""
    links, (start, duration) = it.it.links, it.times
    counted = kinds.named(it.trace, _LAUNCHES.__contains__)
    joined = (links.launch != NONE) & counted[links.launch] & it.kept[links.activity]
    launch, activity = links.launch[joined], links.activity[joined]
    delay = np.maximum(start[activity] - start[launch] - duration[launch], 0)
    return {
        str(rank_of(it)): {
            "n": len(launch),
            "cpu_duration_sum": float(duration[launch].sum()),
            "gpu_duration_sum": float(duration[activity].sum()),
            "launch_delay_sum": float(delay.sum()),
            "launch_delay_max": float(delay.max()) if len(delay) else None,
            "launch_delay_median": float(np.median(delay)) if len(delay) else None,
        }
    }


def profiler_steps(it: Frame) -> list[int]:
    analysis = it.it.analysis
    marked = () if step_source(analysis.trace, analysis.steps) else analysis.steps
    steps = [step.index for step in marked if it.kept[step.row]]
    return sorted(set(steps))


MEASURES: dict[str, Callable[[Frame], Any]] = {
    "temporal": temporal,
    "kernel_type_breakdown": kernel_types,
    "comp_comm_overlap_pctg": overlap,
    "launch_stats": launch_stats,
    "profiler_steps": profiler_steps,
}
