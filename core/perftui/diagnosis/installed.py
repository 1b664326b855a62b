"""Which files came with a package, rather than from the user."""

from __future__ import annotations

from pathlib import PurePath

_DIRECTORIES = frozenset({"site-packages", "dist-packages"})
"""Where pip and Debian's packages install; ``sysconfig`` knows only this interpreter's."""


def is_installed(file: str | PurePath) -> bool:
    """Whether ``file`` lies where packages are installed."""
    return not _DIRECTORIES.isdisjoint(PurePath(file).parts)
