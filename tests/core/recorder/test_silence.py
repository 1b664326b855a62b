"""A training that cannot be recorded is said to be so, instead of an empty run."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perftui.facts.notes import problems
from perftui.recorder import training
from perftui.recorder.training import Silence, blocking_option
from perftui.run.reader import RunReader
from perftui.wire.spool import SPOOL_VARIABLE


@pytest.mark.parametrize(
    ("command", "option"),
    [
        (["python", "-I", "train.py"], "-I"),
        (["/usr/bin/python3.12", "-uE", "-m", "train"], "-E"),
        (["python3", "-X", "dev", "-W", "error", "-S", "train.py"], "-S"),
        (["python3.13t", "-Xdev", "-BI", "-c", "pass"], "-I"),
        (["python", "train.py", "-I"], None),
        (["python", "-m", "train", "-S"], None),
        (["python", "-c", "pass", "-E"], None),
        (["python", "-Werror:In", "train.py"], None),
        (["python", "-X", "-I", "train.py"], None),
        (["python", "--check-hash-based-pycs", "-s", "train.py"], None),
        (["python", "-", "-I"], None),
        (["python"], None),
        (["bash", "-E", "run.sh"], None),
        ([], None),
    ],
)
def test_options_that_keep_the_agent_out(command: list[str], option: str | None) -> None:
    assert blocking_option(command) == option


class Watched(Silence):
    """Process ``pid``, and what is said of it by a clock of our own."""

    def __init__(self, pid: int) -> None:
        self.now, self.said = 100.0, list[str | None]()
        super().__init__(pid, self.said.append, lambda: self.now)

    def look(self, later: float = 1.0) -> list[str | None]:
        """What has been said once it has been searched ``later``."""
        self.now += later
        self.check()
        return self.said


@pytest.fixture
def start() -> Iterator[Any]:
    """Starts Python with options and environment, and gives its process."""
    started: list[subprocess.Popen[bytes]] = []

    def python(*options: str, user: int | None = None, **environment: str) -> int:
        # The interpreter itself may be where nobody else can run it.
        change = "" if user is None else f"import os; os.setuid({user}); "
        code = f"{change}import sys; print(flush=True); sys.stdin.read()"
        started.append(
            subprocess.Popen(
                [sys.executable, *options, "-c", code],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**os.environ, **environment},
            )
        )
        stdout = started[-1].stdout
        stdout.readline()
        return started[-1].pid

    yield python
    for process in started:
        process.kill()
        process.communicate()


@pytest.mark.skipif(os.getuid() != 0, reason="only root may start a process as somebody else")
def test_a_training_of_another_user_is_said_to_be_one(
    start: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training, "_uses_torch", lambda _: True)
    (reason,) = Watched(start(user=65534, **{SPOOL_VARIABLE: "/nowhere"})).look()
    assert "runs as another user" in str(reason)


def test_it_is_said_once_and_taken_back_when_a_process_reports(
    start: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training, "_uses_torch", lambda _: True)
    pid = start("-I")
    watched = Watched(pid)
    assert watched.look(0.0) == []
    for later in (1.0, 100.0, 100.0):
        (reason,) = watched.look(later)
    assert f"process {pid} runs Python with -I" in str(reason)
    watched.end()
    watched.look()
    assert watched.look() == [reason, None]


def test_looks_grow_seldom_and_find_nothing_in_a_process_that_may_still_report(
    start: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    monkeypatch.setattr(training, "_why_mute", lambda process: asked.append(process.pid))
    watched = Watched(start())
    assert not any(watched.look() for _ in range(4000))
    assert 10 <= len(asked) <= 18


def test_a_process_without_our_environment_is_named(
    start: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training, "_uses_torch", lambda _: True)
    for environment, words in (({}, "without perftui's environment"), ({SPOOL_VARIABLE: "/s"}, "")):
        said = Watched(start(**environment)).look()
        assert [words in str(reason) for reason in said] == [True] * bool(words)


def test_a_process_without_torch_or_that_has_ended_says_nothing(start: Any) -> None:
    ended = subprocess.Popen([sys.executable, "-I", "-c", "pass"])
    ended.wait()
    assert Watched(start("-I")).look() == Watched(ended.pid).look() == []


MAPPED = """\
import mmap, sys, time
with open("libtorch_stand_in.so", "w+b") as file:
    file.write(bytes(4096))
    file.flush()
    kept = mmap.mmap(file.fileno(), 4096)
    sys.stdin.read()
    while True:
        time.sleep(1)
"""


@pytest.mark.slow
@pytest.mark.subprocess
def test_a_run_of_an_isolated_interpreter_says_why_it_is_empty(
    run_script: Any, tmp_path: Path
) -> None:
    from perftui.recorder.launch import Launch

    command = (sys.executable, "-I", str(run_script.script(MAPPED)))
    run = run_script.start(Launch(command, tmp_path, tmp_path / "runs"))
    run_script.wait_for(lambda: run.manifest.notes, "the reason")
    (said,) = problems(RunReader(run.root).poll())
    assert "runs Python with -I" in said
