"""A recorded script under a shell: suspended, sent to the background, brought back."""

from __future__ import annotations

import os
import pty
import select
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.subprocess

SHELL = """
import os, signal, sys
from pathlib import Path

def to_foreground(group):
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTTOU])
    os.tcsetpgrp(0, group)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)

def wait():
    _, status = os.waitpid(job, os.WUNTRACED)
    to_foreground(os.getpgrp())
    if os.WIFSTOPPED(status):
        print("shell: stopped by", signal.Signals(os.WSTOPSIG(status)).name, flush=True)
    else:
        print("shell: ended with", os.waitstatus_to_exitcode(status), flush=True)
        sys.exit()

job = os.fork()
if job == 0:
    os.setpgid(0, 0)
    to_foreground(os.getpgrp())
    from perftui.recorder.foreground import run_as_command
    from perftui.recorder.launch import Launch
    run_as_command(Launch((sys.executable, "-c", sys.argv[1]), Path.cwd(), Path(sys.argv[2])))
wait()
for line in sys.stdin:
    command = line.strip()
    print("shell:", command, flush=True)
    if command in ("fg", "bg"):
        if command == "fg":
            to_foreground(job)
        os.killpg(job, signal.SIGCONT)
    if command in ("fg", "wait"):
        wait()
"""


class Shell:
    """A shell with one job, the recorded script, on a terminal of its own."""

    def __init__(self, source: str, directory: Path) -> None:
        self.seen = b""
        self.pid, self._file = pty.fork()
        if self.pid == 0:
            os.chdir(directory)
            command = [sys.executable, "-c", SHELL, source, str(directory / "runs")]
            os.execv(command[0], command)  # noqa: S606 - the test's own command

    def read_until(self, text: bytes) -> None:
        while text not in self.seen:
            assert select.select([self._file], [], [], 20)[0], f"no {text!r} after {self.seen!r}"
            self.seen += os.read(self._file, 4096)

    def type(self, keys: bytes) -> None:
        os.write(self._file, keys)

    def end(self) -> None:
        os.waitpid(self.pid, 0)
        os.close(self._file)


WAITING = """
import sys, time
from pathlib import Path
print("on", flush=True)
while not Path("go").exists():
    time.sleep(0.02)
print("gone on", flush=True)
{then}
sys.exit(5)
"""


@pytest.fixture
def go(tmp_path: Path) -> Path:
    """The file that lets the script go on."""
    return tmp_path / "go"


def test_script_that_was_suspended_ends_without_another_key(tmp_path: Path, go: Path) -> None:
    shell = Shell(WAITING.format(then=""), tmp_path)
    shell.read_until(b"on\r\n")
    shell.type(b"\x1a")
    shell.read_until(b"shell: stopped by SIGSTOP")
    shell.type(b"fg\n")
    shell.read_until(b"shell: fg")
    go.touch()
    shell.read_until(b"gone on")
    shell.read_until(b"shell: ended with 5")
    shell.end()


def test_script_goes_on_and_ends_in_the_background(tmp_path: Path, go: Path) -> None:
    shell = Shell(WAITING.format(then=""), tmp_path)
    shell.read_until(b"on\r\n")
    shell.type(b"\x1a")
    shell.read_until(b"shell: stopped by SIGSTOP")
    shell.type(b"bg\n")
    shell.read_until(b"shell: bg")
    go.touch()
    shell.read_until(b"gone on")
    # The keys are the shell's: whoever else read them would be stopped for it.
    shell.type(b"wait\n")
    shell.read_until(b"shell: ended with 5")
    shell.end()


def test_script_brought_back_from_the_background_has_the_keys(tmp_path: Path, go: Path) -> None:
    shell = Shell(WAITING.format(then="print('hello', input('name? '), flush=True)"), tmp_path)
    shell.read_until(b"on\r\n")
    shell.type(b"\x1a")
    shell.read_until(b"shell: stopped by SIGSTOP")
    shell.type(b"bg\n")
    shell.read_until(b"shell: bg")
    go.touch()
    shell.read_until(b"name? ")
    shell.type(b"fg\n")
    shell.read_until(b"shell: fg")
    shell.type(b"you\r")
    shell.read_until(b"hello you")
    shell.read_until(b"shell: ended with 5")
    shell.end()
