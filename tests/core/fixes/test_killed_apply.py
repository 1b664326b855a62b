"""A process that is killed while it writes a fix, or takes one back, at any line of our code."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from perftui.fixes.apply import last_applied, undo

BEFORE, AFTER = b"x = 1\r\n" * 500, b"x = 2\r\n" * 500

KILLED = """\
import os, sys
from pathlib import Path
from perftui.fixes.model import Patch
from perftui.fixes.apply import apply_patch, last_applied, undo

folder, what = Path(sys.argv[1]), sys.argv[2]
BEFORE, AFTER = b"x = 1\\r\\n" * 500, b"x = 2\\r\\n" * 500

def work(path, store):
    if what == "undo":
        undo(last_applied(store), store)
    else:
        apply_patch(Patch(path, BEFORE, AFTER), store)

def killed_at(line, path, store):
    lines = 0
    def count(frame, event, argument):
        nonlocal lines
        if "perftui" not in frame.f_code.co_filename:
            return None
        lines += event == "line"
        if lines == line:
            os._exit(9)
        return count
    sys.settrace(count)
    work(path, store)
    os._exit(0)

at = 0
while True:
    at += 1
    path, store = folder / str(at) / "train.py", folder / str(at) / "store"
    path.parent.mkdir()
    path.write_bytes(BEFORE)
    if what == "undo":
        apply_patch(Patch(path, BEFORE, AFTER), store)
    child = os.fork()
    if not child:
        killed_at(at, path, store)
    if os.waitpid(child, 0)[1] == 0:
        break
print(at)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.parametrize("what", ["apply", "undo"])
def test_a_kill_leaves_the_old_file_or_the_new_one(tmp_path, what) -> None:
    command = (sys.executable, "-c", KILLED, str(tmp_path), what)
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    moments = int(done.stdout)
    assert moments > 40
    found = set()
    for at in range(1, moments + 1):
        path, store = tmp_path / str(at) / "train.py", tmp_path / str(at) / "store"
        now = path.read_bytes()
        assert now in (BEFORE, AFTER)
        found.add(now)
        applied = last_applied(store)
        # What stands in the file can be taken back, whenever it was that the process ended.
        assert (applied is not None) == (now == AFTER)
        if applied is not None:
            undo(applied, store)
            assert path.read_bytes() == BEFORE
    assert found == {BEFORE, AFTER}
