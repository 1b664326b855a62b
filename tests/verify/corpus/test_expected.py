"""Real traces of many ages, against values that others computed from them.

The collection lies beside the checkout, or where PERFTUI_TRACES says; without it nothing runs."""

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from perftui.analysis.gpu_idle.causes import Host, explain_idle
from perftui.analysis.intervals import intersect, subtract
from perftui.analysis.model import Step
from perftui.analysis.steps import EXPOSED_COMMUNICATION, EXPOSED_COPIES, device_parts, step_source
from perftui.analysis.timeline.track import WHOLE
from perftui.analysis.timeline.tracks import timeline_tracks
from perftui.trace.formats import load_trace
from perftui.trace.model import NONE
from tests.verify.corpus.collection import ROOT, oracles
from tests.verify.corpus.exact_reading import ExactReading, nanoseconds
from tests.verify.corpus.opened import Opened, opened
from tests.verify.corpus.outcome import MET, Account

pytestmark = [pytest.mark.corpus, pytest.mark.slow]

TRACES = oracles()
SMALL = [name for name in TRACES if (ROOT / name).stat().st_size < 60_000]


def us(nanoseconds: int) -> float:
    return nanoseconds / 1000


def percent(part: int, whole: int) -> float:
    return 100 * part / whole


def span(it: Opened) -> int:
    """As our table of devices has it; over all of them together where there are several."""
    return it.analysis.activity[0].span if len(it.analysis.activity) == 1 else it.device.span


def busy(it: Opened) -> int:
    """As ``span``."""
    only = len(it.analysis.activity) == 1
    return it.analysis.activity[0].busy if only else it.device.busy.total


def marked(it: Opened) -> tuple[Step, ...]:
    """Steps that the file marks, as the expected values have them."""
    steps = it.analysis.steps
    return () if step_source(it.trace, steps) else steps


def memcpy_bytes(it: Opened) -> int:
    sizes = it.trace.bytes[it.trace.in_category("gpu_memcpy")]
    return int(np.sum(sizes[sizes != NONE]))


def streams(it: Opened) -> dict[str, int]:
    tracks = [it.trace.tracks[number] for number in it.trace.track[it.links.activity].tolist()]
    return dict(Counter(f"{track.device}/{track.stream}" for track in tracks))


def memory_peak(it: Opened, column: str) -> dict[str, int]:
    """By type and number of device; a device without the figure is left out."""
    memory = it.trace.memory
    peaks: dict[str, int] = {}
    for kind, device, value in zip(
        memory.device_type.tolist(),
        memory.device.tolist(),
        getattr(memory, column).tolist(),
        strict=True,
    ):
        if value != NONE:
            key = f"{kind}:{device}"
            peaks[key] = max(peaks.get(key, value), value)
    return peaks


def top_kernels(it: Opened) -> dict[str, tuple[int, float]]:
    table = it.analysis.kernels
    lines = zip(table.names, table.categories, table.calls, table.total, strict=True)
    return {
        name: (int(calls), us(int(total)))
        for name, category, calls, total in lines
        if category == "kernel"
    }


def linked_only(it: Opened) -> dict[str, float]:
    device = it.linked
    return {
        "kernel_count": len(device.kernel_rows),
        "gpu_busy_us": us(device.busy.total),
        "gpu_span_us": us(device.span),
        "gpu_idle_us": us(device.span - device.busy.total),
        "compute_plus_memset_union_us": us(device.computing.total),
        "comm_union_us": us(device.communication.total),
        "exposed_comm_us": us(subtract(device.communication, device.computing).total),
        "kernel_time_sum_us": us(int(it.trace.duration[device.kernel_rows].sum())),
    }


MEASURES: dict[str, Callable[[Opened], Any]] = {
    "n_complete_events": lambda it: it.trace.complete_events,
    "kernel_count": lambda it: it.total("kernel_count"),
    "memcpy_count": lambda it: it.total("memcpy_count"),
    "memset_count": lambda it: it.total("memset_count"),
    "kernel_time_sum_us": lambda it: us(it.total("kernel_sum")),
    "memcpy_time_sum_us": lambda it: us(it.total("memcpy_sum")),
    "memset_time_sum_us": lambda it: us(it.total("memset_sum")),
    "gpu_events_without_runtime": lambda it: it.total("unlinked"),
    "profiler_steps": lambda it: [step.index for step in marked(it)],
    "profiler_step_dur_us": lambda it: [us(step.duration) for step in marked(it)],
    "gpu_span_us": lambda it: us(span(it)),
    "gpu_busy_us": lambda it: us(busy(it)),
    "gpu_idle_us": lambda it: us(span(it) - busy(it)),
    "gpu_busy_pct": lambda it: percent(busy(it), span(it)),
    "compute_union_us": lambda it: us(it.device.kernels.total),
    "comm_kernel_count": lambda it: int(np.count_nonzero(it.device.is_communication)),
    "comm_union_us": lambda it: us(it.device.communication.total),
    "comm_compute_overlap_us": lambda it: us(
        intersect(it.device.communication, it.device.kernels).total
    ),
    "comm_overlap_pct": lambda it: percent(
        intersect(it.device.communication, it.device.kernels).total, it.device.communication.total
    ),
    "exposed_comm_us": lambda it: us(subtract(it.device.communication, it.device.computing).total),
    "exposed_memcpy_us": lambda it: us(
        it.device.busy.total - it.device.covered(it.trace.in_category("kernel", "gpu_memset")).total
    ),
    "memcpy_bytes": memcpy_bytes,
    "streams": streams,
    "top_kernels": top_kernels,
    "distinct_kernel_names": lambda it: len(set(it.trace.name[it.device.kernel_rows].tolist())),
    "linked_only": linked_only,
    "memory_peak_total_allocated": lambda it: memory_peak(it, "allocated"),
    "memory_peak_total_reserved": lambda it: memory_peak(it, "reserved"),
}


