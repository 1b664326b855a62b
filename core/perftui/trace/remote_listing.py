"""The traces of a remote directory, with the ends of each, which say what rank it is of."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from perftui.trace.kineto.source import MAGIC
from perftui.trace.model import TraceError
from perftui.trace.remote import filesystem_of, without_secrets

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

SUFFIXES = (".json", ".gz", ".trace")
"""Names of traces whose rank can be told by their ends; of a database it cannot."""

HEAD = 128 * 1024
TAIL = 64 * 1024
"""Bytes at the ends of each file that are read: the process groups of 300 ranks take 17 KB."""

AT_ONCE = 16
"""Files whose ends are read at once: most of the time is spent waiting for the answer."""

UNREAD = b'{"traceEvents": ['
"""In place of a head that cannot be read: such a trace goes by its name until it is opened."""

_INFO = b'"distributedInfo"'
_CHANGED = ("LastModified", "last_modified", "mtime", "updated", "created")
"""Where file systems tell when a file was changed."""


@dataclass(frozen=True)
class RemoteEnds:
    """A remote trace, and the bytes at its ends."""

    name: PurePosixPath
    """Below the directory that was listed."""
    url: str = field(repr=False)
    size: int
    changed_ns: int
    """Since the epoch; now, where the file system does not tell."""
    head: bytes = field(repr=False)
    tail: bytes = field(repr=False)
    """The last bytes; empty where the head says all, of a compressed file, and if a server gives
    files from their start only."""


def list_traces(url: str, tell: Callable[[int, int], None] | None = None) -> Iterator[RemoteEnds]:
    """What is named like a trace below ``url``, which has no slash at its end; hidden directories
    are left out.

    ``tell`` is called with how many of how many have been read.

    Raises:
        TraceError: nothing there is.
        Exception: as the file system raises.
    """
    fs, root = filesystem_of(url)
    entries = {name: entry for entry in fs.find(root, detail=True).values()
               if (name := _below(root, str(entry["name"]))) is not None}  # fmt: skip
    if PurePosixPath("run.json") in entries:
        raise TraceError(
            f"{without_secrets(url)} is a recorded run: copy it to this machine, and name the copy"
        )
    found = [(name, each) for name, each in sorted(entries.items()) if name.name.endswith(SUFFIXES)]
    if not found:
        raise TraceError(f"{without_secrets(url)} contains no trace (*.json[.gz]), or is not there")
    with ThreadPoolExecutor(AT_ONCE, "perftui-remote") as threads:
        reading = threads.map(lambda one: _ends(fs, url, *one), found)
        for done, ends in enumerate(reading, 1):
            yield ends
            if tell is not None:
                tell(done, len(found))


def _below(root: str, path: str) -> PurePosixPath | None:
    """The place of ``path`` below ``root``; None for hidden ones, and what cannot be below."""
    base = root.rstrip("/") + "/"
    name = PurePosixPath(path[len(base) :]) if path.startswith(base) else None
    if name is None or not name.parts or name.is_absolute() or "\0" in path:
        return None
    return None if any(part.startswith(".") for part in name.parts) else name


def _ends(
    fs: AbstractFileSystem, url: str, name: PurePosixPath, entry: Mapping[str, Any]
) -> RemoteEnds:
    path, changed_ns = str(entry["name"]), _changed_ns(entry)
    try:
        known = entry if entry.get("size") is not None else {**entry, **fs.info(path)}
        with fs.open(path, "rb", cache_type="none") as file:
            head = file.read(HEAD)
            size = int(known.get("size") or len(head))
            plain = size > len(head) and not head.startswith(MAGIC)
            tail = _tail(file, size) if plain and _INFO not in head else b""
    except Exception:  # noqa: BLE001 - each file system has errors of its own, told on opening it
        head, tail, size = UNREAD, b"", len(UNREAD)
    return RemoteEnds(name, f"{url}/{name}", size, changed_ns, head, tail)


def _tail(file: Any, size: int) -> bytes:
    try:
        file.seek(max(HEAD, size - TAIL))
        return bytes(file.read(TAIL))
    except ValueError:
        # Servers without range requests.
        return b""


def _changed_ns(entry: Mapping[str, Any]) -> int:
    value = next((entry[key] for key in _CHANGED if entry.get(key) is not None), None)
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value.replace("Z", "+00:00"))
        except ValueError:
            value = None
    if isinstance(value, datetime):
        return int(value.timestamp() * 1e9)
    return int(value * 1e9) if isinstance(value, (int, float)) else time.time_ns()
