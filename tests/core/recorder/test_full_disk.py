"""A disk that is full or hangs costs records, says so, and never costs the training anything."""

import errno
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

from perftui.recorder.relay import OutputLog
from perftui.recorder.sink import FaultLog, JournalSink, LiveManifest
from perftui.run.journal import Column, JournalReader
from perftui.run.manifest import Manifest, Status, read_manifest, write_manifest
from perftui.run.reader import RunReader, list_runs

COLUMNS = (Column("n"),)


class Disk:
    """Stands for ``os.write`` on a disk that may be full."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_full = False
        self._write = os.write
        monkeypatch.setattr(os, "write", self.write)

    def write(self, file: int, data: bytes) -> int:
        if self.is_full:
            raise OSError(errno.ENOSPC, "No space left on device")
        return self._write(file, data)


def test_journal_goes_on_once_there_is_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(monkeypatch)
    faults = FaultLog(tmp_path / "log")
    sink = JournalSink(tmp_path / "rank-0" / "j", COLUMNS, faults)
    sink.append([[1]])
    disk.is_full = True
    sink.append([[2], [3]])
    sink.append([[4]])
    disk.is_full = False
    sink.append([[5]])
    sink.close()
    assert sink.lost == 3
    assert JournalReader(tmp_path / "rank-0" / "j").poll() == [[1], [5]]


def test_journal_that_cannot_be_opened_is_tried_again(tmp_path: Path) -> None:
    (tmp_path / "rank-0").write_text("a file in the way")
    faults = FaultLog(tmp_path / "log")
    sink = JournalSink(tmp_path / "rank-0" / "j", COLUMNS, faults)
    sink.append([[1]])
    sink.append([[2]])
    (tmp_path / "rank-0").unlink()
    sink.append([[3]])
    sink.close()
    assert sink.lost == 2
    (line,) = (tmp_path / "log").read_text().splitlines()
    assert "rank-0/j" in line
    assert "the training goes on" in line


def test_journal_that_cannot_be_begun_keeps_no_file_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(monkeypatch)
    sink = JournalSink(tmp_path / "rank-0" / "j", COLUMNS, FaultLog(tmp_path / "log"))
    disk.is_full = True
    sink.append([[1]])
    before = os.dup(0)
    os.close(before)
    for n in range(3):
        sink.append([[n]])
    after = os.dup(0)
    os.close(after)
    # The lowest free number is the same: none was taken for good.
    assert after == before
    assert sink.lost == 4
    disk.is_full = False
    sink.append([[5]])
    sink.close()
    assert JournalReader(tmp_path / "rank-0" / "j").poll() == [[5]]


def test_output_that_is_missing_is_marked_where_it_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(monkeypatch)
    log = OutputLog(tmp_path / "output.log", FaultLog(tmp_path / "log"))
    log.write(b"before\n")
    log.flush()
    disk.is_full = True
    log.write(b"lost\n")
    log.flush()
    log.write(b"lost too\n")
    log.flush()
    disk.is_full = False
    log.write(b"after\n")
    log.close()
    assert (tmp_path / "output.log").read_bytes() == (
        b"before\n\n[perftui: 14 bytes of output are missing here]\nafter\n"
    )


@pytest.mark.parametrize("failures", range(5))
def test_a_disk_that_hangs_and_is_then_full_stops_nothing_and_missing_bytes_add_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failures: int
) -> None:
    hung = threading.Event()
    write = os.write
    left = [failures]

    def hang(file: int, data: bytes) -> int:
        hung.wait()
        if left[0] and b"x" in data:
            left[0] -= 1
            raise OSError(errno.ENOSPC, "No space left on device")
        # A disk may take a part.
        return write(file, data[:700])

    log = OutputLog(tmp_path / "output.log", FaultLog(tmp_path / "log"), backlog=1000)
    monkeypatch.setattr(os, "write", hang)
    for _ in range(100):
        log.write(b"x" * 100)
    hung.set()
    log.flush()
    for _ in range(4):
        log.write(b"x" * 100)
        log.flush()
    log.write(b"end")
    log.close()
    content = (tmp_path / "output.log").read_bytes()
    missing = re.findall(rb"\n\[perftui: (\d+) bytes of output are missing here\]\n", content)
    assert content.endswith(b"end")
    kept = content.count(b"x")
    # While it hangs no more than the backlog is kept, and what the writer has in hand.
    assert kept <= 2000 + 400
    assert kept + sum(map(int, missing)) == 10_400


def test_how_the_training_ended_needs_no_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run.json"
    started = Manifest("id", ("python", "train.py"), "/", 1, "host", message="to be " * 100)
    write_manifest(path, started)
    live = LiveManifest(path, started, FaultLog(tmp_path / "log"))

    def no_room(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(tempfile, "mkstemp", no_room)
    live.update(status=Status.EXITED, exit_code=7, ended_ns=2)
    assert read_manifest(path) == live.current
    assert live.current.exit_code == 7
    live.update(message=None)
    assert read_manifest(path) == live.current
    assert "No space left" in (tmp_path / "log").read_text()


@pytest.mark.subprocess
def test_run_on_a_full_disk_ends_as_it_would_have(tmp_path: Path) -> None:
    """The file-size limit stands for the full disk: writes beyond it fail."""
    source = (
        "import resource, sys\n"
        "from pathlib import Path\n"
        "from perftui.recorder.foreground import run_as_command\n"
        "from perftui.recorder.launch import Launch\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (16384, 16384))\n"
        "code = 'for n in range(100_000): print(n)'\n"
        "command = (sys.executable, '-c', code)\n"
        "run_as_command(Launch(command, Path.cwd(), Path(sys.argv[1])))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", source, str(tmp_path / "runs")], capture_output=True, check=False
    )
    assert done.returncode == 0
    assert done.stdout == b"".join(b"%d\n" % n for n in range(100_000))
    assert done.stderr == b""
    (entry,) = list_runs(tmp_path / "runs")
    assert (entry.manifest.status, entry.manifest.exit_code) == (Status.EXITED, 0)
    assert (entry.root / "output.log").stat().st_size == 16384
    assert "output.log" in (entry.root / "recorder.log").read_text()


def test_output_that_is_refused_while_nothing_waits_is_said(tmp_path: Path) -> None:
    log = OutputLog(tmp_path / "output.log", FaultLog(tmp_path / "log"), backlog=10)
    log.write(b"x" * 11)
    log.flush()
    log.write(b"later\n")
    log.close()
    said = b"\n[perftui: 11 bytes of output are missing here]\n"
    assert (tmp_path / "output.log").read_bytes() == said + b"later\n"


AGENT = Path(__file__).with_name("fake_agent.py")
PATIENCE = 60.0
PRINTED = 400_000
BACKLOG = 50_000

HANGING = f"""\
import os, sys, time
from functools import partial
from pathlib import Path
import perftui.recorder.recorder as recording
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
