"""A remote file copied to this machine: whole, or not at all."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from perftui.trace.callbacks import Cancelled, Progress
from perftui.trace.errors import LoadCancelled, TraceError
from perftui.trace.remote.filesystem import errors_of, filesystem_of
from perftui.trace.remote.url import without_secrets

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem
    from fsspec.callbacks import Callback


def fetch(
    url: str, target: Path, progress: Progress | None = None, cancelled: Cancelled | None = None
) -> None:
    """Copy ``url`` to ``target``, piece by piece; nothing is left there after an error.

    ``progress`` is called with bytes read and bytes in all, where their number is known.

    Raises:
        TraceError: it cannot be read, was cut off, has changed meanwhile, or there is no room.
        LoadCancelled: ``cancelled`` returned true.
    """
    try:
        with errors_of(url):
            _copy(url, target, progress, cancelled)
    except BaseException:
        target.unlink(missing_ok=True)
        raise


def _copy(url: str, target: Path, progress: Progress | None, cancelled: Cancelled | None) -> None:
    fs, path = filesystem_of(url)
    before = _state(fs, path)
    size = int(before["size"]) if before["size"] else None
    free = shutil.disk_usage(target.parent).free
    if size is not None and size > free:
        raise TraceError(
            f"{without_secrets(url)} has {size:,} bytes, and {target.parent} room for {free:,}: "
            "name a larger directory in TMPDIR"
        )
    fs.get_file(path, str(target), callback=_callback(size, progress, cancelled))
    read = target.stat().st_size
    if size is not None and read != size:
        raise TraceError(
            f"{without_secrets(url)} was cut off after {read:,} of {size:,} bytes: run it again"
        )
    fs.invalidate_cache()
    if _state(fs, path) != before:
        raise TraceError(f"{without_secrets(url)} has changed while it was read: run it again")


def _state(fs: AbstractFileSystem, path: str) -> dict[str, str]:
    """Size, time of change, ETag and whatever else the file system tells of a state of the file."""
    # The address that a server redirects to can be another each time.
    known = {name: str(value) for name, value in fs.info(path).items() if name != "url"}
    size = known.get("size", "")
    return {**known, "size": size if size.isdecimal() else ""}


def _callback(size: int | None, progress: Progress | None, cancelled: Cancelled | None) -> Callback:
    from fsspec.callbacks import Callback

    def report(_: int | None, read: int) -> None:
        if cancelled is not None and cancelled():
            raise LoadCancelled
        if progress is not None and size is not None:
            progress(min(read, size), size)

    return Callback(hooks={"report": report})
