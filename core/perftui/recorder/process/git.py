"""Which commit a training runs from."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
import time
from pathlib import Path

TIMEOUT = 5.0
"""Seconds for each git call; a status of a huge tree on a network disk may not answer."""

POLL_SECONDS = 0.05
"""Seconds between two checks whether anybody still wants to know."""


def git_state(cwd: Path, cancelled: threading.Event) -> tuple[str | None, bool | None]:
    """The commit checked out around ``cwd``, and whether tracked files differ from it.

    The commit is None outside a repository, the other where git did not answer. Once ``cancelled``
    is set git is ended, and what it has not answered yet is not known.
    """
    git = shutil.which("git")
    commit = _ask(git, cwd, cancelled, "rev-parse", "HEAD") if git else None
    if git is None or not commit:
        return None, None
    changes = _ask(git, cwd, cancelled, "status", "--porcelain", "--untracked-files=no")
    return commit, None if changes is None else bool(changes)


def _ask(git: str, cwd: Path, cancelled: threading.Event, *arguments: str) -> str | None:
    until = time.monotonic() + TIMEOUT
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
    while (answer := _answer(process)) is None:
        if cancelled.is_set() or time.monotonic() > until:
            process.kill()
    return answer.decode(errors="replace").strip() if process.returncode == 0 else None


def _answer(process: subprocess.Popen[bytes]) -> bytes | None:
    try:
        return process.communicate(timeout=POLL_SECONDS)[0]
    except subprocess.TimeoutExpired:
        return None
