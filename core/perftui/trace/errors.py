"""What can be wrong with a trace file."""

from __future__ import annotations


class TraceError(ValueError):
    """The file cannot be read as a trace; the message says why and what to do."""
