"""Files below ``/proc``, ``/sys`` and ``/dev``, or below a root that stands for them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

ROOT = Path("/")

SYS_PTRACE, SYS_ADMIN, PERFMON = 19, 21, 38
"""Bits of the capabilities in ``/proc/self/status``: capability.h of Linux."""


def read(root: Path, name: str) -> str | None:
    """The text of ``root/name`` without white space around it; None where it cannot be read."""
    try:
        return (root / name).read_text(errors="replace").strip()
    except OSError:
        return None


def capabilities(root: Path) -> int | None:
    """The effective capabilities of this process as bits; None where they are not reported."""
    for line in (read(root, "proc/self/status") or "").splitlines():
        if line.startswith("CapEff:"):
            try:
                return int(line.removeprefix("CapEff:"), 16)
            except ValueError:
                return None
    return None


def has_capability(root: Path, bit: int) -> bool:
    """Whether this process is known to have it."""
    return bool((capabilities(root) or 0) >> bit & 1)


def processes(root: Path) -> Iterator[tuple[int, str]]:
    """Number and short name (15 characters at most) of each process that can be seen."""
    for path in sorted((root / "proc").glob("[0-9]*")):
        name = read(path, "comm")
        if name and path.name.isdecimal():
            yield int(path.name), name
