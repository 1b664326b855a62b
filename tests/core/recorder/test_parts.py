"""Small parts of the recorder by themselves."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from perftui.agent.recording.output import create_ring
from perftui.recorder.drain import NOTES_LOST, SpoolDrain
from perftui.recorder.environment import INJECT, LINKED, git_state, options_of, training_environment
from perftui.recorder.faults import FaultLog
from perftui.recorder.launch import new_run_id
from perftui.recorder.spool import Note, NotesTail, SpoolDirectory
from perftui.recorder.supervise import INTERRUPT_GRACE, TERMINATE_GRACE, Stopper
from perftui.recorder.windows import SpoolFileError, keep_window
from perftui.run.journal import JournalReader
from perftui.run.layout import RankLayout, RunLayout
from perftui.wire.spool import AgentOptions, Spool


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


@pytest.mark.parametrize(("before", "after"), [({}, ""), ({"PYTHONPATH": ""}, "")])
def test_no_empty_part_comes_into_the_python_path(
    before: dict[str, str], after: str, tmp_path: Path
) -> None:
    environment = training_environment(before, tmp_path, AgentOptions())
    assert environment["PYTHONPATH"] == str(tmp_path / LINKED) + after


def test_what_is_injected_is_a_link_in_the_spool(tmp_path: Path) -> None:
    for _ in range(2):
        training_environment({}, tmp_path, AgentOptions())

    (link,) = (tmp_path / LINKED).iterdir()
    assert link.resolve() == (INJECT / "sitecustomize.py").resolve()


def test_options_survive_the_manifest() -> None:
    options = AgentOptions(window_steps=5, nvtx=True, max_steps=100)
    assert options_of({**options.as_profile(), "no_gpu": "because"}) == options
    assert options_of({}) == AgentOptions()
    assert options_of({"window_steps": "many"}) == AgentOptions()


def test_notes_wait_for_the_end_of_their_line(tmp_path: Path) -> None:
    path = tmp_path / "notes"
    path.write_bytes(b'{"time": 1, "kind": "a"}\n{"time": 2, "ki')
    tail = NotesTail(path)
    assert tail.poll() == [Note(1, "a")]
    assert tail.poll() == []
    with path.open("ab") as file:
        file.write(b'nd": "b", "step": 4, "data": {"x": [1]}}\nnonsense\n[]\n\xff\n')
    assert tail.poll() == [Note(2, "b", 0, 4, {"x": [1]})]
    assert tail.damaged == 3


def test_notes_that_were_lost_are_said(tmp_path: Path) -> None:
    spool, layout = Spool(tmp_path / "spool"), RunLayout(tmp_path / "run")
    spool.root.mkdir()
    layout.root.mkdir()
    spool.notes(7).write_bytes(b'nonsense\n{"time": 1, "kind": "error"}\n')
    drain = SpoolDrain(spool, layout, FaultLog(layout.recorder_log), [].append)
    drain.finish()
    rows = JournalReader(layout.rank(0).events).poll()
    assert [row[1] for row in rows] == ["error", "warning"]
    assert rows[1][4] == {"message": "1 of the agent's notes could not be read"}


def test_an_agent_that_cannot_write_its_notes_is_said_to(tmp_path: Path) -> None:
    spool, layout = Spool(tmp_path / "spool"), RunLayout(tmp_path / "run")
    spool.root.mkdir()
    layout.root.mkdir()
    facts = {"pid": os.getpid(), "rank": 0, "world_size": 1}
    writer = create_ring(spool.root / f"ring-{os.getpid()}", facts, 8)
    drain = SpoolDrain(spool, layout, FaultLog(layout.recorder_log), [].append)
    drain.poll()
    writer.lose_notes(2)
    drain.poll()
    drain.finish()
    rows = JournalReader(layout.rank(0).events).poll()
    assert [(row[1], row[4]) for row in rows] == [("warning", {"message": NOTES_LOST})]


def _window(spool: Spool, name: object, **data: object) -> Note:
    return Note(1, "window", 0, 9, {"file": name, **data})


def test_window_is_taken_from_the_spool_only(tmp_path: Path) -> None:
    spool, rank = Spool(tmp_path / "spool"), RankLayout(tmp_path / "rank-0")
    spool.root.mkdir()
    secret = tmp_path / "secret"
    secret.write_text("private")
    (spool.root / "link").symlink_to(secret)
    for name in (str(secret), "../secret", "link", "absent", "", None, 7, "."):
        with pytest.raises(SpoolFileError, match="not there"):
            keep_window(spool, _window(spool, name), rank)
    assert secret.read_text() == "private"


def test_window_that_does_not_fit_leaves_nothing_of_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool, rank = Spool(tmp_path / "spool"), RankLayout(tmp_path / "rank-0")
    spool.root.mkdir()
    (spool.root / "w").write_bytes(bytes(100_000))

    def fill_up(source: Path, target: Path) -> None:
        target.write_bytes(source.read_bytes()[:1000])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(shutil, "copyfile", fill_up)
    with pytest.raises(SpoolFileError, match="No space left"):
        keep_window(spool, _window(spool, "w", first_step=5), rank)
    assert list(rank.windows.iterdir()) == []


def test_windows_of_one_step_do_not_replace_each_other(tmp_path: Path) -> None:
    spool, rank = Spool(tmp_path / "spool"), RankLayout(tmp_path / "rank-0")
    spool.root.mkdir()
    for number in range(3):
        (spool.root / f"w{number}").write_text(str(number))
        keep_window(spool, _window(spool, f"w{number}", first_step=5), rank)
    (spool.root / "w").write_text("by step of the note")
    keep_window(spool, _window(spool, "w"), rank)
    assert [path.read_text() for path in rank.window_files()] == [
        *("1", "2", "0"),
        "by step of the note",
    ]
    assert sorted(path.name for path in rank.windows.iterdir()) == [
        "5.2.pt.trace.json",
        "5.3.pt.trace.json",
        "5.pt.trace.json",
        "9.pt.trace.json",
    ]
    assert list(spool.root.iterdir()) == []


def test_spool_counts_captures_and_goes(tmp_path: Path) -> None:
    directory = SpoolDirectory(tmp_path)
    spool = directory.spool
    assert spool.root.stat().st_mode & 0o777 == 0o700
    for _ in range(258):
        directory.control.request()
    assert spool.control.read_bytes() == (258).to_bytes(8, "little") + bytes(56)
    other = SpoolDirectory(tmp_path)
    assert spool.root.exists()
    other.remove()
    directory.remove()
    assert list(tmp_path.iterdir()) == []


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
        "from perftui.recorder.environment import start_diagnosis\n"
        "from perftui.run.layout import RunLayout\n"
        "start_diagnosis(RunLayout(Path(sys.argv[1])))\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", source, str(run)], capture_output=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")
