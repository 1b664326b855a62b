"""Texts that are known to be private."""

from __future__ import annotations

from dataclasses import dataclass

from perftui.format import middle
from perftui.trace.text import printable

_SHOWN_CELLS = 28
"""Facts cut names of programs to so many cells."""


@dataclass(frozen=True)
class Known:
    """Texts that are replaced wherever they occur, each once."""

    users: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    homes: tuple[str, ...] = ()
    projects: tuple[str, ...] = ()
    """Directories that paths are given relative to."""
    paths: tuple[str, ...] = ()
    """Others that occur as whole texts: blanks in them show nobody where they end."""
    programs: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    """Secrets of the command line."""
    uuids: tuple[str, ...] = ()


def shown_program(name: str) -> str:
    """The name of a program as facts have it."""
    return middle(printable(name), _SHOWN_CELLS)
