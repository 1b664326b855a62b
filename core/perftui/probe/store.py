"""Measured ceilings as they are kept: a file for each host, card and driver."""

from __future__ import annotations

import hashlib
import socket
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

import msgspec

from perftui.probe.model import SCHEMA, Ceilings
from perftui.run.atomic import replace_file
from perftui.run.versioned import UnreadableError, decode_versioned
from perftui.trace.cache.directory import cache_directory, is_private, make_private

LARGEST = 1 << 16
"""Bytes beyond which a file is none of ours."""


def ceilings_directory() -> Path | None:
    """``ceilings`` beside the cached traces; None where nothing is to be kept there."""
    traces = cache_directory()
    return None if traces is None else traces.with_name("ceilings")


def keep(found: Ceilings) -> Path | None:
    """Keep ``found`` in place of what was measured with the same host, card and driver.

    Returns the file; None where nothing is to be kept, or others can write to the directory.

    Raises:
        OSError: the directory cannot be written.
    """
    directory = ceilings_directory()
    if directory is None:
        return None
    make_private(directory)
    if not is_private(directory):
        return None
    path = directory / f"{_key(found)}.json"
    replace_file(path, msgspec.json.encode(found))
    return path


def ceilings(gpu: str | None = None) -> Ceilings | None:
    """What was measured last on this host, or with ``gpu`` on a card of that name; None where
    nothing was.

    A card of that name in another host counts where this host has none: homes are shared.
    """
    host = socket.gethostname()
    found = [one for one in _kept() if (one.host == host if gpu is None else one.gpu == gpu)]
    return max(found, key=lambda one: (one.host == host, one.measured_ns), default=None)


def ceilings_of(host: str) -> tuple[Ceilings, ...]:
    """All that was measured on that host, the newest first; files are read once for each change of
    their directory."""
    directory = ceilings_directory()
    with suppress(OSError):
        if directory is not None:
            return _of_host(host, str(directory), directory.stat().st_mtime_ns)
    return ()


@lru_cache(maxsize=4)
def _of_host(host: str, _directory: str, _changed: int) -> tuple[Ceilings, ...]:
    found = [one for one in _kept() if one.host == host]
    return tuple(sorted(found, key=lambda one: -one.measured_ns))


def _kept() -> Iterator[Ceilings]:
    directory = ceilings_directory()
    if directory is None or not is_private(directory):
        return
    for path in sorted(directory.glob("*.json")):
        # Damaged, or of a newer version: as if it were not there.
        with suppress(OSError, UnreadableError):
            if path.stat().st_size <= LARGEST:
                yield decode_versioned(path.read_bytes(), Ceilings, SCHEMA, "measured ceilings")


def _key(found: Ceilings) -> str:
    name = "\0".join((found.host, found.gpu or "", found.driver or ""))
    return hashlib.blake2b(name.encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()
