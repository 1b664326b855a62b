"""Traces named by a URL: display without secrets, listing, and copies."""

from __future__ import annotations

import atexit
import os
import re
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from perftui.trace.model import Cancelled, LoadCancelled, Progress, TraceError

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

_URL = re.compile(r"[a-z][a-z0-9+.-]*://", re.ASCII | re.IGNORECASE)

_USER = re.compile(r"://[^/\s'\"]*@")
_QUERY = re.compile(r"(://[^\s?#'\"<>]*)[?#][^\s'\"<>]*")
"""A signed URL has its signature there."""


def is_url(text: str) -> bool:
    """Whether ``text`` is a URL, and not a path."""
    return _URL.match(text) is not None


def without_secrets(text: str) -> str:
    """``text`` whose URLs have neither user and password nor a query."""
    return _QUERY.sub(r"\1", _USER.sub("://", text))


CREDENTIALS = "credentials come from the environment and ~/.config/fsspec, see docs/ranks.md"

_LONGEST = 300
"""Characters of an error that are shown: some hold a whole answer of a server."""


def filesystem_of(url: str) -> tuple[AbstractFileSystem, str]:
    """The file system of ``url``, without cached listings, and the URL's path in it.

    Raises:
        TraceError: fsspec is not installed.
        Exception: as fsspec raises if it knows no such file system, or lacks a package for it.
    """
    try:
        from fsspec.core import url_to_fs
    except ImportError as error:
        raise TraceError("opening a URL needs fsspec: pip install 'perftui[remote]'") from error
    fs, path = url_to_fs(url)
    fs.invalidate_cache()
    return fs, path


@contextmanager
def errors_of(url: str) -> Iterator[None]:
    """Turn any error of the file system of ``url`` into a ``TraceError`` with what to do."""
    try:
        yield
    except (TraceError, LoadCancelled):
        raise
    except Exception as error:  # noqa: BLE001 - each file system has errors of its own
        raise TraceError(_sentence(without_secrets(url), error)) from None