def tolerance(quantity: str, it: Opened) -> float:
    """Zero but for two things.

    Percentages are printed with four decimals. The span, and what is idle in it, were taken from
    times read as floats: those are off by a nanosecond, and where times are absolute to the
    nanosecond by the 0.25 us that lie between two floats."""
    if quantity.endswith("_pct"):
        return 5.0001e-5
    if quantity in ("gpu_span_us", "gpu_idle_us"):
        return 0.05 if it.trace.metadata.get("displayTimeUnit") == "ns" else 1.0001e-3
    return 0.0


def check(entry: dict[str, Any], it: Opened) -> None:
    quantity = entry["quantity"].removeprefix("oracle.")
    measured, expected = MEASURES[quantity](it), entry["value"]
    if quantity == "top_kernels":
        expected = {name: (calls, total) for name, calls, total in expected}
        assert len(expected) == len(entry["value"])
        measured = {name: measured[name] for name in expected}
    if allowed := tolerance(quantity, it):
        assert measured == pytest.approx(expected, abs=allowed, rel=0), entry
    else:
        assert measured == expected, entry


@pytest.mark.skipif(not TRACES, reason="no collection of traces: set PERFTUI_TRACES to it")
def test_the_collection_is_there() -> None:
    assert len(TRACES) > 20


@pytest.mark.parametrize("name", TRACES)
def test_equals_the_expected_values(name: str, account: Account) -> None:
    checked = 0
    for entry in TRACES[name]:
        check(entry, opened(name))
        account(entry, MET)
        checked += 1
    assert checked >= 6


@pytest.mark.parametrize("name", TRACES)
def test_budgets_sum_to_their_steps_and_tracks_hold_every_row_once(name: str) -> None:
    it = opened(name)
    assert it.analysis.step_parts
    for budget in it.analysis.step_parts:
        assert sum(length for _, length in budget.parts) == budget.step.duration
        assert all(length >= 0 for _, length in budget.parts)
    tracks = timeline_tracks(it.trace)
    rows = np.concatenate([track.index.rows for track in tracks if track.kind != WHOLE])
    assert np.array_equal(np.sort(rows), np.arange(len(it.trace)))
    for track in tracks:
        assert np.all(track.index.start[1:] >= track.index.end[:-1])
    # The track of a whole device is the time in which it is busy.
    busy = {each.device: each.busy for each in it.analysis.activity}
    for track in tracks:
        if track.kind == WHOLE:
            device = it.trace.tracks[track.track].device
            assert int((track.index.end - track.index.start).sum()) == busy[device]


@pytest.mark.parametrize("name", TRACES)
def test_parts_of_one_device_equal_the_definitions(name: str) -> None:
    it = opened(name)
    if len(it.analysis.activity) != 1:
        pytest.skip("expected values are over all devices, parts over one")
    start, end = int(it.trace.start.min()), int(it.trace.end.max())
    everything = np.ones(len(it.links.activity), dtype=bool)
    idle = explain_idle(it.trace, it.links, everything, Host(it.trace), start, end)
    parts = device_parts(it.trace, it.links.activity, idle)
    device = it.device
    exposed = subtract(device.communication, device.computing).total
    assert parts[EXPOSED_COMMUNICATION].total == exposed
    covered = device.covered(it.trace.in_category("kernel", "gpu_memset"))
    assert parts[EXPOSED_COPIES].total == device.busy.total - covered.total
    assert sum(part.total for part in parts.values()) == end - start


@pytest.mark.parametrize("name", SMALL)
def test_arguments_equal_the_file(name: str) -> None:
    trace = load_trace(ROOT / name)
    wanted = Counter(
        (nanoseconds(event["ts"]), event["name"], _arguments(event.get("args", {})))
        for event in ExactReading(ROOT / name).rows
    )
    start = trace.start + trace.origin
    found = Counter(
        (int(start[row]), trace.name_of(row), _arguments(trace.read_arguments(row)))
        for row in range(min(len(trace), 400))
    )
    assert not found - wanted


def _arguments(given: dict[str, Any]) -> str:
    return json.dumps(given, sort_keys=True, default=float)
