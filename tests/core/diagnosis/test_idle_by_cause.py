"""Idle time by cause: each nanosecond of a gap has its own."""

from __future__ import annotations

from perftui.analysis.analyse import analyse
from perftui.analysis.model import GapCause
from perftui.facts.fact import Facts
from perftui.facts.gpu.idle import idle_by_cause
from tests.traces.events import call, cpu, gpu, mark, trace_of

US = 1000


def test_causes_of_one_gap_share_it_and_sum_to_all_idle_time() -> None:
    # Between the kernels: 70 us of Python, 100 us of an allocation, then the launch.
    trace = trace_of(
        mark("ProfilerStep#1", 0, 300),
        call("cudaLaunchKernel", 2, 5, correlation=1),
        call("cudaMalloc", 90, 100),
        call("cudaLaunchKernel", 192, 5, correlation=2),
        call("cudaLaunchKernel", 198, 1, correlation=3),
        gpu("first", 10, 10, 1),
        gpu("second", 200, 10, 2),
        # The device takes half a microsecond between these: too short to be listed.
        gpu("third", 210.5, 89.5, 3),
        cpu("aten::add", 1, 8),
    )
    analysis = analyse(trace)
    found = {one.cause: one for one in idle_by_cause(Facts(None, analysis))}

    assert sum(one.total for one in found.values()) == 300 * US - analysis.activity[0].busy
    assert found[GapCause.ALLOCATION].total == 100 * US
    assert found[GapCause.PYTHON].total == 70 * US
    assert all(0 < gap.duration >= US for gap in analysis.gaps)
    assert sum(gap.duration for gap in analysis.gaps) == 190 * US

    (allocation, python) = (found[cause] for cause in (GapCause.ALLOCATION, GapCause.PYTHON))
    assert allocation.longest is not None
    assert (allocation.count, allocation.longest.duration) == (1, 180 * US)
    assert (python.count, python.longest) == (0, None)


def test_without_a_trace_there_is_none() -> None:
    assert idle_by_cause(Facts(None, None)) == ()
