"""The training process and its process group."""

from __future__ import annotations

import ctypes
import fcntl
import math
import os
import re
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from perftui.recorder.terminal import Terminal
from perftui.wire.spool import SPOOL_VARIABLE

PR_SET_PDEATHSIG = 1


def ends_with(parent: int) -> Callable[[], None]:
    """A function for a child of ``parent`` to call before its exec: it gets SIGTERM when that dies.

    Whoever kills us with SIGKILL (``timeout -s KILL``, ``subprocess.run(timeout=...)``) means the
    training, which would hold its GPU for ever without any visible output. SIGTERM, since a
    launcher passes it on to its workers, and scripts save their state. Does nothing outside Linux.
    """
    if sys.platform != "linux":
        return lambda: None
    # Loaded here: it is not safe between fork and exec.
    prctl = ctypes.CDLL(None).prctl

    def declare() -> None:
        prctl(PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGTERM), 0, 0, 0)
        if os.getppid() != parent:
            # The parent died before that.
            os.kill(os.getpid(), signal.SIGTERM)

    return declare


class StartError(Exception):
    """The command cannot be started; the message is for the user."""


@contextmanager
def no_start(what: str) -> Iterator[None]:
    """Turn a system error into a ``StartError`` that names ``what`` and the reason."""
    try:
        yield
    except (OSError, termios.error) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        raise StartError(f"{what}: {reason or error}") from error


class Training:
    """A started command. ``shares_group``: it is in our own process group."""

    def __init__(self, process: subprocess.Popen[bytes], shares_group: bool = False) -> None:
        self.pid = process.pid
        self.shares_group = shares_group
        self._process = process

    @property
    def failure(self) -> str:
        """Why the command was not started, if that is only known later; else empty."""
        return ""

    def poll(self) -> int | None:
        """The return code, negative for a signal; None while it runs."""
        return self._process.poll()

    def signal(self, number: int) -> None:
        """Send ``number`` to the command itself; nothing happens once it has ended."""
        self._process.send_signal(number)

    def signal_group(self, number: int) -> None:
        """Send ``number`` to the command and its process group, as a terminal does.

        In our own group, only the command gets it.
        """
        if self.shares_group or self._process.poll() is not None:
            self.signal(number)
        else:
            # The command is not reaped yet, so its group's number cannot be reused.
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


@dataclass(frozen=True)
class Command:
    """What to start, where, and how to reset signals in the child before it begins."""

    arguments: tuple[str, ...]
    cwd: Path
    environment: Mapping[str, str]
    restore: Callable[[], None]
    follow: Callable[[subprocess.Popen[bytes], bool], Training] = Training
    """Makes a training from its process, and from whether it shares our group."""


def start_as_job(command: Command, terminal: Terminal) -> Training:
    """Start ``command`` as the foreground job of ``terminal``, as a shell does.

    We must lead a session without a terminal; it gets ``terminal``. The command may leave processes
    behind that keep the terminal; they are not hung up on when the command ends. Raises StartError
    if the command cannot be started."""
    script_side = terminal.script_side
    _take_terminal(script_side)

    def prepare() -> None:
        os.setpgid(0, 0)
        # A background process that asks is stopped with SIGTTOU, unless it blocks that.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTTOU])
        os.tcsetpgrp(script_side, os.getpgrp())
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        command.restore()

    return _start(command, prepare, script_side, script_side, script_side)


def start_in_session(command: Command, terminal: Terminal, stderr: int | None) -> Training:
    """Start ``command`` as the leader of a new session on ``terminal``.

    ``stderr`` replaces the terminal unless it is None. Raises StartError if the command cannot be
    started."""
    script_side = terminal.script_side

    def prepare() -> None:
        os.setsid()
        _take_terminal(script_side)
        command.restore()

    errors = script_side if stderr is None else stderr
    return _start(command, prepare, script_side, script_side, errors)


def start_beside(command: Command, stdout: int, stderr: int, own_group: bool) -> Training:
    """Start ``command`` in our session with our stdin, in a process group of its own or in ours.

    It gets SIGTERM when we are killed: it has no terminal of ours that would hang up on it. Raises
    StartError if the command cannot be started."""
    end_with_us = ends_with(os.getpid())

    def prepare() -> None:
        if own_group:
            os.setpgid(0, 0)
        end_with_us()
        command.restore()

    return _start(command, prepare, None, stdout, stderr, shares_group=not own_group)


def _start(
    command: Command,
    prepare: Callable[[], None],
    stdin: int | None,
    stdout: int,
    stderr: int,
    shares_group: bool = False,
) -> Training:
    # Between fork and exec only one thread exists; ours are started later.
    try:
        process = subprocess.Popen(
            command.arguments,
            cwd=command.cwd,
            env=dict(command.environment),
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            preexec_fn=prepare,
            # Descriptors that the user opened for the command (``3>file``, ``<(program)``) are
            # passed on; our own do not survive an exec.
            close_fds=False,
        )
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        if not command.cwd.is_dir():
            raise StartError(f"the working directory {command.cwd} does not exist") from error
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise StartError(f"cannot start {command.arguments[0]}: {why}") from error
    return command.follow(process, shares_group)


