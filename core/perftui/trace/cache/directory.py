"""Where the cache lies: a directory that only its owner can read."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path

VARIABLE = "PERFTUI_CACHE"
_OFF = ("0", "off", "no", "false")
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def cache_directory(environment: Mapping[str, str] | None = None) -> Path | None:
    """``$PERFTUI_CACHE``, or else ``perftui`` in ``$XDG_CACHE_HOME`` or ``~/.cache``; in it
    ``traces``. None where the variable says ``off`` or ``0``, and for a user without a home.
    """
    given = os.environ if environment is None else environment
    chosen = given.get(VARIABLE, "")
    if chosen.lower() in _OFF:
        return None
    if chosen:
        return Path(chosen).absolute() / "traces"
    shared = Path(given.get("XDG_CACHE_HOME", ""))
    if not shared.is_absolute():
        # As the XDG base directory specification asks: a relative path is to be ignored.
        home = given.get("HOME") or os.path.expanduser("~")  # noqa: PTH111 - it never raises
        shared = Path(home) / ".cache"
    return shared / "perftui" / "traces" if shared.is_absolute() else None


def make_private(directory: Path) -> None:
    """Make it and what is missing above it, for its owner only. Raises OSError."""
    for each in (*reversed(directory.parents), directory):
        if not each.exists():
            each.mkdir(mode=0o700, exist_ok=True)


def is_private(directory: Path) -> bool:
    """Whether ``directory`` exists, is ours, and nobody else can put files into it."""
    try:
        status = directory.lstat()
    except OSError:
        return False
    is_ours = stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()
    return is_ours and not status.st_mode & _OTHERS_WRITE
