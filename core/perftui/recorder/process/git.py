"""Which commit a training runs from."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
import time
from dataclasses import dataclass
from pathlib import Path

TIMEOUT = 5.0
"""Seconds for each git call; a status of a huge tree on a network disk may not answer."""

POLL_SECONDS = 0.05
"""Seconds between two checks whether anybody still wants to know."""


@dataclass(frozen=True)
class GitState:
    """``commit`` is None outside a repository, ``dirty`` None where git did not answer."""

    commit: str | None = None
    dirty: bool | None = None


def git_state(cwd: Path, cancelled: threading.Event) -> GitState:
    """The commit checked out around ``cwd``, and whether tracked files differ from it.

    Once ``cancelled`` is set git is ended, and what it has not answered yet is not known.
    """
    git = shutil.which("git")
    if git is None:
        return GitState()
    commit = _ask(git, cwd, cancelled, "rev-parse", "HEAD")
    if not commit:
        return GitState()
    changes = _ask(git, cwd, cancelled, "status", "--porcelain", "--untracked-files=no")
    return GitState(commit, None if changes is None else bool(changes))


def _ask(git: str, cwd: Path, cancelled: threading.Event, *arguments: str) -> str | None:
    try:
        process = subprocess.Popen(
            (git, "-C", str(cwd), *arguments),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            # Without this, status takes the index lock that a commit of the user may want.
            env={**os.environ, "GIT_OPTIONAL_LOCKS": "0"},
        )
    except OSError:
        return None
    with process:
        answer = _answer(process, cancelled)
    return answer.decode(errors="replace").strip() if process.returncode == 0 else None


def _answer(process: subprocess.Popen[bytes], cancelled: threading.Event) -> bytes:
    until = time.monotonic() + TIMEOUT
    while (answer := _answer_so_soon(process)) is None:
        if cancelled.is_set() or time.monotonic() > until:
            process.kill()
            return b""
    return answer


def _answer_so_soon(process: subprocess.Popen[bytes]) -> bytes | None:
    try:
        return process.communicate(timeout=POLL_SECONDS)[0]
    except subprocess.TimeoutExpired:
        return None
