"""The command in a real terminal: it starts, it leaves, and the training never notices."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import sys
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from perftui.run.layout import RunLayout
from perftui.run.manifest import Manifest, Status, read_manifest

pytestmark = pytest.mark.subprocess

PATIENCE = 30.0
SCRIPT = """\
import sys, time
for second in range(int(sys.argv[1])):
    print("tick", second, flush=True)
    time.sleep(0.1)
print("finished")
sys.exit(5)
"""


BROKEN = """\
import sys
from perftui_tui.app import PerftuiApp
from perftui_tui.cli import main

def broken(app):
    raise ZeroDivisionError("a bug of ours")

PerftuiApp.action_help = broken
sys.exit(main(sys.argv[1:]))
"""


class Terminal:
    """A pty with a command in it, and all it has written."""

    def __init__(self, command: list[str], cwd: Path) -> None:
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            os.chdir(cwd)
            os.environ.update(TERM="xterm-256color", TEXTUAL_ANIMATIONS="none")
            os.execv(command[0], command)  # noqa: S606 - the command under test
        size = struct.pack("HHHH", 40, 120, 0, 0)
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, size)
        self.written = b""
        self.code: int | None = None

    def read(self, seconds: float) -> None:
        """Take in what comes within ``seconds``; notice the end."""
        ready, _, _ = select.select([self.master], [], [], seconds)
        if ready:
            try:
                self.written += os.read(self.master, 65536)
            except OSError:
                time.sleep(seconds)
        if self.code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.code = os.waitstatus_to_exitcode(status)

    def until(self, condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < deadline, self.written[-3000:].decode(errors="replace")
            self.read(0.05)

    def press(self, keys: str) -> None:
        os.write(self.master, keys.encode())

    def close(self) -> None:
        if self.code is None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.master)


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Callable[..., Terminal]]:
    (tmp_path / "job.py").write_text(SCRIPT)
    opened: list[Terminal] = []

    def open_terminal(seconds: str, *how: str) -> Terminal:
        command = [sys.executable, *(how or ("-m", "perftui_tui")), "job.py", seconds]
        opened.append(Terminal(command, tmp_path))
        return opened[-1]

    yield open_terminal
    for one in opened:
        one.close()


def manifest_of(tmp_path: Path) -> Manifest:
    (root,) = (tmp_path / ".perftui" / "runs").iterdir()
    return read_manifest(RunLayout(root).manifest)


def output_of(tmp_path: Path) -> bytes:
    (root,) = (tmp_path / ".perftui" / "runs").iterdir()
    return RunLayout(root).output.read_bytes()


def test_it_shows_the_run_and_ends_with_the_scripts_code(
    tmp_path: Path, terminal: Callable[..., Terminal]
) -> None:
    shown = terminal("3")
    shown.until(lambda: b"exit code 5" in shown.written)
    shown.press("q")
    shown.until(lambda: shown.code is not None)
    shown.read(0.2)
    assert shown.code == 5
    last = shown.written[shown.written.rindex(b"\x1b[?1049l") :].decode()
    assert "job.py ended with exit code 5" in last
    assert "| finished" in last
    assert "perftui replay" in last


def test_left_running_it_exits_0_and_the_script_goes_on(
    tmp_path: Path, terminal: Callable[..., Terminal]
) -> None:
    shown = terminal("60")
    shown.until(lambda: b"tick" in shown.written)
    shown.press("q")
    shown.until(lambda: b"still runs" in shown.written)
    shown.press("l")
    shown.until(lambda: shown.code is not None)
    assert shown.code == 0
    assert manifest_of(tmp_path).status is Status.RUNNING
    wait_for_end(tmp_path)
    assert output_of(tmp_path).endswith(b"finished\r\n")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGHUP])
def test_the_script_outlives_the_app(
    tmp_path: Path, terminal: Callable[..., Terminal], number: signal.Signals
) -> None:
    shown = terminal("40")
    shown.until(lambda: b"tick" in shown.written)
    os.kill(shown.pid, number)
    shown.until(lambda: shown.code is not None)
    assert wait_for_end(tmp_path).exit_code == 5
    assert output_of(tmp_path).count(b"tick") == 40


def test_stopping_gives_the_scripts_code(tmp_path: Path, terminal: Callable[..., Terminal]) -> None:
    shown = terminal("600")
    shown.until(lambda: b"tick" in shown.written)
    shown.press("q")
    shown.until(lambda: b"stop the training" in shown.written)
    shown.press("s")
    shown.until(lambda: shown.code is not None)
    assert shown.code == 130
    assert b"KeyboardInterrupt" in output_of(tmp_path)


def test_a_failure_of_the_app_is_told_apart_and_costs_the_training_nothing(
    tmp_path: Path, terminal: Callable[..., Terminal]
) -> None:
    shown = terminal("40", "-c", BROKEN)
    shown.until(lambda: b"tick" in shown.written)
    shown.press("?")
    shown.until(lambda: shown.code is not None)
    shown.read(0.2)
    assert shown.code == 70
    last = shown.written[shown.written.rindex(b"\x1b[?1049l") :].decode()
    assert "ZeroDivisionError: a bug of ours" in last
    assert "job.py still runs" in last
    assert "perftui replay" in last
    assert len(last.splitlines()) < 30
    assert wait_for_end(tmp_path).exit_code == 5


def wait_for_end(tmp_path: Path) -> Manifest:
    deadline = time.monotonic() + PATIENCE
    while not (manifest := manifest_of(tmp_path)).status.is_over:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    return manifest
