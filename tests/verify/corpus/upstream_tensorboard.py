"""What TensorBoard's plugin for PyTorch profiles computes, from our columns.

The parts of the plugin's steps are not those of our budgets: they must follow from our columns by
the plugin's own definition. What is the same by our tables is met.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest

from perftui.analysis import kinds
from perftui.analysis.ops.calls import innermost
from tests.verify.corpus.opened import Opened, opened
from tests.verify.corpus.outcome import (
    MET,
    Differs,
    Verdict,
    explained,
    not_shown,
    recomputed,
)
from tests.verify.corpus.tensorboard_run import Run, run

PARTS = recomputed("TensorBoard's own steps, each until what it launched ends, and their parts")
DOUBLES = recomputed("TensorBoard's own steps and parts, with times as doubles")
LAST_STEP = explained("TensorBoard", Differs.LAST_STEP)
COPIES = recomputed("TensorBoard's own steps, which count their copies on the device too")
NO_STEP = recomputed("TensorBoard's own step 0, which is a trace without steps")
NO_HOST = recomputed("TensorBoard's own step 0, which ends before it begins without operators")
OWN_TIME = recomputed("an operator's own time without its runtime calls (its other times are met)")
UTILIZATION = recomputed("use of the device in TensorBoard's own steps")
DEVICE = not_shown("SM efficiency and occupancy of a device (its use in such steps follows)")
OCCUPANCY = not_shown("occupancy and tensor cores of a kernel (its calls and times are met)")
ADVICE = not_shown("another tool's advice")

_NAMES = {"CPU Exec": "CpuOp"}


def claims(entry: dict[str, Any]) -> bool:
    """Whether the entry is the plugin's."""
    return bool(entry["quantity"].startswith(("tb.", "tbrun.")))


def judge(entry: dict[str, Any]) -> Verdict:
    """The verdict on one entry; fails where our columns do not give the value."""
    tool, quantity = entry["quantity"].split(".", 1)
    if quantity == "recommendations":
        return ADVICE
    if match := re.fullmatch(r"(kernel|op)\[(.*)\]", quantity, re.DOTALL):
        return (_kernel if match[1] == "kernel" else _operator)(
            opened(entry["trace"]), match[2], entry["value"]
        )
    its = run(entry["trace"])
    if not its.steps:
        return _without_host(quantity, entry["value"])
    if quantity == "steps_names":
        return _step_names(its, entry["value"])
    if tool == "tbrun":
        return _ran(entry, quantity, its)
    return _printed(quantity, entry["value"], its)


def _step_names(its: Run, value: list[str]) -> Verdict:
    if not len(its.marks):
        assert value == ["0"]
        return NO_STEP
    trace = its.it.trace
    found = [kinds.STEP.match(trace.name_of(row)) for row in its.marks.tolist()]
    names = [match[1] for match in found if match]
    assert names[: len(its.steps)] == value
    if value == [str(step.index) for step in its.it.analysis.steps]:
        return MET
    return LAST_STEP if len(its.marks) == len(its.it.analysis.steps) else COPIES


def _without_host(quantity: str, value: Any) -> Verdict:
    if quantity == "steps_names":
        assert value == ["0"]
    elif quantity == "avg_us":
        assert value["Total"] == -(2.0**64)
        assert not any(part for role, part in value.items() if role != "Total")
    else:
        assert value["gpu_utilization"] == 0
    return NO_HOST


def _ran(entry: dict[str, Any], quantity: str, its: Run) -> Verdict:
    value = entry["value"]
    if quantity.startswith("gpu"):
        device, wanted = int(quantity.removeprefix("gpu")), value["gpu_utilization"]
        # It is given with six digits; two traces need times as doubles for the last of them.
        found = [each.utilization(device) for each in (its, Run(its.it.as_doubles))]
        assert any(wanted == pytest.approx(each, abs=5.0001e-7, rel=0) for each in found), found
        return DEVICE
    if quantity == "steps_us":
        assert its.parts == [pytest.approx(part, abs=1e-6, rel=0) for part in value]
        return PARTS
    assert quantity == "avg_us"
    if _near(its.average, value):
        return PARTS
    rounded = Run(its.it.as_doubles).average
    assert _near(rounded, value), (rounded, value)
    return DOUBLES


def _near(parts: Mapping[str, float], value: Mapping[str, float]) -> bool:
    """The plugin adds up doubles of times since 1970, which lie 0.12 us and more apart."""
    return all(
        parts[name] == pytest.approx(expected, abs=0.03, rel=0) for name, expected in value.items()
    )


def _printed(quantity: str, value: float, its: Run) -> Verdict:
    """An entry of the page that the plugin's own test expects."""
    if quantity.startswith("gpu0."):
        if quantity == "gpu0.GPU Utilization":
            utilization = its.utilization(0)
            assert utilization is not None
            assert 100 * utilization == pytest.approx(value, abs=0.0050001, rel=0)
            return UTILIZATION
        return not_shown("SM efficiency and occupancy of a device")
    if quantity == "avg_step_us":
        found = its.average["Total"]
        assert found == pytest.approx(value, abs=0.5, rel=0)
        return PARTS
    where, name = quantity.split(".")
    role, unit = name.rsplit("_", 1)
    role = _NAMES.get(role, role)
    if where == "avg":
        share = its.average[role]
        found = 100 * share / its.average["Total"] if unit == "pct" else share
        assert found == pytest.approx(value, abs=0.0050001 if unit == "pct" else 0.5, rel=0)
    else:
        indices = [step.index for step in its.it.analysis.steps]
        assert its.parts[indices.index(int(where.removeprefix("step")))][role] == value
    return PARTS


def _kernel(it: Opened, name: str, value: dict[str, Any]) -> Verdict:
    """A line of the plugin's table of kernels, whose name is cut off: the first that fits."""
    table = it.analysis.kernels
    index = next(i for i, each in enumerate(table.names) if each.startswith(name))
    calls, total = int(table.calls[index]), int(table.total[index])
    assert calls == value["Calls"]
    assert total == value["Total Duration (us)"] * 1000
    assert round(total / calls / 1000) == value["Mean Duration (us)"]
    assert table.longest[index] == value["Max Duration (us)"] * 1000
    assert table.shortest[index] == value["Min Duration (us)"] * 1000
    return OCCUPANCY


def _operator(it: Opened, name: str, value: dict[str, Any]) -> Verdict:
    """A line of the plugin's table of operators."""
    trace, table = it.trace, it.analysis.ops
    index = table.names.index(name)
    assert table.calls[index] == value["calls"]
    assert table.device_self[index] == value["device_self_duration"] * 1000
    assert table.device_total[index] == value["device_total_duration"] * 1000
    assert table.cpu_total[index] == value["host_total_duration"] * 1000
    operators = kinds.operators(trace)
    around = innermost(trace, operators)
    called = trace.in_category("cuda_runtime") & (around >= 0)
    called &= trace.name[around] == trace.names.index(name)
    runtime = int(trace.duration[called].sum())
    assert table.cpu_self[index] - runtime == value["host_self_duration"] * 1000
    return OWN_TIME
