"""A disk that hangs, as a network disk does: the training goes on, and what is lost is counted."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from perftui.run.history import list_runs
from perftui.run.manifest import Status
from perftui.run.reader import RunReader

AGENT = Path(__file__).with_name("fake_agent.py")
PATIENCE = 60.0
PRINTED = 400_000
BACKLOG = 50_000

HANGING = f"""\
import os, sys, time
from functools import partial
from pathlib import Path
import perftui.recorder.recording as recording
import perftui.run.journal
from perftui.recorder.relay import OutputLog

released = Path(sys.argv.pop(1))
write = os.write

def hang(file, data):
    name = os.readlink(f"/proc/self/fd/{{file}}")
    while "/runs/" in name and HUNG.exists() and not released.exists():
        time.sleep(0.01)
    return write(file, data)

HUNG = released.with_name("hung")
os.write = hang
recording.OutputLog = partial(OutputLog, backlog={BACKLOG})

from perftui_tui.cli import main
sys.exit(main())
"""
"""Every write to a file of the run blocks from when ``hung`` is there until it is released."""

TRAINING = f"""\
import runpy, sys, time
from pathlib import Path

here = Path(__file__).parent
print("first line", flush=True)
until = time.monotonic() + 30
while not list(here.glob("runs/*/output.log")) or not any(
    b"first line" in one.read_bytes() for one in here.glob("runs/*/output.log")
):
    assert time.monotonic() < until
    time.sleep(0.01)
(here / "hung").touch()
sys.argv = ["agent", "5000"]
runpy.run_path({str(AGENT)!r}, run_name="__main__")
for _ in range({PRINTED} // 100):
    print("x" * 99, flush=True)
(here / "trained").touch()
"""


@pytest.mark.subprocess
def test_a_disk_that_hangs_stops_neither_the_training_nor_its_output(tmp_path: Path) -> None:
    (tmp_path / "t.py").write_text(TRAINING)
    released = tmp_path / "released"
    recorder = subprocess.Popen(
        [
            *(sys.executable, "-c", HANGING, str(released), "--headless", "--runs"),
            *(str(tmp_path / "runs"), "--python", sys.executable, "t.py"),
        ],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
    )
    # Read along, as a terminal does.
    assert recorder.stdout is not None
    passed_on = []
    while len(passed_on) <= PRINTED // 100:
        line = recorder.stdout.readline()
        assert line, "the recorder ended early"
        passed_on.append(line)
    until = time.monotonic() + PATIENCE
    while not (tmp_path / "trained").exists():
        assert time.monotonic() < until, "the training waits for the disk"
        time.sleep(0.01)
    assert recorder.poll() is None
    released.touch()
    with recorder:
        rest = recorder.stdout.read()
    assert recorder.returncode == 0

    printed = "".join(passed_on) + rest
    assert printed.count("x" * 99 + "\n") == PRINTED // 100
    (entry,) = list_runs(tmp_path / "runs")
    log = (entry.root / "output.log").read_bytes()
    # Said at each place where some are, of which a slow machine has more.
    said_missing = re.findall(rb"\[perftui: (\d+) bytes of output are missing here\]\n", log)
    missing = sum(map(int, said_missing))
    assert missing > 0
    kept = len(re.sub(rb"\n\[perftui: .*\]\n", b"", log))
    assert kept + missing == len(printed.encode())
    assert kept >= BACKLOG - 65_536

    run = RunReader(entry.root).poll()
    assert run.manifest.status is Status.EXITED
    (rank,) = run.ranks
    # Of 4096 slots the newest are there, of 25,500 records.
    assert 700 < len(rank.steps) < 5000
    assert int(rank.steps["index"][-1]) == 4999
    said = [data["message"] for data in rank.events["data"][rank.events["kind"] == "warning"]]
    # Each time that they have doubled, and at the end of them all.
    lost = [int(re.match(r"(\d+) records of the training were lost", one)[1]) for one in said]
    assert lost == sorted(lost)
    assert 25_500 - 2 * 4096 <= lost[-1] <= 25_500 - 4000
