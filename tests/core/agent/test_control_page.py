"""The page that the recorder and the agents share is read while another process writes it."""

from __future__ import annotations

import mmap
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from perftui.wire.control_page import SIZE, ControlPage

PLANS = """
import sys
from pathlib import Path
from perftui.wire.control_page import ControlPage
control, step = ControlPage(Path(sys.argv[1]) / "control"), 0
while True:
    step += 1
    control.plan(step)
"""

REQUESTS = """
import sys
from pathlib import Path
from perftui.recorder.spool import SpoolDirectory
directory = SpoolDirectory(Path(sys.argv[1]))
print(directory.spool.root, flush=True)
while True:
    directory.control.request()
"""

LEAST = 10_000


def fewer_than_before(read: Callable[[], int]) -> int:
    """How often ``read`` gives less than before, until a writer has counted far."""
    until = time.monotonic() + 0.5
    newest = fewer = 0
    while time.monotonic() < until or newest < LEAST:
        word = read()
        fewer += word < newest
        newest = max(newest, word)
    return fewer


def test_a_plan_is_read_as_it_is_or_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "control").write_bytes(bytes(SIZE))
    control = ControlPage(tmp_path / "control")
    with subprocess.Popen((sys.executable, "-c", PLANS, str(tmp_path))) as writer:
        try:
            assert fewer_than_before(lambda: control.step) == 0
        finally:
            writer.kill()


def test_requests_are_read_as_they_are_or_as_they_were(tmp_path: Path) -> None:
    command = (sys.executable, "-c", REQUESTS, str(tmp_path))
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        try:
            assert writer.stdout is not None
            spool = Path(writer.stdout.readline().strip())
            with (spool / "control").open("r+b") as file:
                words = memoryview(mmap.mmap(file.fileno(), SIZE)).cast("Q")
            assert fewer_than_before(lambda: words[0]) == 0
        finally:
            writer.kill()
