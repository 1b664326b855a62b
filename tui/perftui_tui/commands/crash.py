"""What is printed, and which code is returned, where the app itself fails."""

from __future__ import annotations

import shlex
import traceback
from pathlib import Path

from perftui_tui.commands.farewell import farewell
from perftui_tui.commands.log import log

EXIT_CODE = 70
"""``EX_SOFTWARE`` of sysexits.h: no code that a script is likely to use."""

FRAMES = 4
"""Innermost frames shown: enough to find the line, few enough to leave the advice on screen."""


def report_crash(error: BaseException, target: Path) -> int:
    """Log what failed, that the training does not depend on it, and how to come back."""
    lines = traceback.format_exception(type(error), error, error.__traceback__, limit=-FRAMES)
    log("perftui: the app failed; nothing that was recorded is lost")
    for line in "".join(lines).rstrip().splitlines():
        log(f"  {line}")
    if target.is_dir():
        farewell(target, is_replay=True)
    else:
        log(f"  again   perftui replay {shlex.quote(str(target))}")
    return EXIT_CODE
