"""Windows in which the GPU is missing."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from perftui.recorder.faults import FaultLog
from perftui.recorder.rank_journals import RankJournals
from perftui.recorder.spool import Note
from perftui.recorder.windows import SOME, TAKEN, WindowKernels, count_kernels
from perftui.run.journal import JournalReader
from perftui.run.layout import create_run_directory
from perftui.wire.spool import Spool

LINES = {
    "launch": '    "ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1,\n',
    "triton": '    "ph": "X", "cat": "cuda_driver", "name": "cuLaunchKernelEx", "pid": 1,\n',
    "sync": '    "ph": "X", "cat": "cuda_runtime", "name": "cudaDeviceSynchronize", "pid": 1,\n',
    "kernel": '    "ph": "X", "cat": "kernel", "name": "void gemm", "pid": 0,\n',
    "op": '    "ph": "X", "cat": "cpu_op", "name": "aten::linear", "pid": 1,\n',
}


@given(st.lists(st.sampled_from(list(LINES)), max_size=40), st.sampled_from([1, 30_000]))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
def test_each_call_launch_and_kernel_is_counted_once(
    tmp_path: Path, kinds: list[str], repeated: int
) -> None:
    path = tmp_path / "window.json"
    # A padding op keeps some of the others on the border between two pieces.
    path.write_text(LINES["op"] * repeated + "".join(LINES[kind] for kind in kinds))

    launches = kinds.count("launch") + kinds.count("triton")
    assert count_kernels(path) == WindowKernels(
        launches + kinds.count("sync"), launches, kinds.count("kernel")
    )


@pytest.mark.parametrize(
    ("counts", "problem"),
    [
        ((0, 0, 0), TAKEN),
        ((77, 76, 0), TAKEN),
        ((9, 8, 7), SOME),
        ((9, 8, 8), None),
        # A launched graph is many kernels.
        ((2, 0, 500), None),
        # The GPU was there, and idle.
        ((1, 0, 0), None),
    ],
)
def test_what_is_missing_is_said(counts: tuple[int, int, int], problem: str | None) -> None:
    assert WindowKernels(*counts).problem == problem


@pytest.mark.parametrize(("uses_cuda", "messages"), [(True, [TAKEN]), (False, [])])
def test_a_window_without_the_gpu_is_said_once_where_the_script_uses_one(
    tmp_path: Path, uses_cuda: bool, messages: list[str]
) -> None:
    layout = create_run_directory(tmp_path / "runs", "one")
    faults = FaultLog(layout.recorder_log)
    journals = RankJournals(layout.rank(0), Spool(tmp_path), faults)
    for number in (1, 2):
        name = f"window-1-{number}.json"
        (tmp_path / name).write_text(LINES["op"])
        data = {"file": name, "first_step": number, "cuda": uses_cuda}
        journals.notes([Note(1, "window", 0, number, data)])
    journals.finish()

    rows = JournalReader(layout.rank(0).events).poll()
    assert [row[4]["message"] for row in rows if row[1] == "warning"] == messages
