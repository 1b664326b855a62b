"""The script has the descriptors that were opened for it, and none of the recorder's."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.subprocess

LIST = """
import json, os, sys
from pathlib import Path
opened = []
for file in range(3, 1024):
    try:
        os.fstat(file)
        opened.append(file)
    except OSError:
        pass
text = os.pread(int(sys.argv[2]), 100, 0).decode()
Path(sys.argv[1]).write_text(json.dumps([opened, text]))
"""

FOREGROUND = """
import sys
from pathlib import Path
from perftui.recorder.foreground import run_as_command
from perftui.recorder.launch import Launch
run_as_command(Launch(tuple(sys.argv[2:]), Path.cwd(), Path(sys.argv[1])))
"""

DETACHED = """
import sys, time
from pathlib import Path
from perftui.recorder.launch import Launch, start
from perftui.run.layout import RunLayout
from perftui.run.manifest import read_manifest
root = start(Launch(tuple(sys.argv[2:]), Path.cwd(), Path(sys.argv[1])))
while not read_manifest(RunLayout(root).manifest).status.is_over:
    time.sleep(0.02)
"""


@pytest.fixture
def given(tmp_path: Path) -> Iterator[int]:
    """A descriptor for the script, as ``3<file`` makes one."""
    path = tmp_path / "file"
    path.write_text("for the script")
    file = os.open(path, os.O_RDONLY)
    yield file
    os.close(file)


def on_pipes(command: list[str], given: int) -> None:
    subprocess.run(command, pass_fds=[given], capture_output=True, check=True)


def on_a_terminal(command: list[str], given: int) -> None:
    os.set_inheritable(given, True)
    pid, ours = pty.fork()
    if pid == 0:
        os.execv(command[0], command)  # noqa: S606 - the test's own command
    try:
        while os.read(ours, 1000):
            pass
    except OSError:
        # The script's side was closed.
        os.close(ours)
    assert os.waitpid(pid, 0)[1] == 0


@pytest.mark.parametrize(
    ("recorder", "run"),
    [(FOREGROUND, on_pipes), (FOREGROUND, on_a_terminal), (DETACHED, on_pipes)],
    ids=["foreground, pipes", "foreground, terminal", "detached"],
)
def test_descriptors_are_those_that_the_script_alone_would_have(
    tmp_path: Path, given: int, recorder: str, run: Callable[[list[str], int], None]
) -> None:
    seen = tmp_path / "seen"
    script = [sys.executable, "-c", LIST, str(seen), str(given)]
    run(script, given)
    alone = json.loads(seen.read_text())
    seen.unlink()
    run([sys.executable, "-c", recorder, str(tmp_path / "runs"), *script], given)
    assert json.loads(seen.read_text()) == alone
    assert alone[1] == "for the script"
