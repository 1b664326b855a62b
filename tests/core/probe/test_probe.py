"""All ceilings of a machine together."""

import os
import signal
import socket
import threading
import time
from collections import namedtuple
from pathlib import Path

import psutil
import pytest

from perftui.probe import probe
from perftui.probe.ceilings import Ceiling, NotMeasured, disk_read, rate_of
from perftui.probe.probe import ProbeCancelledError, Worked, WorkerError, work

Times = namedtuple("Times", "user system idle iowait guest")

DISK = rate_of(Ceiling.DISK_READ, "B/s", [[2e9]], "files")
MEMORY = rate_of(Ceiling.MEMORY, "B/s", [[3e12]], "copies")
WORKED = Worked("2.9.0", "A card", (MEMORY,), (NotMeasured(Ceiling.TF32, "no room"),))


@pytest.fixture(autouse=True)
def played(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, float]]:
    asked: list[tuple[str, float]] = []
    monkeypatch.setattr(probe, "disk_read", lambda _, s: asked.append(("disk", s)) or DISK)
    monkeypatch.setattr(probe, "work", lambda _, s, *__: asked.append(("torch", s)) or WORKED)
    monkeypatch.setattr(probe, "_driver", lambda: "580.1")
    return asked


def test_disk_and_torch_share_the_time(tmp_path: Path, played: list[tuple[str, float]]) -> None:
    told: list[str] = []
    found = probe.probe("python", tmp_path, 8.0, told.append)
    assert played == [("disk", 2.0), ("torch", 6.0)]
    assert told == ["disk read"]
    assert (found.host, found.gpu, found.driver) == (socket.gethostname(), "A card", "580.1")
    assert found.rates == (DISK, MEMORY)
    assert [one.name for one in found.not_measured] == [Ceiling.TF32]
    assert found.path == str(tmp_path)


def test_without_a_disk_the_rest_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probe, "disk_read", disk_read)
    found = probe.probe("python", tmp_path / "nowhere", 0.1)
    assert found.rates == (MEMORY,)
    assert found.not_measured[0].name is Ceiling.DISK_READ
    assert "No such file" in found.not_measured[0].reason


def test_other_programs_are_all_but_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cpu = iter([Times(100, 50, 1000, 5, 30), Times(108, 52, 1010, 5, 30)])
    own = iter([os.times_result((1, 0, 2, 0, 0)), os.times_result((2, 0, 4, 1, 0))])
    clock = iter([100.0, 104.0])
    monkeypatch.setattr(psutil, "cpu_times", lambda: next(cpu))
    monkeypatch.setattr(psutil, "cpu_count", lambda: 4)
    monkeypatch.setattr(os, "times", lambda: next(own))
    monkeypatch.setattr(probe.time, "monotonic", lambda: next(clock, 104.0))
    found = probe.probe("python", tmp_path, 1.0)
    # 10 s of all cores, 4 of them ours, in 4 s.
    assert (found.others, found.cores, found.is_disturbed) == (1.5, 4, True)


MACHINE = '{"torch": "2.9.0", "gpu": "A card"}'
ROUND = '{"name": "device memory", "unit": "B/s", "how": "copies", "rates": [%s]}'


def script(tmp_path: Path, *lines: str) -> str:
    """An interpreter that ignores what it is given."""
    path = tmp_path / "python"
    path.write_text("#!/bin/sh\n" + "\n".join(lines) + "\n")
    path.chmod(0o755)
    return str(path)


def say(*lines: str) -> list[str]:
    return [f"echo '{line}'" for line in lines]


@pytest.mark.subprocess
def test_the_best_of_the_medians_of_the_rounds(tmp_path: Path) -> None:
    rounds = (ROUND % "1, 2, 9", ROUND % "3, 4, 5", ROUND % "2, 3, 4")
    lines = say("hello from a sitecustomize", MACHINE, *rounds, '{"done": true}')
    told: list[str] = []
    found = work(script(tmp_path, *lines), 1.0, told.append)
    assert (found.torch, found.gpu, told) == ("2.9.0", "A card", ["device memory"])
    (rate,) = found.rates
    assert (rate.name, rate.value, rate.low, rate.repeats) == (Ceiling.MEMORY, 4.0, 2.0, 9)
    assert rate.spread == 0.5


@pytest.mark.subprocess
def test_what_is_missing_has_its_reason(tmp_path: Path) -> None:
    lines = say(MACHINE, '{"name": "matrix, TF32", "problem": "no room"}', '{"done": true}')
    found = work(script(tmp_path, *lines), 1.0, str)
    assert [(one.name, one.reason) for one in found.not_measured] == [(Ceiling.TF32, "no room")]


@pytest.mark.subprocess
@pytest.mark.parametrize(
    ("lines", "why"),
    [
        (["echo 'No module named torch' >&2", "exit 1"], "No module named torch"),
        (["exit 3"], "ended with exit code 3"),
        (["kill -9 $$"], "killed by signal 9"),
        (say(MACHINE, ROUND % "1"), "exit code 0"),
    ],
    ids=["no torch", "silent", "killed", "cut off"],
)
def test_a_worker_that_fails_says_why(tmp_path: Path, lines: list[str], why: str) -> None:
    with pytest.raises(WorkerError, match=why):
        work(script(tmp_path, *lines), 1.0, str)


@pytest.mark.subprocess
def test_a_worker_that_nobody_waits_for_is_ended_at_once(tmp_path: Path) -> None:
    cancelled = threading.Event()
    lines = [*say(MACHINE, ROUND % "1"), f"echo $$ > {tmp_path}/pid", "exec sleep 600"]
    began = time.monotonic()
    with pytest.raises(ProbeCancelledError):
        work(script(tmp_path, *lines), 600.0, lambda _: cancelled.set(), cancelled)
    assert time.monotonic() - began < 30


def test_an_interpreter_that_is_not_there() -> None:
    with pytest.raises(WorkerError, match="No such file"):
        work("/nowhere/python", 1.0, str)


@pytest.mark.subprocess
def test_one_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "START_SECONDS", 0.2)
    with pytest.raises(WorkerError, match="signal 9"):
        work(script(tmp_path, "exec sleep 600"), 0.01, str)


@pytest.mark.subprocess
def test_ctrl_c_ends_it_too(tmp_path: Path) -> None:
    started = tmp_path / "pid"
    python = script(
        tmp_path, f"echo $$ > {started}.new", f"mv {started}.new {started}", "exec sleep 600"
    )

    def press() -> None:
        until = time.monotonic() + 60
        while not started.exists() and time.monotonic() < until:
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=press).start()
    with pytest.raises(KeyboardInterrupt):
        work(python, 60.0, str)
    with pytest.raises(ProcessLookupError):
        os.kill(int(started.read_text()), 0)
