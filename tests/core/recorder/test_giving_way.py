"""The recorder's own work gives way to the training, and never asks for more than it had."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.subprocess,
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux has priorities of threads"),
]

LOWEST = 19
"""The lowest priority there is, which is the highest number."""

SOURCE = """
import os, sys, threading
from pathlib import Path
from perftui.recorder.faults import FaultLog
from perftui.recorder.faults import Repeating
os.nice(int(sys.argv[1]))
if os.getuid() == 0:
    os.setuid(65534)
done = threading.Event()
def work():
    print(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()), flush=True)
    done.set()
repeating = Repeating("work", 60.0, work, FaultLog(Path(sys.argv[2]) / "log"))
print(done.wait(20))
repeating.stop()
"""


@pytest.mark.parametrize(("given", "expected"), [(0, 10), (5, 10), (10, 10), (15, 15)])
def test_work_is_done_at_a_low_priority_and_never_a_higher_one(
    tmp_path: Path, given: int, expected: int
) -> None:
    already = os.getpriority(os.PRIO_PROCESS, 0)
    done = subprocess.run(
        [sys.executable, "-c", SOURCE, str(given), str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    assert done.stdout == f"{max(expected, min(given + already, LOWEST))}\nTrue\n"
