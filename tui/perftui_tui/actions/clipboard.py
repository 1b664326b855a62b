"""Text to the clipboard of the person's own machine, as far as terminals let it through.

OSC 52 reaches it through SSH, but tmux keeps it to itself unless ``set-clipboard`` is on, and other
terminals drop it. So tmux is asked itself (``load-buffer -w`` hands it on to the outer terminal),
and the text also lies in a file, whose name is shown."""

from __future__ import annotations

import os
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from perftui.run.files import replace_file
from perftui.trace.cache import cache_directory, make_private
from perftui.trace.text import encodable
from perftui_tui.look.format import short_path

if TYPE_CHECKING:
    from textual.app import App

MOST_BYTES = 74_000
"""More, encoded, than xterm and tmux take in one sequence; longer text is in the file alone."""

_PATIENCE = 2.0
"""Seconds for tmux, which answers in milliseconds where it lives."""


def copy_text(app: App[object], text: str, what: str) -> None:
    """Copy ``text`` and notify; ``what`` names it, such as ``the name``."""
    text = encodable(text)
    is_short = len(text.encode()) <= MOST_BYTES
    if is_short:
        app.copy_to_clipboard(text)

    def finish() -> None:
        path = save_copy(text)
        if is_short:
            hand_to_tmux(text)
        saved = f"in {short_path(path)}" if path else ""
        notice = f"{what} copied to the clipboard, if the terminal allows it"
        notice += f", and {saved}" if saved else ""
        if not is_short:
            where = saved or "not saved: there is no directory to save it in"
            notice = f"{what} is too long for the clipboard; it is {where}"
        app.call_from_thread(app.notify, notice, timeout=4, markup=False)

    app.run_worker(finish, thread=True, exit_on_error=False)


def save_copy(text: str) -> Path | None:
    """Write ``text`` to the file of the last copy; None where that cannot be done."""
    traces = cache_directory()
    if traces is None:
        return None
    path = traces.parent / "copied.txt"
    try:
        make_private(path.parent)
        replace_file(path, text.encode())
    except OSError:
        return None
    return path


def hand_to_tmux(text: str) -> None:
    """Give tmux the text, where we run in one."""
    program = shutil.which("tmux")
    if not os.environ.get("TMUX") or program is None:
        return
    with suppress(OSError, subprocess.TimeoutExpired):
        subprocess.run(  # noqa: S603 - our own words; the text is its input
            [program, "load-buffer", "-w", "-"],
            input=text.encode(),
            capture_output=True,
            timeout=_PATIENCE,
            check=False,
        )
