"""A forked child lets no event of CUDA go: that would abort it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

SCRIPT = """
import os, sys
from pathlib import Path
import torch
from perftui.wire.spool import AgentOptions
from perftui.agent.recording.session import Session

class Event:
    def __del__(self):
        os.write(1, b"destroyed in the parent\\n" if os.getpid() == parent else b"destroyed\\n")

parent = os.getpid()
session = Session(torch, Path(sys.argv[1]), AgentOptions(profile=False))
session.enter_forward(torch.nn.Linear(1, 1))
phases = session.recording.device.phases
phases._free[0] = [Event()]
phases._open.append((0, 0, Event()))
del phases
if os.fork() == 0:
    session.after_fork()
    assert session.recording is None
    sys.exit()
os.wait()
session.recording = None
"""


def test_events_of_the_parent_are_never_destroyed_in_a_child(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    assert done.stdout.splitlines() == ["destroyed in the parent"] * 2
