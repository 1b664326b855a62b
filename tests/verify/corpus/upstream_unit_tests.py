"""What HTA's unit tests assert of real traces, from our columns."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from perftui.analysis import kinds
from perftui.trace.model import Int64
from tests.verify.corpus.opened import Opened, opened
from tests.verify.corpus.outcome import MET, Differs, Verdict, explained, not_shown
from tests.verify.corpus.upstream_hta import frame

LAST_STEP = explained("HTA", Differs.LAST_STEP)

NOT_SHOWN = {
    "hta.queue_length": "length of a stream's queue",
    "hta.counter_events_at_least": "counters added to the file",
    "hta.critical_path": "critical path",
    "sizes[": "memory timeline in the format of torch.profiler's export",
    "diff_vs_base": "operators of one step, of two traces compared",
    "step1010": "events of one step counted",
}
"""By the begin of a quantity's name."""


def claims(entry: dict[str, Any]) -> bool:
    """Whether the entry is from a unit test."""
    return bool(entry["kind"] == "upstream-test")


def judge(entry: dict[str, Any]) -> Verdict:
    """The verdict on one entry; fails where our columns do not give the value."""
    quantity, value = entry["quantity"], entry["value"]
    for begin, what in NOT_SHOWN.items():
        if quantity.startswith(begin):
            return not_shown(what)
    it = opened(entry["trace"])
    if quantity in OF_KEPT_STEPS:
        assert OF_KEPT_STEPS[quantity](it, entry["trace"]) == value
        return LAST_STEP
    if quantity == "trace_start_unixtime_ns":
        assert abs(it.trace.wall_origin - value) <= entry["tolerance"]
        return MET
    assert MEASURES[quantity](it) == value
    return MET


def _kept(it: Opened, name: str) -> Int64:
    """Device activity that the steps but the last launched."""
    rows = frame(name, frozenset({Differs.LAST_STEP})).rows
    assert 0 < len(rows) < len(it.links.activity)
    return rows


def _names_of_marks(it: Opened, name: str) -> int:
    trace, last = it.trace, it.analysis.steps[-1].start
    rows = trace.in_category("user_annotation") & (trace.start < last)
    return len(set(trace.name[rows].tolist()))


def _under_optimizer(it: Opened, name: str) -> int:
    """Activity whose innermost mark on its stream is the optimizer's; marks there that begin
    after the last step did on the host are dropped with it."""
    trace, last = it.trace, it.analysis.steps[-1].start
    marks = np.flatnonzero(trace.in_category("gpu_user_annotation") & (trace.start < last))
    end, found = trace.end, 0
    for row in _kept(it, name).tolist():
        around = marks[trace.track[marks] == trace.track[row]]
        around = around[(trace.start[around] < end[row]) & (end[around] > trace.start[row])]
        if len(around):
            innermost = int(around[np.argmin(trace.duration[around])])
            found += trace.name_of(innermost) == "Optimizer.step#SGD.step"
    return found


OF_KEPT_STEPS: Mapping[str, Callable[[Opened, str], Any]] = {
    "hta.cpu_user_annotation_distinct_names": _names_of_marks,
    "hta.gpu_kernels_with_user_annotation.rows": lambda it, name: len(_kept(it, name)),
    "hta.kernels_under Optimizer.step#SGD.step": _under_optimizer,
}


def _longest_collective(it: Opened) -> Mapping[str, Any]:
    trace = it.trace
    rows = np.flatnonzero(kinds.communication(trace))
    return trace.read_arguments(int(rows[np.argmax(trace.duration[rows])]))


def _counters(it: Opened, number: int) -> Mapping[str, Any]:
    trace = it.trace
    rows = np.flatnonzero(trace.in_category("cuda_profiler_range"))
    ordered = rows[np.argsort(trace.start[rows], kind="stable")]
    return trace.read_arguments(int(ordered[number]))


def _transforms(it: Opened) -> Int64:
    """Positions in our links of the second pass's last forward transform, and of what follows."""
    trace = it.trace
    named = [trace.name_of(row).startswith("void fft2d_r2c") for row in it.links.activity.tolist()]
    last = int(np.flatnonzero(named)[-1])
    return np.array([last, last + 1])


def _launch_delay(it: Opened) -> int:
    kernel, _ = _transforms(it).tolist()
    start = it.trace.start
    return int(start[it.links.activity[kernel]] - start[it.links.launch[kernel]]) // 1000


def _delay_between(it: Opened) -> int:
    kernel, following = it.links.activity[_transforms(it)].tolist()
    return int(it.trace.start[following] - it.trace.end[kernel]) // 1000


def _triton_operators(it: Opened) -> list[str]:
    trace = it.trace
    rows = np.flatnonzero(trace.in_category("cpu_op")).tolist()
    return [
        trace.name_of(row)
        for row in rows
        if trace.read_arguments(row).get("kernel_backend") == "triton"
    ]


def _of_step_1010(it: Opened) -> float:
    (step,) = (step for step in it.analysis.steps if step.index == 1010)
    return step.duration / 1000


_FADD = "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum"

MEASURES: Mapping[str, Callable[[Opened], Any]] = {
    "hta.gpu_user_annotation_distinct_names": lambda it: len(
        set(it.trace.name[it.trace.in_category("gpu_user_annotation")].tolist())
    ),
    "hta.cupti_counter_rows": lambda it: int(it.trace.in_category("cuda_profiler_range").sum()),
    f"hta.cupti_row5.{_FADD}": lambda it: _counters(it, 5)[_FADD],
    "hta.launch_delay fft kernel (event idx 1051)": _launch_delay,
    "hta.kernel_kernel_delay to event idx 1067": _delay_between,
    "nccl_kernel_count": lambda it: int(kinds.communication(it.trace).sum()),
    "longest_nccl.collective_name": lambda it: _longest_collective(it)["Collective name"],
    "longest_nccl.in_msg_nelems": lambda it: _longest_collective(it)["In msg nelems"],
    "longest_nccl.out_msg_nelems": lambda it: _longest_collective(it)["Out msg nelems"],
    "longest_nccl.process_group_desc": lambda it: _longest_collective(it)[
        "Process Group Description"
    ],
    "longest_nccl.process_group_ranks": lambda it: _longest_collective(it)["Process Group Ranks"],
    "triton_cpu_op_names": _triton_operators,
    "iterations": lambda it: [step.index for step in it.analysis.steps],
    "ProfilerStep#1010.dur_us": _of_step_1010,
}
