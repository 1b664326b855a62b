"""Looks at a main thread from outside, by the real py-spy and by stand-ins that misbehave."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from perftui.recorder import pyspy, sink
from perftui.recorder.pyspy import (
    ABSENT,
    FAILED,
    NOT_ALLOWED,
    StackSampling,
    TrainingOrder,
    WorkerOrder,
)
from perftui.recorder.sink import FaultLog
from perftui.run.columns import STACK_COLUMNS
from perftui.run.journal import JournalReader
from perftui.run.journal_table import JournalTable, Segments
from perftui.run.layout import RankLayout

pytestmark = pytest.mark.subprocess

SLEEPER = """
import time

def slow_metric():
    time.sleep(0.05)

print("begun", flush=True)
while True:
    slow_metric()
"""

EVENT = (
    '{"args":{"filename":"/home/a.py","line":3},"cat":"py-spy","name":"<module>",'
    '"ph":"%s","pid":PID,"tid":1,"ts":%d}'
)
ONE_LOOK = "[" + EVENT % ("B", 10) + "," + EVENT % ("E", 2010) + "]"

ARGUMENTS = """
import os, pathlib, signal, sys, time
given = dict(zip(sys.argv[2:], sys.argv[3:]))
output, pid = pathlib.Path(given["--output"]), given["--pid"]
"""


@pytest.fixture
def sleeper(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    script = tmp_path / "train.py"
    script.write_text(SLEEPER)
    process = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"begun\n"
    yield process
    process.kill()
    process.communicate()


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Puts a py-spy that does what it is told on the path; the way it was called is beside it."""

    def install(does: str) -> Path:
        command = tmp_path / "bin" / "py-spy"
        command.parent.mkdir(exist_ok=True)
        calls = tmp_path / "calls"
        record = f"pathlib.Path({str(calls)!r}).open('a').write(' '.join(sys.argv[1:]) + chr(10))\n"
        command.write_text(f"#!{sys.executable}\n{ARGUMENTS}{record}{does}\n")
        command.chmod(0o700)
        monkeypatch.setattr(pyspy, "find_pyspy", lambda: str(command))
        monkeypatch.setattr(pyspy, "SPACING", 0.0)
        return calls

    return install


class Sampled:
    """A sampling of this process or another, with what it said and wrote."""

    def __init__(
        self, tmp_path: Path, pid: int, rate: int = 20, workers: Sequence[int] = ()
    ) -> None:
        self.said: list[str] = []
        self.layout = RankLayout(tmp_path / "rank-0")
        self.spool = tmp_path / "spool"
        self.spool.mkdir()
        self.faults = tmp_path / "recorder.log"
        self.sampling = StackSampling(
            rate,
            lambda: {pid: self.layout},
            lambda: dict.fromkeys(workers, (self.layout, 3)),
            self.spool,
            FaultLog(self.faults),
            self.said.append,
        )

    def turn_until(self, condition: Callable[[], object]) -> None:
        until = time.monotonic() + 20
        while not condition():
            assert time.monotonic() < until
            self.sampling.advance()
            time.sleep(0.01)

    @property
    def rows(self) -> list[list[Any]]:
        reader = JournalReader(self.layout.stacks)
        return reader.poll()


def _skip_unless_readable(pid: int) -> None:
    command = pyspy.find_pyspy()
    if command is None:
        pytest.skip("py-spy is not installed")
    asked = [command, "dump", "--nonblocking", "--pid", str(pid)]
    if b"Permission" in subprocess.run(asked, capture_output=True, check=False).stderr:
        pytest.skip("the system does not let py-spy read processes")


