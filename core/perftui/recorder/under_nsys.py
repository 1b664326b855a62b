"""Runs a command below nsys as if nsys were not there; started by its path, standard library only.

nsys takes the output of its command, ends with a code of its own, and may run the command in a
session of its own, where no key arrives. So there is a process of ours on either side of it. The
outer one (``lead``) takes the place of the command: it holds the streams, and passes on the signals
that a terminal sends. The inner one (``run``) gives the command those streams, waits for it, and
writes down how it ended. Both write to the directory in their first argument.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

STREAMS, STARTED, ENDED = "streams.json", "started.json", "ended.json"
"""Where the streams are, the command's process, and how it ended (negative for a signal)."""

HANDED_ON = (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP, signal.SIGTSTP)

POLL = 0.1
"""Seconds between two checks at a command whose nsys is gone."""


def lead(directory: Path, log: str, nsys: list[str]) -> int:
    """Run ``nsys``, whose messages go to ``log``; returns its exit code."""
    streams = [fcntl.fcntl(number, fcntl.F_DUPFD, 64) for number in range(3)]
    saved = [[file, *_identity(file)] for file in streams]
    _write(directory / STREAMS, {"pid": os.getpid(), "group": os.getpgrp(), "streams": saved})
    awaited = {*HANDED_ON, signal.SIGCHLD}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, awaited)
    pid = os.fork()
    if not pid:
        _become_nsys(log, nsys, before)
    code = None
    while code is None:
        number = signal.sigwait(awaited)
        if number == signal.SIGCHLD:
            code = _ended(pid)
        else:
            _hand_on(directory, number, pid)
    # When the leader of a session ends, everything on its terminal is hung up on.
    while _lives(directory):
        time.sleep(POLL)
    return code


def run(directory: Path, command: list[str]) -> int:
    """Run ``command`` to its end; returns its exit code, 128 + n where signal n killed it."""
    try:
        _restore(directory)
    except OSError as error:
        _write(directory / ENDED, {"error": f"its streams cannot be reached under nsys: {error}"})
        return 2
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    pid = os.fork()
    if not pid:
        try:
            _exec(command, before)
        except OSError as error:
            _write(directory / ENDED, {"error": f"cannot start {command[0]}: {error.strerror}"})
        finally:
            os._exit(127)
    _write(directory / STARTED, {"pid": pid})
    # Signals to the group are for the command; we wait for its reaction.
    for number in HANDED_ON:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if not (directory / ENDED).exists():
        _write(directory / ENDED, {"returncode": code})
    return 128 - code if code < 0 else code


def _become_nsys(log: str, nsys: list[str], mask: set[Any]) -> None:
    """Run nsys in a group of its own: keys of a terminal must not reach it."""
    try:
        os.setpgid(0, 0)
        nothing = os.open(os.devnull, os.O_RDONLY)
        output = os.open(log, os.O_WRONLY | os.O_APPEND)
        for number, file in enumerate((nothing, output, output)):
            os.dup2(file, number)
        _exec(nsys, mask)
    finally:
        os._exit(127)


def _exec(command: list[str], mask: set[Any]) -> None:
    """Replace this process; undoes Python's changes of signals."""
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    os.execvp(command[0], command)  # noqa: S606 - a shell would be one process more


def _restore(directory: Path) -> None:
    """Restore the streams, reopened from ``lead`` where nsys passed none on, and its group in the
    session, unless nsys has begun another."""
    state = json.loads((directory / STREAMS).read_text())
    with suppress(OSError):
        os.setpgid(0, state["group"])
    for number, (saved, *identity) in enumerate(state["streams"]):
        if _identity(saved) == identity:
            os.dup2(saved, number)
            os.close(saved)
            continue
        flags = os.O_WRONLY | os.O_APPEND if number else os.O_RDONLY
        reopened = os.open(f"/proc/{state['pid']}/fd/{saved}", flags | os.O_NOCTTY)
        os.dup2(reopened, number)
        os.close(reopened)


def _hand_on(directory: Path, number: int, nsys: int) -> None:
    """Pass a signal of ours to the command, unless our whole group got it."""
    pid = _command(directory)
    with suppress(OSError):
        if pid is None:
            os.kill(nsys, number)
        elif os.getpgid(pid) != os.getpgrp():
            os.killpg(os.getpgid(pid), number)


def _command(directory: Path) -> int | None:
    try:
        pid: int = json.loads((directory / STARTED).read_text())["pid"]
    except OSError:
        return None
    return pid


def _lives(directory: Path) -> bool:
    pid = _command(directory)
    with suppress(OSError):
        if pid is not None and not (directory / ENDED).exists():
            os.kill(pid, 0)
            return True
    return False


def _ended(pid: int) -> int | None:
    ended, status = os.waitpid(pid, os.WNOHANG)
    if not ended:
        return None
    code = os.waitstatus_to_exitcode(status)
    return 128 - code if code < 0 else code


def _identity(file: int) -> list[int]:
    try:
        status = os.fstat(file)
    except OSError:
        return []
    return [status.st_dev, status.st_ino]


def _write(path: Path, content: object) -> None:
    new = path.with_suffix(".new")
    new.write_text(json.dumps(content))
    new.replace(path)


if __name__ == "__main__":
    role, place, *words = sys.argv[1:]
    sys.exit(run(Path(place), words) if role == "run" else lead(Path(place), words[0], words[1:]))
