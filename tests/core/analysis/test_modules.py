"""Time by module."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from perftui.analysis import kinds
from perftui.analysis.analyse import analyse
from perftui.analysis.intervals import union
from perftui.analysis.links import link
from perftui.analysis.model import OpTable
from perftui.analysis.ops.call_detail import OUTSIDE, module_table
from tests.traces.events import call, cpu, frame, gpu, mark, trace_of

pytestmark = pytest.mark.usefixtures("route")


def rows(table: OpTable) -> dict[str, tuple[int, ...]]:
    """By name: calls, total and own time on the CPU, total and own on the device, in us."""
    columns = (table.cpu_total, table.cpu_self, table.device_total, table.device_self)
    return {
        name: (int(table.calls[row]), *(int(column[row]) // 1000 for column in columns))
        for row, name in enumerate(table.names)
    }


def module(name: str, start: float, duration: float, **more: Any) -> dict[str, Any]:
    return mark(f"nn.Module: {name}", start, duration, **more)


def test_each_module_has_the_time_of_its_calls_and_what_they_launched() -> None:
    trace = trace_of(
        module("Model", 0, 100),
        module("layers.0 (Block)", 10, 40),
        cpu("aten::mm", 20, 20),
        call("cudaLaunchKernel", 25, 5, correlation=1),
        module("layers.0 (Block)", 60, 20),
        call("cudaLaunchKernel", 90, 5, correlation=2),
        cpu("aten::backward", 110, 30),
        cpu("aten::mul", 115, 10),
        call("cudaLaunchKernel", 116, 5, correlation=3),
        gpu("gemm", 200, 7, 1),
        gpu("add", 210, 4, 2),
        gpu("mul", 220, 2, 3),
    )
    table = module_table(trace, link(trace))

    assert rows(table) == {
        "layers.0 (Block)": (2, 60, 60, 7, 7),
        "Model": (1, 100, 40, 11, 4),
        OUTSIDE: (2, 30, 30, 2, 2),
    }
    assert trace.name_of(int(table.first_row[0])) == "nn.Module: layers.0 (Block)"
    assert trace.name_of(int(table.first_row[2])) == "aten::backward"


def test_modules_are_no_operators() -> None:
    trace = trace_of(
        cpu("aten::outer", 0, 100),
        module("Model", 10, 80),
        cpu("aten::mm", 20, 20),
    )
    analysis = analyse(trace)

    assert set(analysis.ops.names) == {"aten::outer", "aten::mm"}
    assert int(analysis.ops.cpu_self.sum()) == 100_000
    assert rows(analysis.modules) == {"Model": (1, 80, 80, 0, 0), OUTSIDE: (1, 20, 20, 0, 0)}


def test_modules_of_python_stacks_count_where_the_agent_marked_none() -> None:
    python = frame("nn.Module: Linear_0", 0, 10)
    alone = trace_of(python, cpu("aten::mm", 1, 2))
    both = trace_of(python, module("head (Linear)", 1, 8), cpu("aten::mm", 2, 2))

    assert rows(module_table(alone, link(alone))) == {"Linear_0": (1, 10, 10, 0, 0)}
    assert rows(module_table(both, link(both))) == {"head (Linear)": (1, 8, 8, 0, 0)}


def test_without_modules_there_is_no_table() -> None:
    trace = trace_of(cpu("aten::mm", 1, 2))

    assert len(module_table(trace, link(trace))) == 0


@st.composite
def nested(draw: st.DrawFn, start: int = 0, end: int = 1000, depth: int = 4) -> list[Any]:
    """Calls one inside the other, each a module, an operator or a launch."""
    found: list[Any] = []
    while depth and start < end and draw(st.booleans()):
        begin = draw(st.integers(start, end - 1))
        stop = draw(st.integers(begin + 1, end))
        kind = draw(st.sampled_from(["module", "operator", "operator", "launch"]))
        found.append((kind, draw(st.sampled_from("abc")), begin, stop))
        if kind != "launch":
            found += draw(nested(begin, stop, depth - 1))
        start = stop
    return found


@pytest.mark.slow
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(nested())
def test_own_times_sum_to_what_modules_and_operators_cover(calls: list[Any]) -> None:
    events = [module("root", 2000, 1)]
    for number, (kind, name, begin, stop) in enumerate(calls, 1):
        if kind == "module":
            events.append(module(name, begin, stop - begin))
        elif kind == "operator":
            events.append(cpu(f"aten::{name}", begin, stop - begin))
        else:
            launch = call("cudaLaunchKernel", begin, stop - begin, correlation=number)
            events += [launch, gpu("kernel", 3000 + number, 1, number)]
    trace = trace_of(*events)
    links = link(trace)
    table = module_table(trace, links)

    counted = kinds.module_calls(trace) | kinds.operators(trace)
    covered = union(trace.start[counted], trace.ends_of(counted))
    assert int(table.cpu_self.sum()) == int((covered.end - covered.start).sum())
    around = [
        launch != -1
        and any(
            trace.start[row] <= trace.start[launch] and trace.end[row] >= trace.end[launch]
            for row in counted.nonzero()[0]
        )
        for launch in links.launch
    ]
    assert int(table.device_self.sum()) == 1000 * sum(around)