@pytest.mark.slow
def test_a_function_that_sleeps_is_named_by_its_line(
    tmp_path: Path, sleeper: subprocess.Popen[bytes]
) -> None:
    _skip_unless_readable(sleeper.pid)
    sampled = Sampled(tmp_path, sleeper.pid, rate=50)
    before = time.time_ns()
    sampled.sampling.advance()
    time.sleep(1.5)
    sampled.sampling.finish()
    assert sampled.said == []
    assert sleeper.poll() is None
    held: dict[tuple[str, int], int] = {}
    for _, time_held, _, file, line, *_ in sampled.rows:
        held[file, line] = held.get((file, line), 0) + time_held
    asleep = held[str(tmp_path / "train.py"), 5]
    assert asleep / sum(held.values()) > 0.5
    first, last = sampled.rows[0], sampled.rows[-1]
    assert before <= first[0] <= last[0] + last[1] <= time.time_ns()


WORKER = """
import time
from torch.utils.data import DataLoader, Dataset

class Slow(Dataset):
    def __len__(self):
        return 100_000

    def __getitem__(self, index):
        time.sleep(0.02)
        return index

loader = DataLoader(Slow(), batch_size=4, num_workers=1)
for step, batch in enumerate(loader):
    if step == 0:
        import psutil
        print(psutil.Process().children()[0].pid, flush=True)
"""


@pytest.mark.slow
def test_a_worker_is_named_by_the_line_of_its_dataset(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    script = tmp_path / "train.py"
    script.write_text(WORKER)
    with subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE) as process:
        try:
            worker = int(process.stdout.readline())
            _skip_unless_readable(worker)
            sampled = Sampled(tmp_path, process.pid, rate=50, workers=[worker])
            path = sampled.layout.worker_stacks
            sampled.sampling.advance()
            time.sleep(2.0)
            sampled.sampling.finish()
        finally:
            process.kill()
    rows = JournalReader(path).poll()
    fetching = [row for row in rows if row[8] == "fetch"]
    slow = WORKER.splitlines().index("        time.sleep(0.02)") + 1
    assert {(row[3], row[4]) for row in fetching} <= {(str(script), slow), ("", -1)}
    named = sum(row[1] for row in fetching if row[4] == slow)
    assert named > sum(row[1] for row in rows) / 2


def test_it_is_asked_never_to_stop_the_process(tmp_path: Path, fake: Callable[[str], Path]) -> None:
    calls = fake(f"output.write_text({ONE_LOOK!r}.replace('PID', pid))")
    sampled = Sampled(tmp_path, os.getpid())
    sampled.turn_until(lambda: len(sampled.rows) > 1)
    first, later = calls.read_text().splitlines()[:2]
    assert first.startswith("record --nonblocking --idle")
    assert "--rate 80" in first
    assert "--rate 20" in later
    sampled.sampling.finish()
    place = ["/home/a.py", 3, "<module>", "home/a.py:3 <module>"]
    assert [row[1:] for row in sampled.rows[:2]] == [
        [2_000_000, 1, *place, 12_500_000, "", ""],
        [2_000_000, 1, *place, 50_000_000, "", ""],
    ]
    assert sampled.said == []


def test_it_is_said_once_that_it_is_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyspy, "find_pyspy", lambda: None)
    sampled = Sampled(tmp_path, os.getpid())
    for _ in range(3):
        sampled.sampling.advance()
    sampled.sampling.finish()
    assert sampled.said == [ABSENT]
    assert not sampled.layout.stacks.exists()


def test_nothing_is_started_before_something_trains(
    tmp_path: Path, fake: Callable[[str], Path]
) -> None:
    calls = fake("")
    said: list[str] = []
    faults = FaultLog(tmp_path / "recorder.log")
    sampling = StackSampling(20, dict, dict, tmp_path, faults, said.append)
    sampling.advance()
    sampling.finish()
    assert said == []
    assert not calls.exists()


def test_it_is_said_once_where_the_system_refuses(
    tmp_path: Path, fake: Callable[[str], Path]
) -> None:
    calls = fake("sys.stderr.write('Permission Denied: Try running again\\n'); sys.exit(1)")
    sampled = Sampled(tmp_path, os.getpid())
    sampled.turn_until(lambda: sampled.said)
    for _ in range(3):
        sampled.sampling.advance()
    sampled.sampling.finish()
    assert sampled.said == [NOT_ALLOWED]
    assert len(calls.read_text().splitlines()) == 1


