"""The terminal that a command was typed in: what it can do and is told; and exit codes."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
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

    Names of files and texts of a run's manifest may hold anything: a terminal never acts on it."""
    with _telling:
        _rewrite("")
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


SHORT_WAIT_S, REWRITE_S = 1.0, 0.5
"""On a terminal a wait is told once it takes this long, and its line is then rewritten so often."""

TELL_EVERY_S = 20.0
"""Elsewhere it has a line of its own each time so much has passed."""

_telling = threading.RLock()
_is_rewritten = False
"""Whether the last line of the terminal is one that the next takes the place of."""


@contextmanager
def waiting(sentence: str | Callable[[], str]) -> Iterator[Callable[[str], None]]:
    """Tell on stderr what goes on while the block lasts, if that takes a while: the ``sentence``
    with the seconds so far, or what it returns at that moment.

    Yields a function that takes another sentence from now on.
    """
    said = [sentence]
    over = threading.Event()
    ticker = threading.Thread(target=_tell, args=(said, over), daemon=True)
    ticker.start()
    try:
        yield lambda text: said.__setitem__(0, text)
    finally:
        over.set()
        ticker.join()


def _tell(said: Sequence[str | Callable[[], str]], over: threading.Event) -> None:
    began, wait = time.monotonic(), SHORT_WAIT_S if _rewrites() else TELL_EVERY_S
    while sys.stderr is not None and not over.wait(wait):
        seconds, sentence = time.monotonic() - began, said[0]
        text = f"{sentence}, {seconds:.0f} s" if isinstance(sentence, str) else sentence()
        if _rewrites():
            wait = REWRITE_S
            _rewrite(text)
        else:
            log(text)
    _rewrite("")


def _rewrites() -> bool:
    """Whether a line on stderr can be rewritten."""
    is_terminal = sys.stderr is not None and sys.stderr.isatty()
    return is_terminal and os.environ.get("TERM", "dumb") != "dumb"


def _rewrite(line: str) -> None:
    """Put ``line`` in place of the one that was told last; an empty one takes that away."""
    global _is_rewritten
    with _telling:
        if line or _is_rewritten:
            shown = printable(line)[: shutil.get_terminal_size().columns - 1]
            sys.stderr.write(f"\r\x1b[K{shown}")
            sys.stderr.flush()
        _is_rewritten = bool(line)


def code_of(outcome: Outcome | Verdict) -> int:
    """The exit code that tells a script how a trial or a comparison ended."""
    return {
        "faster": DONE,
        "slower": SLOWER,
        **dict.fromkeys(("no difference", "no clear difference"), NO_DIFFERENCE),
        "no effect": NO_EFFECT,
    }.get(outcome.value, INCONCLUSIVE)


ASCII_TERMINALS = ("linux", "vt100", "vt102", "vt220", "ansi")
"""Terminals whose fonts have no eighth blocks."""


def why_headless(flags: Collection[str]) -> str | None:
    """Why the app cannot or shall not be shown; None where it can."""
    if "headless" in flags:
        return ""
    if not sys.stdin.isatty():
        return "the input is not a terminal"
    if not sys.stdout.isatty():
        return "the output is not a terminal"
    if os.environ.get("TERM", "dumb") == "dumb":
        return "the terminal shows plain text only (TERM=dumb)"
    return None


def draws_ascii(flags: Collection[str]) -> bool:
    """Whether only ASCII is safe: asked for, or the terminal or its encoding has no blocks."""
    encoding = (getattr(sys.stdout, "encoding", "") or "").lower().replace("-", "")
    return "ascii" in flags or os.environ.get("TERM", "") in ASCII_TERMINALS or encoding != "utf8"


def theme_name(values: Mapping[str, Any]) -> str:
    """The theme asked for; else the terminal's own palette where it is to show no colours
    (NO_COLOR), or has sixteen of them: ours would be mapped to them one by one, several to the
    same."""
    if "theme" in values:
        return f"perftui-{values['theme']}"
    is_plain = os.environ.get("NO_COLOR") or has_sixteen_colours(os.environ)
    return "perftui-ansi" if is_plain else "perftui-dark"


def has_sixteen_colours(environment: Mapping[str, str]) -> bool:
    """Whether nothing is known of the terminal but that it has colours."""
    if environment.get("COLORTERM", "").strip().lower() in ("truecolor", "24bit"):
        return False
    return environment.get("TERM", "").rpartition("-")[2] not in ("256color", "kitty", "direct")


def splash() -> None:
    """Something on the screen while the framework is imported, which takes a quarter second."""
    sys.stdout.write("\x1b[?1049h\x1b[2J\x1b[Hperftui is starting...")
    sys.stdout.flush()


def leave_splash() -> None:
    """Back to the screen that the command was typed on."""
    sys.stdout.write("\x1b[?1049l")
    sys.stdout.flush()