def _sentence(name: str, error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        if not isinstance(error.__cause__, Exception) or _status(error.__cause__) == 404:
            return f"{name} is not there"
        # The cause is the web server's error, whatever its status.
        error = error.__cause__
    lines = without_secrets(str(error)).strip().splitlines()
    why = lines[0][:_LONGEST] if lines else type(error).__name__
    refused = isinstance(error, PermissionError) or _status(error) in (401, 403)
    if refused or "credential" in why.lower():
        return f"{name} may not be read: {why}; {CREDENTIALS}"
    if isinstance(error, ImportError):
        return f"{name} cannot be read: {why} (with pip, where it is read)"
    return f"{name} cannot be read: {why}"


def _status(error: Exception) -> object:
    """The status in a web server's answer; None for any other error."""
    return getattr(error, "status", None)


def fetch(
    url: str, target: Path, progress: Progress | None = None, cancelled: Cancelled | None = None
) -> None:
    """Copy ``url`` to ``target``, piece by piece; nothing is left there after an error.

    ``progress`` is called with bytes read and bytes in all, if their number is known.

    Raises:
        TraceError: it cannot be read, was cut off, has changed meanwhile, or there is no room.
        LoadCancelled: ``cancelled`` returned true.
    """

    def report(_: int | None, read: int) -> None:
        if cancelled is not None and cancelled():
            raise LoadCancelled
        if progress is not None and size is not None:
            progress(min(read, size), size)

    try:
        with errors_of(url):
            fs, path = filesystem_of(url)
            before = _state(fs, path)
            size = int(before["size"]) if before["size"] else None
            free = shutil.disk_usage(target.parent).free
            name = without_secrets(url)
            if size is not None and size > free:
                raise TraceError(
                    f"{name} has {size:,} bytes, and {target.parent} room for {free:,}: name a "
                    "larger directory in TMPDIR"
                )
            from fsspec.callbacks import Callback

            fs.get_file(path, str(target), callback=Callback(hooks={"report": report}))
            read = target.stat().st_size
            if size is not None and read != size:
                message = f"{name} was cut off after {read:,} of {size:,} bytes: run it again"
                raise TraceError(message)
            fs.invalidate_cache()
            if _state(fs, path) != before:
                raise TraceError(f"{name} has changed while it was read: run it again")
    except BaseException:
        target.unlink(missing_ok=True)
        raise


def _state(fs: AbstractFileSystem, path: str) -> dict[str, str]:
    """Size, time of change, ETag and whatever else the file system reports on a file's state."""
    # A server may redirect to another address each time.
    facts = {name: str(value) for name, value in fs.info(path).items() if name != "url"}
    size = facts.get("size", "")
    return {**facts, "size": size if size.isdecimal() else ""}


# A stand-in is a private file of the size of the remote one that holds its ends and takes no space
# in between. Finding the ranks of a directory reads no more than that, and works as on any file.
# Loading a trace needs the whole of it first: ``fill`` puts it in place for as long as this process
# lives, ``at_hand`` copies it for a moment.


@dataclass(frozen=True)
class RemoteFile:
    """A remote trace; it can be sent to another process or machine, which then reads it there."""

    url: str = field(repr=False)
    stand_in: Path
    """Its local name, on the machine that listed it."""

    @property
    def name(self) -> str:
        """The URL without secrets."""
        return without_secrets(self.url)


_FILES = (".json", ".gz", ".trace", ".sqlite", ".db", ".nsys-rep", ".pickle")
"""Suffixes of files: whether a web server has a directory there costs a request or more."""

_roots: dict[Path, str] = {}
"""Directories of stand-ins, and the URL of each without secrets."""

_files: dict[Path, RemoteFile] = {}
_filled: set[Path] = set()
_filling: dict[Path, threading.Lock] = {}


def mirror(url: str, tell: Callable[[int, int], None] | None = None) -> Path:
    """The stand-in of the trace at ``url``, or a directory of those of all traces below it. They
    are deleted when this process ends.

    ``tell`` is called with the number of files of a directory read so far, and in all.

    Raises:
        TraceError: it cannot be read, or holds no trace; the message says what to do.
    """
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
    root = folder / (url.rsplit("/", 1)[-1] or "traces")
    _roots[root] = without_secrets(url)
    for ends in list_traces(url, tell):
        stand_in = root / ends.name
        stand_in.parent.mkdir(parents=True, exist_ok=True)
        with stand_in.open("xb") as file:
            file.write(ends.head)
            file.truncate(ends.size)
            file.seek(ends.size - len(ends.tail))
            file.write(ends.tail)
        os.utime(stand_in, ns=(ends.changed_ns, ends.changed_ns))
        _files[stand_in] = RemoteFile(ends.url, stand_in)
    return root


def remote_of(path: Path) -> RemoteFile | None:
    """The remote file behind the stand-in ``path``; None for a local file, or once it is filled."""
    return None if path in _filled else _files.get(path)


def fill(path: Path, progress: Progress | None = None, cancelled: Cancelled | None = None) -> bool:
    """Replace the stand-in ``path`` by the whole remote file; returns whether it is a remote file.

    Raises:
        TraceError: it cannot be read.
        LoadCancelled: ``cancelled`` returned true.
    """
    remote = _files.get(path)
    if remote is None:
        return False
    with _filling.setdefault(path, threading.Lock()):
        if path not in _filled:
            part = path.with_name(f"{path.name}.part")
            fetch(remote.url, part, progress, cancelled)
            part.replace(path)
            _filled.add(path)
    return True


@contextmanager
def at_hand(
    place: Path | RemoteFile, cancelled: Cancelled | None = None, directory: Path | None = None
) -> Iterator[Path]:
    """A file with the whole trace at ``place``; a copy of a remote one is deleted afterwards.

    It is copied to ``directory``, or beside the stand-in, whose process deletes leftovers, or to
    the usual place of temporary files.

    Raises:
        TraceError: it cannot be read.
        LoadCancelled: ``cancelled`` returned true.
    """
    if isinstance(place, Path):
        yield place
        return
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
    """``text`` with stand-ins replaced by their URLs without secrets."""
    for root, url in _roots.items():
        text = text.replace(str(root), url)
    return text


SUFFIXES = (".json", ".gz", ".trace")
"""Suffixes of traces whose ends show their rank; those of a database do not."""

HEAD = 128 * 1024
TAIL = 64 * 1024
"""Bytes at the ends of each file that are read: the process groups of 300 ranks take 17 KB."""

AT_ONCE = 16
"""Files whose ends are read at once: most of the time is spent waiting for the answer."""

UNREAD = b'{"traceEvents": ['
"""Replaces a head that cannot be read: such a trace goes by its name until it is opened."""

_INFO = b'"distributedInfo"'
_CHANGED = ("LastModified", "last_modified", "mtime", "updated", "created")
"""Keys of file systems for the time of change."""


@dataclass(frozen=True)
class RemoteEnds:
    """A remote trace, and the bytes at its ends."""

    name: PurePosixPath
    """Path relative to the listed directory."""
    url: str = field(repr=False)
    size: int
    changed_ns: int
    """Since the epoch; now, if the file system does not report it."""
    head: bytes = field(repr=False)
    tail: bytes = field(repr=False)
    """The last bytes; empty if the head is enough, for a compressed file, and if a server serves
    files only from their start."""


def list_traces(url: str, tell: Callable[[int, int], None] | None = None) -> Iterator[RemoteEnds]:
    """Files named like traces below ``url``, which has no slash at its end, except in hidden
    directories.

    ``tell`` is called with the number read so far, and in all.

    Raises:
        TraceError: there is nothing.
        Exception: as the file system raises.
    """
    fs, root = filesystem_of(url)
    entries = {name: entry for entry in fs.find(root, detail=True).values()
               if (name := _below(root, str(entry["name"]))) is not None}  # fmt: skip
    if PurePosixPath("run.json") in entries:
        raise TraceError(
            f"{without_secrets(url)} is a recorded run: copy it to this machine, and name the copy"
        )
    traces = [(name, e) for name, e in sorted(entries.items()) if name.name.endswith(SUFFIXES)]
    if not traces:
        raise TraceError(f"{without_secrets(url)} contains no trace (*.json[.gz]), or is not there")
    with ThreadPoolExecutor(AT_ONCE, "perftui-remote") as threads:
        reading = threads.map(lambda trace: _ends(fs, url, *trace), traces)
        for done, ends in enumerate(reading, 1):
            yield ends
            if tell is not None:
                tell(done, len(traces))


def _below(root: str, path: str) -> PurePosixPath | None:
    """The path of ``path`` relative to ``root``; None for hidden files, and paths not below it."""
    base = root.rstrip("/") + "/"
    name = PurePosixPath(path[len(base) :]) if path.startswith(base) else None
    if name is None or not name.parts or name.is_absolute() or "\0" in path:
        return None
    return None if any(part.startswith(".") for part in name.parts) else name


def _ends(
    fs: AbstractFileSystem, url: str, name: PurePosixPath, entry: Mapping[str, Any]
) -> RemoteEnds:
    from perftui.trace.kineto.source import MAGIC

    path, changed_ns = str(entry["name"]), _changed_ns(entry)
    try:
        facts = entry if entry.get("size") is not None else {**entry, **fs.info(path)}
        with fs.open(path, "rb", cache_type="none") as file:
            head = file.read(HEAD)
            size = int(facts.get("size") or len(head))
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
        # Some servers lack range requests.
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
