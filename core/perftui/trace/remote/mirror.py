"""Local stand-ins of remote traces.

A stand-in is a private file of the size of the remote one that holds its ends and takes no room in
between. What finds the ranks of a directory reads no more than that, and works on it as on any
file. What reads a trace asks for the whole of it first: ``fill`` puts it in place for as long as
this process lives, ``at_hand`` copies it for a moment.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from perftui.trace.callbacks import Cancelled, Progress
from perftui.trace.errors import TraceError
from perftui.trace.remote.url import without_secrets


@dataclass(frozen=True)
class RemoteFile:
    """A remote trace; it can be sent to another process or machine, which then reads it there."""

    url: str = field(repr=False)
    stand_in: Path
    """Its local name, on the machine that listed it."""

    @property
    def name(self) -> str:
        """The URL as it may be shown."""
        return without_secrets(self.url)


_FILES = (".json", ".gz", ".trace", ".sqlite", ".db", ".nsys-rep", ".pickle")
"""Names of files: whether a web server has a directory there costs a request or more."""

_roots: dict[Path, str] = {}
"""Directories of stand-ins, and the URL of each as it may be shown."""

_files: dict[Path, RemoteFile] = {}
_filled: set[Path] = set()
_filling: dict[Path, threading.Lock] = {}


def mirror(url: str, tell: Callable[[int, int], None] | None = None) -> Path:
    """The stand-in of the trace at ``url``, or a directory of those of all traces below it. They
    are gone when this process has ended.

    ``tell`` is called with of how many files of a directory the ends have been read.

    Raises:
        TraceError: it cannot be read, or holds no trace; the message says what to do.
    """
    from perftui.trace.remote.filesystem import errors_of, filesystem_of

    folder = Path(tempfile.mkdtemp(prefix="perftui-")).resolve()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    with errors_of(url):
        fs, path = filesystem_of(url)
        plain = path.split("?")[0]
        if url.endswith("/") or (not plain.endswith(_FILES) and fs.isdir(path)):
            return _directory(url.rstrip("/"), folder, tell)
    _roots[folder] = without_secrets(url).rsplit("/", 1)[0]
    name = plain.rsplit("/", 1)[-1]
    if name in ("", ".", ".."):
        raise TraceError(f"{without_secrets(url)} names no file")
    stand_in = folder / name
    stand_in.touch()
    _files[stand_in] = RemoteFile(url, stand_in)
    return stand_in


def _directory(url: str, folder: Path, tell: Callable[[int, int], None] | None) -> Path:
    from perftui.trace.remote.listing import list_traces

    root = folder / (url.rsplit("/", 1)[-1] or "traces")
    _roots[root] = without_secrets(url)
    for each in list_traces(url, tell):
        stand_in = root / each.name
        stand_in.parent.mkdir(parents=True, exist_ok=True)
        with stand_in.open("xb") as file:
            file.write(each.head)
            file.truncate(each.size)
            file.seek(each.size - len(each.tail))
            file.write(each.tail)
        os.utime(stand_in, ns=(each.changed_ns, each.changed_ns))
        _files[stand_in] = RemoteFile(each.url, stand_in)
    return root


def remote_of(path: Path) -> RemoteFile | None:
    """What ``path`` stands in for; None for a file of this machine, and once it has been filled."""
    return None if path in _filled else _files.get(path)


def fill(path: Path, progress: Progress | None = None, cancelled: Cancelled | None = None) -> bool:
    """Put the whole of what ``path`` stands in for in its place; whether it is a remote file.

    Raises:
        TraceError: it cannot be read.
        LoadCancelled: ``cancelled`` returned true.
    """
    remote = _files.get(path)
    if remote is None:
        return False
    with _filling.setdefault(path, threading.Lock()):
        if path not in _filled:
            from perftui.trace.remote.fetch import fetch

            part = path.with_name(f"{path.name}.part")
            fetch(remote.url, part, progress, cancelled)
            part.replace(path)
            _filled.add(path)
    return True


@contextmanager
def at_hand(
    place: Path | RemoteFile, cancelled: Cancelled | None = None, directory: Path | None = None
) -> Iterator[Path]:
    """A file with the whole of the trace at ``place``; that of a remote one is deleted afterwards.

    It is copied to ``directory``, or beside the stand-in, whose process deletes what is left there,
    or to the usual place of temporary files.

    Raises:
        TraceError: it cannot be read.
        LoadCancelled: ``cancelled`` returned true.
    """
    if isinstance(place, Path):
        yield place
        return
    from perftui.trace.remote.fetch import fetch

    beside = place.stand_in.parent
    chosen = directory or (beside if beside.is_dir() else None)
    with tempfile.TemporaryDirectory(prefix="perftui-", dir=chosen) as folder:
        copy = Path(folder, place.stand_in.name)
        fetch(place.url, copy, cancelled=cancelled)
        try:
            yield copy
        except TraceError as error:
            raise TraceError(str(error).replace(str(copy), place.name)) from error


def named(text: str) -> str:
    """``text`` with URLs in place of stand-ins, as they may be shown."""
    for root, url in _roots.items():
        text = text.replace(str(root), url)
    return text
