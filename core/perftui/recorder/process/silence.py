"""Finds out why a training records nothing: its interpreter keeps the agent out."""

from __future__ import annotations

import math
import os
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil

from perftui.wire.spool import SPOOL_VARIABLE

FIRST_CHECK = 1.0
LONGEST_PAUSE = 600.0
"""Seconds: checks come at 1, 2, 4, 8... after the start, until a training process answers. One asks
the system for a few files of each process of the run."""

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
    """Searches, ever more seldom, for processes below ``pid`` that use torch and cannot report.

    ``report`` is called with the reason, and with None once a training process does report.
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
        """Search if it is time to."""
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
            reason = _reason(process)
            if reason is not None:
                return f"no steps are recorded: process {process.pid} {reason}"
        return None


def _reason(process: psutil.Process) -> str | None:
    try:
        reason = _why_mute(process)
        return reason if reason is not None and _uses_torch(process.pid) else None
    except (psutil.Error, OSError):
        # It has ended, or belongs to somebody else.
        return None


def _why_mute(process: psutil.Process) -> str | None:
    option = blocking_option(process.cmdline())
    if option is not None:
        return f"runs Python with {option}, which disables perftui; start it without"
    environment = process.environ()
    # Programs that write their own title overwrite what is seen of their environment.
    if "PATH" in environment and SPOOL_VARIABLE not in environment:
        return "was started without perftui's environment variables; pass the environment on"
    if process.uids().real != os.getuid():
        return "runs as another user, who cannot write the recording; start perftui as that user"
    return None


def _uses_torch(pid: int) -> bool:
    return "/libtorch" in Path(f"/proc/{pid}/maps").read_text(errors="replace")
