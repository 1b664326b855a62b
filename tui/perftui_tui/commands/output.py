"""What commands write to the terminal they were typed in, and the exit codes they end with."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from perftui.trace.text import printable

if TYPE_CHECKING:
    from perftui.experiments.comparison import Verdict
    from perftui.experiments.trial_verdict import Outcome


DONE, ERROR, USAGE, SLOWER, NO_DIFFERENCE, INCONCLUSIVE, NO_EFFECT = range(7)


class UsageError(Exception):
    """The command cannot be carried out; the message has the reason and what to do.

    Every command raises it, and whatever reads what a command is about. ``code`` is the exit code.
    """

    def __init__(self, message: str, code: int = USAGE) -> None:
        super().__init__(message)
        self.code = code


@contextmanager
def refusing(
    *errors: type[Exception], where: str = "", advice: str = "", code: int = USAGE
) -> Iterator[None]:
    """Make any of ``errors`` a ``UsageError``, which says the same, or ``where`` and why."""
    try:
        yield
    except errors as error:
        why = getattr(error, "strerror", None) or error
        message = f"{where}: {why}{advice}" if where else str(error)
        raise UsageError(message, code) from error


def log(line: str) -> None:
    """Print one line on stderr.

    Names of files and texts of a run's manifest may hold anything: a terminal never acts on it.
    """
    print(printable(line), file=sys.stderr)


def write(text: str, *, as_json: bool = False) -> None:
    """Write the text, and be sure that it was written.

    JSON, and other text that a program reads, is UTF-8 wherever it goes. Of the rest, characters
    that the terminal's encoding lacks are spelled as escapes.

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
        # The rest in stdout's buffer would be tried again at exit, and fail again.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
        raise UsageError(f"the output cannot be written: {error.strerror or error}") from error


def write_object(plain: Mapping[str, Any], *, brief: bool = False) -> None:
    """Write plain values as JSON, on one line where they are to be brief."""
    from perftui.report.output_text import encode_object

    write(encode_object(plain, on_one_line=brief), as_json=True)


def write_result(
    flags: Collection[str], as_object: Callable[..., Any], text: Callable[..., str], *of: object
) -> None:
    """Write ``as_object(*of)`` with ``--json``, else ``text(*of)``."""
    if "json" in flags:
        write_object(as_object(*of), brief="brief" in flags)
    else:
        write(text(*of))


def end_as_interrupted() -> None:
    """Let SIGTERM, by which ``timeout`` and job managers end a command, interrupt it as ctrl+c
    does: what it has started would go on unseen."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.default_int_handler)


TELL_EVERY_S = 10.0


def log_now_and_then(sentence: Callable[..., str], *, at_once: bool = False) -> Callable[..., None]:
    """Logs what ``sentence`` says of how much is done, first after a while or ``at_once``: that may
    take minutes."""
    due = time.monotonic() + (0 if at_once else TELL_EVERY_S)

    def log_progress(*done: object) -> None:
        nonlocal due
        if time.monotonic() >= due:
            due = time.monotonic() + TELL_EVERY_S
            log(sentence(*done))

    return log_progress


def code_of(outcome: Outcome | Verdict) -> int:
    """The exit code that tells a script how a trial or a comparison ended."""
    return {
        "faster": DONE,
        "slower": SLOWER,
        **dict.fromkeys(("no difference", "no clear difference"), NO_DIFFERENCE),
        "no effect": NO_EFFECT,
    }.get(outcome.value, INCONCLUSIVE)
