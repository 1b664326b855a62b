from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from perftui.analysis.kernels.metrics import Joined, Limit, join_kernels, limit_of
from perftui.analysis.model import KernelTable
from perftui.trace.ncu import KernelMetrics, Launch, Metric

NAMES = {
    "time": "gpu__time_duration.sum",
    "compute": "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "memory": "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
    "occupancy": "sm__warps_active.avg.pct_of_peak_sustained_active",
}


def launch(name: str, **values: float | None) -> Launch:
    metrics = {
        ("", NAMES[key]): Metric(value, "ns" if key == "time" else "%", "")
        for key, value in values.items()
    }
    return Launch("0", name, "", metrics)


def table(*kernels: tuple[str, int, int], category: str = "kernel") -> KernelTable:
    """Name, calls and total of each."""
    calls = np.array([each[1] for each in kernels], np.int64)
    total = np.array([each[2] for each in kernels], np.int64)
    return KernelTable(
        names=tuple(each[0] for each in kernels),
        categories=(category,) * len(kernels),
        calls=calls,
        total=total,
        shortest=total,
        median=total,
        longest=total,
        first_row=np.arange(len(kernels)),
        streams=(((0, 7),),) * len(kernels),
    )


def join(launches: list[Launch], kernels: KernelTable) -> Joined:
    return join_kernels(KernelMetrics(Path("x"), tuple(launches)), kernels)


def rows(joined: Joined) -> list[tuple[int, int]]:
    return [(kernel.row, kernel.launches) for kernel in joined.kernels]


def test_a_kernel_gets_what_ncu_measured_of_its_name() -> None:
    measured = launch("void f<(int)64>(const T1 *)", time=300, compute=20, memory=70, occupancy=50)
    joined = join([measured], table(("copy", 1, 1), ("void f<64>(float const*)", 4, 800)))
    (kernel,) = joined.kernels
    assert (kernel.row, kernel.name) == (1, "void f<64>(float const*)")
    assert (kernel.compute, kernel.memory, kernel.occupancy) == (20, 70, 50)
    assert kernel.duration == 300
    assert kernel.duration_ratio == 1.5
    assert kernel.limit is Limit.MEMORY
    assert joined.unmatched == ()


def test_launches_of_one_name_are_weighted_by_their_duration() -> None:
    launches = [
        launch("k(int)", time=100, compute=10, memory=50),
        launch("k(int)", time=300, compute=90, memory=None),
        launch("k(int)", time=None),
    ]
    (kernel,) = join(launches, table(("k(int)", 1, 400))).kernels
    assert kernel.launches == 3
    assert kernel.compute == 70
    assert kernel.memory == 50
    assert kernel.duration == 200
    assert kernel.duration_ratio == 0.5
    assert kernel.occupancy is None


def test_without_durations_launches_count_alike() -> None:
    launches = [launch("k", compute=10), launch("k", time=5, compute=90)]
    (kernel,) = join(launches, table(("k", 1, 0))).kernels
    assert kernel.compute == 50
    assert kernel.duration_ratio is None


def test_instances_of_a_template_are_distinguished() -> None:
    kernels = table(("void f<1>(int)", 1, 1), ("void f<2>(int)", 1, 1))
    joined = join([launch("void f<(int)2>(int)"), launch("void f<(int)3>(int)")], kernels)
    assert rows(joined) == [(1, 1)]
    assert joined.unmatched == ("void f<(int)3>(int)",)


def test_a_bare_function_name_joins_its_only_kernel_and_no_other() -> None:
    joined = join([launch("f"), launch("g")], table(("void ns::f<1>(int)", 1, 1)))
    assert rows(joined) == [(0, 1)]
    assert joined.unmatched == ("g",)
    two = table(("void f<1>(int)", 1, 1), ("void f<2>(int)", 1, 1))
    assert join([launch("f")], two).unmatched == ("f",)


def test_overloads_are_not_given_one_anothers_figures() -> None:
    joined = join([launch("f(int)"), launch("f(float)")], table(("f(double)", 1, 1)))
    assert rows(joined) == []
    assert joined.unmatched == ("f(int)", "f(float)")
    joined = join([launch("f(int)"), launch("f(float)")], table(("f(float)", 1, 1)))
    assert rows(joined) == [(0, 1)]
    assert joined.unmatched == ("f(int)",)


def test_copies_and_sets_are_no_kernels() -> None:
    joined = join([launch("Memset")], table(("Memset", 1, 1), category="gpu_memset"))
    assert joined.unmatched == ("Memset",)


@pytest.mark.parametrize(
    ("compute", "memory", "limit"),
    [
        (59.9, 59.9, Limit.LATENCY),
        (0.0, 0.0, Limit.LATENCY),
        (60.0, 20.0, Limit.COMPUTE),
        (20.0, 60.0, Limit.MEMORY),
        (69.9, 60.0, Limit.BOTH),
        (70.0, 60.0, Limit.COMPUTE),
        (55.0, 64.9, Limit.BOTH),
        (97.0, 85.0, Limit.COMPUTE),
        (None, 60.0, Limit.MEMORY),
        (60.0, None, Limit.COMPUTE),
        (None, 59.0, None),
        (59.0, None, None),
        (None, None, None),
    ],
)
def test_what_limits_a_kernel(
    compute: float | None, memory: float | None, limit: Limit | None
) -> None:
    assert limit_of(compute, memory) is limit