def test_a_worker_is_looked_at_half_as_often_and_kept_with_its_loader(
    tmp_path: Path, fake: Callable[[str], Path], sleeper: subprocess.Popen[bytes]
) -> None:
    calls = fake(f"output.write_text({ONE_LOOK!r}.replace('PID', pid))")
    sampled = Sampled(tmp_path, os.getpid(), rate=20, workers=[sleeper.pid])
    path = sampled.layout.worker_stacks
    sampled.turn_until(lambda: path.exists() and sampled.rows)
    sampled.sampling.finish()
    (worker,) = {line for line in calls.read_text().splitlines() if f"--pid {sleeper.pid}" in line}
    assert "--rate 10" in worker
    row = JournalReader(path).poll()[0]
    assert row[7:] == [100_000_000, "", "", sleeper.pid, 3]


def test_workers_that_cannot_be_looked_at_leave_the_training_to_be_looked_at(
    tmp_path: Path, fake: Callable[[str], Path], sleeper: subprocess.Popen[bytes]
) -> None:
    calls = fake(
        f"if int(pid) == {sleeper.pid}: sys.stderr.write('Permission Denied: no'); sys.exit(1)\n"
        f"output.write_text({ONE_LOOK!r}.replace('PID', pid))"
    )
    sampled = Sampled(tmp_path, os.getpid(), workers=[sleeper.pid])
    sampled.turn_until(lambda: sampled.faults.exists() and len(sampled.rows) > 2)
    sampled.sampling.finish()
    assert sampled.said == []
    assert "stack samples of workers: Permission Denied: no" in sampled.faults.read_text()
    asked = [line for line in calls.read_text().splitlines() if f"--pid {sleeper.pid}" in line]
    assert len(asked) == 1


