"""Small parts of the recorder by themselves."""

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from dataclasses import asdict
from pathlib import Path

import pytest

from perftui.own_path import look_there_last
from perftui.recorder.launch import (
    INJECT,
    LINKED,
    git_state,
    new_run_id,
    options_of,
    training_environment,
)
from perftui.recorder.sink import FaultLog
from perftui.recorder.supervise import INTERRUPT_GRACE, TERMINATE_GRACE, Stopper
from perftui.run.manifest import Status
from perftui.wire.spool import AgentOptions
from tests.core.recorder.conftest import Starter


class Training:
    """Notes what it is sent."""

    def __init__(self) -> None:
        self.sent: list[str] = []

    def signal(self, number: int) -> None:
        self.sent.append(f"leader {signal.Signals(number).name}")

    def signal_group(self, number: int) -> None:
        if number != signal.SIGCONT:
            self.sent.append(f"group {signal.Signals(number).name}")

    def kill_all(self) -> None:
        self.sent.append("kill all")


def test_stopping_waits_between_its_steps() -> None:
    training, now = Training(), [0.0]
    stopper = Stopper(training, clock=lambda: now[0])  # type: ignore[arg-type]
    stopper.tick()
    assert training.sent == []
    stopper.ask()
    now[0] = INTERRUPT_GRACE - 0.1
    stopper.tick()
    assert training.sent == ["group SIGINT"]
    now[0] = INTERRUPT_GRACE
    stopper.tick()
    now[0] += TERMINATE_GRACE - 0.1
    stopper.tick()
    assert training.sent == ["group SIGINT", "leader SIGTERM"]
    now[0] += 0.1
    stopper.tick()
    now[0] += 1000
    stopper.tick()
    assert training.sent == ["group SIGINT", "leader SIGTERM", "kill all"]


def test_stopping_can_be_hurried() -> None:
    training = Training()
    stopper = Stopper(training, clock=lambda: 0.0)  # type: ignore[arg-type]
    for _ in range(4):
        stopper.ask()
    assert training.sent == ["group SIGINT", "leader SIGTERM", "kill all", "kill all"]


@pytest.mark.parametrize(
    ("script", "slug"),
    [
        ("train.py", "train"),
        ("-m pkg.sub.train", "pkg-sub-train"),
        ("My Script (2).py", "my-script-2"),
        ("日本.py", "run"),
        ("x" * 80 + ".py", "x" * 24),
    ],
)
def test_run_id_sorts_by_time_and_names_the_script(script: str, slug: str) -> None:
    run_id = new_run_id(script, 1_795_000_000_000_000_000)
    stamp = time.strftime("%Y%m%d-%H%M%S", time.localtime(1_795_000_000))
    assert run_id.startswith(f"{stamp}-{slug}-")
    assert len(run_id.rsplit("-", 1)[1]) == 4


def test_no_empty_part_comes_into_the_python_path(tmp_path: Path) -> None:
    for before in ({}, {"PYTHONPATH": ""}):
        environment = training_environment(before, tmp_path, AgentOptions())
        assert environment["PYTHONPATH"] == str(tmp_path / LINKED)


def test_what_is_injected_is_a_link_in_the_spool(tmp_path: Path) -> None:
    for _ in range(2):
        training_environment({}, tmp_path, AgentOptions())

    (link,) = (tmp_path / LINKED).iterdir()
    assert link.resolve() == (INJECT / "sitecustomize.py").resolve()


def test_options_survive_the_manifest() -> None:
    options = AgentOptions(window_steps=5, nvtx=True, max_steps=100)
    assert options_of({**asdict(options), "no_gpu": "because"}) == options
    assert options_of({}) == AgentOptions()
    assert options_of({"window_steps": "many"}) == AgentOptions()


def test_same_fault_is_said_once(tmp_path: Path) -> None:
    faults = FaultLog(tmp_path / "recorder.log")
    assert faults.report("disk", "full")
    assert not faults.report("disk", "full again")
    assert faults.report("card", "gone")
    lines = (tmp_path / "recorder.log").read_text().splitlines()
    assert [line.split(" ", 2)[2] for line in lines] == ["disk: full", "card: gone"]


def test_fault_that_cannot_be_logged_goes_to_stderr(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    FaultLog(tmp_path / "absent" / "recorder.log").report("disk", "full")
    assert "disk: full" in capsys.readouterr().err


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_git_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def git(*arguments: str) -> str:
        who = ("-c", "user.name=n", "-c", "user.email=e@x")
        command = ("git", "-C", str(tmp_path), *who, *arguments)
        done = subprocess.run(command, capture_output=True, check=True)
        return done.stdout.decode().strip()

    wanted = threading.Event()
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert git_state(tmp_path, wanted) == (None, None)
    git("init", "-q")
    assert git_state(tmp_path, wanted) == (None, None)
    (tmp_path / "f").write_text("1")
    git("add", "f")
    git("commit", "-q", "-m", "m")
    commit = git("rev-parse", "HEAD")
    assert git_state(tmp_path, wanted) == (commit, False)
    (tmp_path / "untracked").write_text("")
    assert git_state(tmp_path, wanted) == (commit, False)
    (tmp_path / "f").write_text("2")
    assert git_state(tmp_path, wanted) == (commit, True)
    monkeypatch.setenv("PATH", "")
    assert git_state(tmp_path, wanted) == (None, None)


def test_diagnosis_is_started_without_a_word_about_it(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    source = (
        "import sys\n"
        "from pathlib import Path\n"
        "from perftui.recorder.launch import start_diagnosis\n"
        "from perftui.run.layout import RunLayout\n"
        "start_diagnosis(RunLayout(Path(sys.argv[1])))\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", source, str(run)], capture_output=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")


def test_only_what_pythonpath_names_moves_to_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    theirs, relative = str(tmp_path / "theirs"), str(tmp_path / "lib")
    monkeypatch.setattr(sys, "path", [theirs, relative, "", "/site"])
    monkeypatch.delenv("PYTHONPATH", raising=False)
    look_there_last()
    assert sys.path == [theirs, relative, "", "/site"]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([theirs, "lib"]))
    look_there_last()
    assert sys.path == ["", "/site", theirs, relative]


@pytest.mark.subprocess
def test_a_run_is_recorded_beside_modules_that_have_our_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_script: Starter
) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    for name in ("typing", "psutil", "msgspec"):
        (theirs / f"{name}.py").write_text("raise SystemExit('the wrong module')\n")
    monkeypatch.setenv("PYTHONPATH", str(theirs))
    run = run_script("import os; print(os.environ['PYTHONPATH'].split(os.pathsep)[1:])")
    manifest = run.wait()
    assert (manifest.status, manifest.exit_code) == (Status.EXITED, 0)
    assert run.output == f"['{theirs}']\r\n"


WORKS = """
import os, sys, threading
from pathlib import Path
from perftui.recorder.sink import FaultLog, Repeating
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


@pytest.mark.subprocess
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has priorities of threads")
@pytest.mark.parametrize(("given", "expected"), [(0, 10), (5, 10), (10, 10), (15, 15)])
def test_work_is_done_at_a_low_priority_and_never_a_higher_one(
    tmp_path: Path, given: int, expected: int
) -> None:
    already = os.getpriority(os.PRIO_PROCESS, 0)
    done = subprocess.run(
        [sys.executable, "-c", WORKS, str(given), str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    assert done.stdout == f"{max(expected, min(given + already, 19))}\nTrue\n"
