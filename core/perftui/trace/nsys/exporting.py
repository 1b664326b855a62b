"""Has the program of Nsight Systems export a report, and watches it."""

from __future__ import annotations

import atexit
import os
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from perftui.trace.errors import LoadCancelled, TraceError
from perftui.trace.text import printable

_POLL = 0.1
"""Seconds between checks whether the export has ended or was cancelled."""

_LAST_WORDS = 400
"""Characters of nsys's last output that are reported when it fails."""


@dataclass(frozen=True)
class Exporting:
    """How far an export has come: nobody knows how much of it there will be."""

    seconds: float
    """Since it began."""
    written: int
    """Bytes of the export that are on the disk."""


ExportProgress = Callable[[Exporting], None]


def command(program: str, report: Path, exported: Path) -> list[str]:
    """What exports ``report``."""
    # "--output=" and not two words: so the manual spells it for every version.
    return [
        program,
        "export",
        "--type=sqlite",
        "--force-overwrite=true",
        f"--output={exported}",
        str(report),
    ]


def export(
    program: str,
    report: Path,
    directory: Path,
    progress: ExportProgress | None,
    cancelled: Callable[[], bool] | None,
) -> Path:
    """The export of ``report``, made in ``directory``, which is empty and only its user's.

    ``progress`` and ``cancelled`` are called ten times a second.

    Raises TraceError with nsys's last output if it fails; LoadCancelled, when nsys and all that it
    started have ended, after ``cancelled`` returned True. Both end with this process, too.
    """
    exported, log = directory / "report.sqlite", directory / "log.txt"
    words = command(program, report.absolute(), exported)
    begin = time.monotonic()
    with log.open("wb") as output:
        # A session of its own: nsys may be a script, and what that starts must end with it.
        process = subprocess.Popen(  # noqa: S603 - a list, no shell; the program that reads reports
            words,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        # Who leaves the app does not wait for the thread that is here.
        at_exit = partial(_end, process, directory)
        atexit.register(at_exit)
        try:
            while process.poll() is None:
                if cancelled is not None and cancelled():
                    raise LoadCancelled
                if progress is not None:
                    progress(Exporting(time.monotonic() - begin, _size(exported)))
                with suppress(subprocess.TimeoutExpired):
                    process.wait(_POLL)
        finally:
            atexit.unregister(at_exit)
            _kill(process)
    if process.returncode or not exported.is_file():
        last = printable(log.read_text("utf-8", "replace").strip()[-_LAST_WORDS:])
        raise TraceError(
            f"nsys could not export {report} (exit code {process.returncode}): "
            f"{last or 'no output'}; run: {shlex.join(words)}"
        )
    return exported


def _end(process: subprocess.Popen[bytes], directory: Path) -> None:
    _kill(process)
    shutil.rmtree(directory, ignore_errors=True)


def _kill(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
