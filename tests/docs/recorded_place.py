"""A working directory with a script, two runs of it, and a file of each kind that perftui opens."""

from __future__ import annotations

import os
from pathlib import Path

from tests.core.report.test_special_reports import three_lines, write_metrics, write_snapshot
from tests.tui.recorded import ENDED, SCRIPT, START, write_run
from tests.tui.traces import write_trace

IDS = "20231114-221320-train", "20231114-231320-train"


def write_place(place: Path) -> None:
    """Write them into ``place``: the second run waits for data for a sixth of the time."""
    script = place / "train.py"
    script.write_text(SCRIPT)
    os.utime(script, ns=(START - 10**9, START - 10**9))
    runs = place / ".perftui" / "runs"
    made = {"script": script, "loader_line": 4, "cwd": str(place), **ENDED}
    write_run(runs, run_id=IDS[0], **made)
    write_run(runs, run_id=IDS[1], wait_ms=20, **made)
    write_trace(place)
    write_snapshot(place / "snapshot.pickle", three_lines())
    write_metrics(place / "kernels.csv", [("gemm", "1000", "80", "30", "50")])
