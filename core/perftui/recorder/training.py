"""The training process and its process group."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import termios
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from perftui.recorder.terminal import Terminal

Stream = int | None
"""A descriptor for the script, or None to let it have ours."""


class StartError(Exception):
    """The command cannot be started; the message is for the user."""


class Training:
    """A started command. ``shares_group`` says that it is in our own process group."""

    def __init__(self, process: subprocess.Popen[bytes], shares_group: bool = False) -> None:
        self.pid = process.pid
        self.shares_group = shares_group
        self._process = process

    def poll(self) -> int | None:
        """The return code, negative for a signal; None while it runs."""
        return self._process.poll()

    def signal(self, number: int) -> None:
        """Send ``number`` to the command itself; nothing happens once it has ended."""
        self._process.send_signal(number)

    def signal_group(self, number: int) -> None:
        """Send ``number`` to the command and all that it started in its group, as a terminal does.

        In a group that is ours too, only the command gets it.
        """
        if self.shares_group or self._process.poll() is not None:
            self.signal(number)
        else:
            # The command is not reaped yet, so nobody else can have its group's number.
            os.killpg(self.pid, number)

    def kill_all(self) -> None:
        """Kill the command and all its descendants, also those with a group of their own."""
        try:
            below = psutil.Process(self.pid).children(recursive=True)
        except psutil.Error:
            below = []
        self.signal_group(signal.SIGKILL)
        for process in below:
            with suppress(psutil.Error):
                process.kill()


def start_on_terminal(
    command: Sequence[str],
    cwd: Path,
    environment: Mapping[str, str],
    terminal: Terminal,
    *,
    stdin: Stream = None,
    restore: Callable[[], None],
    own_session: bool,
) -> Training:
    """Start ``command`` on ``terminal``, as the foreground group of it.

    With ``own_session`` the terminal becomes that of a new session, led by the command; else it
    becomes that of our session, which we must lead: the command is then a job in it, as under a
    shell, and may leave processes behind that keep the terminal. ``restore`` puts signals back in
    the child. ``stdin`` takes the place of the terminal for input.

    Raises:
        StartError: the command cannot be started.
    """
    script_side = terminal.script_side
    if not own_session:
        _take_terminal(script_side)

    def prepare() -> None:
        if own_session:
            os.setsid()
            _take_terminal(script_side)
        else:
            os.setpgid(0, 0)
            _to_foreground(script_side)
        restore()

    where = script_side if stdin is None else stdin
    process = _start(command, cwd, environment, where, script_side, script_side, prepare)
    terminal.forget_script_side()
    return Training(process)


def start_on_pipes(
    command: Sequence[str],
    cwd: Path,
    environment: Mapping[str, str],
    *,
    restore: Callable[[], None],
    own_group: bool,
) -> tuple[Training, int, int]:
    """Start ``command`` with our stdin; returns it and what to read its stdout and stderr from.

    Raises:
        StartError: the command cannot be started.
    """
    out, script_out = os.pipe()
    error, script_error = os.pipe()

    def prepare() -> None:
        if own_group:
            os.setpgid(0, 0)
        restore()

    try:
        process = _start(command, cwd, environment, None, script_out, script_error, prepare)
    finally:
        os.close(script_out)
        os.close(script_error)
    return Training(process, shares_group=not own_group), out, error


def _start(
    command: Sequence[str],
    cwd: Path,
    environment: Mapping[str, str],
    stdin: Stream,
    stdout: Stream,
    stderr: Stream,
    prepare: Callable[[], None],
) -> subprocess.Popen[bytes]:
    # Between fork and exec only one thread exists; ours are started later.
    try:
        return subprocess.Popen(
            list(command),
            cwd=cwd,
            env=dict(environment),
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            preexec_fn=prepare,
        )
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise StartError(_reason(command, cwd, error)) from error


def _reason(command: Sequence[str], cwd: Path, error: Exception) -> str:
    if not cwd.is_dir():
        return f"the working directory {cwd} does not exist"
    why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return f"cannot start {command[0]}: {why}"


def _take_terminal(file: int) -> None:
    """Make ``file`` the controlling terminal of this process, a session leader without one."""
    fcntl.ioctl(file, termios.TIOCSCTTY, 0)


def _to_foreground(file: int) -> None:
    """Make our group the one that reads ``file`` and gets its signals.

    A background process is stopped with SIGTTOU for asking, unless it blocks that.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTTOU])
    os.tcsetpgrp(file, os.getpgrp())
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
