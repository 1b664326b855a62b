"""What can be wrong with a trace file."""

from __future__ import annotations


class TraceError(ValueError):
    """The file cannot be read as a trace; the message says why and what to do."""


class LoadCancelled(Exception):  # noqa: N818 - an outcome that was asked for, not an error
    """Loading stopped because the caller asked it to."""