def _take_terminal(file: int) -> None:
    """Make ``file`` the controlling terminal of this process, a session leader without one."""
    fcntl.ioctl(file, termios.TIOCSCTTY, 0)


FIRST_CHECK = 1.0
LONGEST_PAUSE = 600.0
"""Seconds: checks come at 1, 2, 4, 8... after the start, until a training process reports. One
check reads a few files of the system for each process of the run."""

_TAKE_A_VALUE = "cmWX"
_PYTHON = re.compile(r"(python|pypy)[\d.]*t?d?", re.ASCII)


def blocking_option(command: Sequence[str]) -> str | None:
    """The option of the Python interpreter in ``command`` that keeps the agent out.

    ``-I`` and ``-E`` ignore ``PYTHONPATH``, ``-S`` the ``sitecustomize`` that is found by it.
    """
    if not command or not _PYTHON.fullmatch(Path(command[0]).name):
        return None
    rest = iter(command[1:])
    for word in rest:
        if not word.startswith("-") or word in ("-", "--"):
            return None
        if word.startswith("--"):
            continue
        for at, letter in enumerate(word[1:], 2):
            if letter in "IES":
                return f"-{letter}"
            if letter in _TAKE_A_VALUE:
                if letter in "cm":
                    return None
                if at == len(word):
                    next(rest, None)
                break
    return None


class Silence:
    """Searches, at growing intervals, for processes below ``pid`` that use torch and cannot report.

    ``report`` is called with the reason, and with None once a training process reports.
    """

    def __init__(
        self,
        pid: int,
        report: Callable[[str | None], object],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._pid = pid
        self._report = report
        self._clock = clock
        self._began = clock()
        self._due = self._began + FIRST_CHECK

    def end(self) -> None:
        """A training process reports."""
        self._due = math.inf
        self._report(None)

    def check(self) -> None:
        """Search if it is due."""
        now = self._clock()
        if now < self._due:
            return
        self._due = now + min(max(now - self._began, FIRST_CHECK), LONGEST_PAUSE)
        reason = self._reason()
        if reason is not None:
            self._due = math.inf
            self._report(reason)

    def _reason(self) -> str | None:
        try:
            main = psutil.Process(self._pid)
            processes = [main, *main.children(recursive=True)]
        except psutil.Error:
            return None
        for process in processes:
            # It may have ended, or belong to another user.
            with suppress(psutil.Error, OSError):
                reason = _why_mute(process)
                if reason is not None and _uses_torch(process.pid):
                    return f"no steps are recorded: process {process.pid} {reason}"
        return None


def _why_mute(process: psutil.Process) -> str | None:
    option = blocking_option(process.cmdline())
    if option is not None:
        return f"runs Python with {option}, which disables perftui; start it without"
    environment = process.environ()
    # Programs that set their own title overwrite the visible part of their environment.
    if "PATH" in environment and SPOOL_VARIABLE not in environment:
        return "was started without perftui's environment variables; pass the environment on"
    if process.uids().real != os.getuid():
        return "runs as another user, who cannot write the recording; start perftui as that user"
    return None


def _uses_torch(pid: int) -> bool:
    return "/libtorch" in Path(f"/proc/{pid}/maps").read_text(errors="replace")


_HELPERS = ("from multiprocessing.resource_tracker ", "from multiprocessing.forkserver ")
"""Command lines of Python's own helpers, which end when they notice that the others have."""


def living(spool: Path) -> set[int]:
    """Processes with the environment of the recording in ``spool``, whatever their parents are by
    now. 0.1 ms for each process of this user."""
    pids = set()
    for process in psutil.process_iter():
        # It may have ended, or belong to another user.
        with suppress(psutil.Error, OSError):
            is_of_run = process.environ().get(SPOOL_VARIABLE) == str(spool)
            if is_of_run and not any(word.startswith(_HELPERS) for word in process.cmdline()):
                pids.add(process.pid)
    return pids


def families(parents: Collection[int]) -> set[int]:
    """``parents`` and all their descendants, such as the workers of their data loaders."""
    pids = set(parents)
    for pid in parents:
        with suppress(psutil.Error):
            pids.update(child.pid for child in psutil.Process(pid).children(recursive=True))
    return pids


def left_behind_message(left: Collection[int]) -> str:
    """The message about ``left``; empty if all of them have ended meanwhile."""
    names = [name for pid in sorted(left) if (name := _name(pid))]
    if not names:
        return ""
    if len(names) == 1:
        return f"{names[0]} is still running after the command ended; it is no longer recorded"
    return (
        f"{len(names)} processes are still running after the command ended, {names[0]} and others; "
        "they are no longer recorded"
    )


def _name(pid: int) -> str:
    """``process 812 (python)``; empty once it has ended."""
    with suppress(psutil.Error):
        process = psutil.Process(pid)
        if process.status() != psutil.STATUS_ZOMBIE:
            return f"process {pid} ({process.name()})"
    return ""
