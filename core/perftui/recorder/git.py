"""Which commit a training runs from."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

TIMEOUT = 5.0
"""Seconds for each git call; a status of a huge tree on a network disk may not answer."""


@dataclass(frozen=True)
class GitState:
    """``commit`` is None outside a repository, ``dirty`` None where git did not answer."""

    commit: str | None = None
    dirty: bool | None = None


def git_state(cwd: Path) -> GitState:
    """The commit checked out around ``cwd``, and whether tracked files differ from it."""
    git = shutil.which("git")
    if git is None:
        return GitState()
    commit = _ask(git, cwd, "rev-parse", "HEAD")
    if not commit:
        return GitState()
    changes = _ask(git, cwd, "status", "--porcelain", "--untracked-files=no")
    return GitState(commit, None if changes is None else bool(changes))


def _ask(git: str, cwd: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            (git, "-C", str(cwd), *arguments),
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=TIMEOUT,
            # Without this, status takes the index lock that a commit of the user may want.
            env={**os.environ, "GIT_OPTIONAL_LOCKS": "0"},
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.decode(errors="replace").strip() if done.returncode == 0 else None
