"""Writes to the terminal that a command was typed in, outside the app."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any


class UsageError(Exception):
    """The command cannot be carried out; the message has the reason and what to do. Exit code 2."""


def log(line: str) -> None:
    """Print one line on stderr.

    Names of files and texts of a run's manifest may hold anything: a terminal never acts on it.
    """
    from perftui.trace.text import printable

    print(printable(line), file=sys.stderr)


def write(text: str, *, as_json: bool = False) -> None:
    """Write the text, and be sure that it was written.

    JSON is UTF-8 wherever it goes. Of other text, characters that the terminal's encoding lacks
    are spelled as escapes.

    Raises:
        UsageError: stdout is closed, or does not take it (its disk is full, for instance).
        BrokenPipeError: its reader has gone.
    """
    if sys.stdout is None:  # as Python has it where the process was started without one
        raise UsageError("the output cannot be written: stdout is closed")
    encoding = "utf-8" if as_json else sys.stdout.encoding or "utf-8"
    try:
        sys.stdout.flush()
        if hasattr(sys.stdout, "buffer"):
            sys.stdout.buffer.write(text.encode(encoding, "backslashreplace"))
        else:
            sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        _leave_stdout()
        raise UsageError(f"the output cannot be written: {error.strerror or error}") from error


def write_data(text: str) -> None:
    """Write text that another program reads: UTF-8, wherever it goes, as JSON is.

    Raises:
        UsageError: stdout does not take it.
        BrokenPipeError: its reader has gone.
    """
    write(text, as_json=True)


def write_object(plain: Mapping[str, Any], *, brief: bool = False) -> None:
    """Write plain values as JSON, on one line where they are to be brief.

    Raises:
        UsageError: stdout does not take it.
        BrokenPipeError: its reader has gone.
    """
    from perftui.report.encode import encode_object

    write(encode_object(plain, on_one_line=brief), as_json=True)


def _leave_stdout() -> None:
    """What stdout still holds would be tried again, and fail again, as the process ends."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
