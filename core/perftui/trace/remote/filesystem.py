"""The file system of a URL, and what went wrong there, in words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from perftui.trace.errors import LoadCancelled, TraceError
from perftui.trace.remote.url import without_secrets

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

NO_FSSPEC = "opening a URL needs fsspec: pip install 'perftui[remote]'"
CREDENTIALS = "credentials come from the environment and ~/.config/fsspec, see docs/ranks.md"

_LONGEST = 300
"""Characters of an error that are shown: some hold a whole answer of a server."""

_REFUSED = (401, 403)
_NOT_FOUND = 404


def filesystem_of(url: str) -> tuple[AbstractFileSystem, str]:
    """What opens ``url``, with nothing of earlier listings, and the path of the URL in it.

    Raises:
        TraceError: fsspec is not installed.
        Exception: as fsspec raises where it knows no such file system, or lacks a package for it.
    """
    try:
        from fsspec.core import url_to_fs
    except ImportError as error:
        raise TraceError(NO_FSSPEC) from error
    fs, path = url_to_fs(url)
    fs.invalidate_cache()
    return fs, path


@contextmanager
def errors_of(url: str) -> Iterator[None]:
    """Turn whatever the file system of ``url`` raises into a ``TraceError`` with what to do."""
    try:
        yield
    except (TraceError, LoadCancelled):
        raise
    except Exception as error:  # noqa: BLE001 - each file system has errors of its own
        raise TraceError(_sentence(without_secrets(url), error)) from None


def _sentence(shown: str, error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        if not isinstance(error.__cause__, Exception) or _status(error.__cause__) == _NOT_FOUND:
            return f"{shown} is not there"
        # That of a web server, whatever it answered.
        error = error.__cause__
    lines = without_secrets(str(error)).strip().splitlines()
    why = lines[0][:_LONGEST] if lines else type(error).__name__
    refused = isinstance(error, PermissionError) or _status(error) in _REFUSED
    if refused or "credential" in why.lower():
        return f"{shown} may not be read: {why}; {CREDENTIALS}"
    if isinstance(error, ImportError):
        return f"{shown} cannot be read: {why} (with pip, where it is read)"
    return f"{shown} cannot be read: {why}"


def _status(error: Exception) -> object:
    """The status that a web server answered with; None of any other error."""
    return getattr(error, "status", None)