@pytest.fixture
def lives(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every process is there."""
    monkeypatch.setattr("psutil.pid_exists", lambda _: True)


def _rank(number: int) -> RankLayout:
    return RankLayout(Path(f"rank-{number}"))


@pytest.mark.usefixtures("lives")
def test_ranks_take_turns_and_the_first_has_every_second() -> None:
    turns = TrainingOrder(lambda: {pid: _rank(pid - 100) for pid in (102, 100, 101)})
    found = [target for _ in range(8) if (target := turns())]
    assert [target.pid for target in found] == [100, 101, 100, 102, 100, 101, 100, 102]
    # Each is soon looked at, and one alone for longer.
    assert [target.seconds for target in found[:5]] == [2, 2, 2, 2, 10]
    assert [target.is_first for target in found[:5]] == [True] * 4 + [False]
    alone = TrainingOrder(lambda: {100: _rank(0)})
    found = [target for _ in range(3) if (target := alone())]
    assert [target.seconds for target in found] == [5, 30, 30]


@pytest.mark.usefixtures("lives")
def test_one_turn_in_nine_asks_who_holds_the_lock_where_there_are_several_threads() -> None:
    turns = TrainingOrder(lambda: {pid: _rank(pid - 100) for pid in (100, 101)})
    found = [turns()]
    turns.several.add(100)
    found += [turns() for _ in range(18)]
    of_lock = [at for at, target in enumerate(found) if target and target.of_lock]
    assert of_lock == [1, 10]
    assert {found[at].pid for at in of_lock} == {100}
    # One that has no other threads is never asked.
    turns.several.clear()
    assert not any(target.of_lock for _ in range(30) if (target := turns()))


@pytest.mark.usefixtures("lives")
def test_workers_of_all_ranks_take_turns_though_some_come_and_go() -> None:
    workers = {8: (_rank(1), 1), 5: (_rank(0), 1), 3: (_rank(0), 2)}
    turns = WorkerOrder(lambda: workers)
    seen = [(target.pid, target.loader) for _ in range(4) if (target := turns())]
    assert seen == [(3, 2), (5, 1), (8, 1), (3, 2)]
    del workers[5]
    seen = [(target.pid, target.loader) for _ in range(2) if (target := turns())]
    assert seen == [(8, 1), (3, 2)]
    workers.clear()
    assert turns() is None


@pytest.mark.parametrize(
    ("does", "why"),
    [
        ("sys.stderr.write('Error: no such Python\\n'); sys.exit(1)", "Error: no such Python"),
        ("os.kill(os.getpid(), signal.SIGKILL)", "no reason given"),
        ("output.write_text('no trace')", "JSON is malformed"),
        ("pass", "no reason given"),
    ],
    ids=["fails", "killed", "damaged", "nothing written"],
)
def test_after_some_failures_it_is_left_alone_and_said(
    tmp_path: Path, fake: Callable[[str], Path], does: str, why: str
) -> None:
    calls = fake(does)
    sampled = Sampled(tmp_path, os.getpid())
    sampled.turn_until(lambda: sampled.said)
    sampled.sampling.advance()
    sampled.sampling.finish()
    assert len(sampled.said) == 1
    assert sampled.said[0].startswith(FAILED)
    assert why in sampled.said[0]
    assert len(calls.read_text().splitlines()) == pyspy.MOST_FAILURES
    assert list(sampled.spool.iterdir()) == []


def test_one_that_hangs_is_ended(
    tmp_path: Path, fake: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pyspy, "GRACE", -60.0)
    monkeypatch.setattr(pyspy, "END_SECONDS", 0.1)
    fake("signal.signal(signal.SIGINT, signal.SIG_IGN); time.sleep(600)")
    sampled = Sampled(tmp_path, os.getpid())
    sampled.turn_until(lambda: sampled.said)
    assert sampled.said[0].endswith(": it did not exit, and was killed")


def test_the_end_of_the_training_is_no_failure(
    tmp_path: Path, fake: Callable[[str], Path], sleeper: subprocess.Popen[bytes]
) -> None:
    calls = fake("sys.exit(1)")
    sleeper.send_signal(signal.SIGKILL)
    sleeper.wait()
    sampled = Sampled(tmp_path, sleeper.pid)
    for _ in range(5):
        sampled.sampling.advance()
    sampled.sampling.finish()
    assert sampled.said == []
    assert not calls.exists()


def test_the_last_piece_is_kept_when_it_is_interrupted(
    tmp_path: Path, fake: Callable[[str], Path]
) -> None:
    calls = fake(
        f"signal.signal(signal.SIGINT, lambda *_: (output.write_text({ONE_LOOK!r}"
        ".replace('PID', pid)), os._exit(0)))\n"
        "(output.parent / 'ready').touch()\n"
        "time.sleep(60)"
    )
    sampled = Sampled(tmp_path, os.getpid())
    sampled.turn_until((sampled.spool / "ready").exists)
    sampled.sampling.finish()
    assert len(sampled.rows) == 1
    assert len(calls.read_text().splitlines()) == 1


def test_the_journal_stays_small_and_is_read_from_its_first_and_newest_pieces(
    tmp_path: Path, fake: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sink, "STACK_SEGMENT_BYTES", 1)
    fake(f"output.write_text({ONE_LOOK!r}.replace('PID', pid))")
    sampled = Sampled(tmp_path, os.getpid())
    table = JournalTable(sampled.layout.stacks, STACK_COLUMNS)
    sums = Segments(sampled.layout.stacks).sums
    sampled.turn_until(sums.exists)
    sampled.sampling.finish()
    assert table.poll()["file"].tolist() == ["/home/a.py"] * len(table.poll())
    assert len(table.poll()) >= 3
    assert table.skipped == 0
    assert len(list(sums.parent.glob("*.jsonl"))) <= 4


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        (b"[2026-11-22T01:33:35.197961824Z INFO  py_spy::config] config", 1795311215197961824),
        (b"[2026-11-22T01:33:35Z INFO  py_spy::config] config", 1795311215000000000),
        (b"[2026-11-22T01:33:35.5Z INFO  py_spy::config] config", 1795311215500000000),
        (b"nothing of that kind", None),
    ],
)
def test_its_clock_is_read_from_its_log(log: bytes, expected: int | None) -> None:
    assert pyspy._start_time(log) == expected
