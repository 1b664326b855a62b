"""Reports of Nsight Systems, exported by its own program."""

from __future__ import annotations

import atexit
import dataclasses
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from perftui.trace.cache import Exports, cache_directory, file_identity
from perftui.trace.model import Cancelled, LoadCancelled, Preview, Progress, Trace, TraceError
from perftui.trace.nsys.load import load_nsys
from perftui.trace.text import printable

_POLL = 0.1
"""Seconds between checks whether the export has ended or was cancelled."""

_LAST_WORDS = 400
"""Characters of nsys's last output that are reported when it fails."""


@dataclass(frozen=True)
class Exporting:
    """Progress of an export, whose final size is unknown."""

    seconds: float
    """Since it began."""
    written: int
    """Bytes of the export that are on the disk."""


ExportProgress = Callable[[Exporting], None]


def command(program: str, report: Path, exported: Path) -> list[str]:
    """The command that exports ``report``."""
    # "--output=" in one word: the spelling of the manual in every version.
    options = ("--type=sqlite", "--force-overwrite=true", f"--output={exported}")
    return [program, "export", *options, str(report)]


def export(
    program: str,
    report: Path,
    directory: Path,
    progress: ExportProgress | None,
    cancelled: Callable[[], bool] | None,
) -> Path:
    """The export of ``report``, in ``directory``, which is empty and private to its user.

    ``progress`` and ``cancelled`` are called ten times a second.

    Raises TraceError with nsys's last output if it fails; LoadCancelled, when nsys and all that it
    started have ended, after ``cancelled`` returned True. Both end with this process, too.
    """
    exported, log = directory / "report.sqlite", directory / "log.txt"
    words = command(program, report.absolute(), exported)
    begin = time.monotonic()
    with log.open("wb") as output:
        # A session of its own: nsys may be a script, and its children must end with it.
        process = subprocess.Popen(  # noqa: S603 - a list, no shell; the program that reads reports
            words,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

        # Leaving the app does not wait for this thread.
        def at_exit() -> None:
            _kill(process)
            shutil.rmtree(directory, ignore_errors=True)

        atexit.register(at_exit)
        try:
            while process.poll() is None:
                if cancelled is not None and cancelled():
                    raise LoadCancelled
                if progress is not None:
                    written = exported.stat().st_size if exported.exists() else 0
                    progress(Exporting(time.monotonic() - begin, written))
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


def _kill(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def load_report(
    path: Path,
    progress: Progress | None = None,
    cancelled: Cancelled | None = None,
    preview: Preview | None = None,
    exporting: ExportProgress | None = None,
) -> Trace:
    """Export a report with ``nsys``, and load the export.

    ``exporting`` is called with the progress of ``nsys``; the others are those of ``load_nsys``.
    The export is cached for the next time, unless ``PERFTUI_CACHE=off`` or the disk is full: then
    it lies in a private temporary directory for as long as the trace, whose arguments are read from
    it.

    Raises TraceError if the report is missing, ``nsys`` is not on PATH or fails, or exports nothing
    that can be loaded; LoadCancelled after ``cancelled`` returned True.
    """
    if not path.is_file():
        raise TraceError(f"cannot read {path}: no such file")
    directory, identity = cache_directory(), file_identity(path)
    exports = None if directory is None else Exports(directory)
    if exports is not None and identity is not None:
        cached = exports.find(path, identity)
        if cached is not None:
            return _load(cached, path, progress, cancelled, preview)
    program = shutil.which("nsys")
    if program is None:
        words = command("nsys", path, path.with_suffix(".sqlite"))
        raise TraceError(
            f"{path} can only be read by nsys, which is not on PATH; on a machine that has it, "
            f"run: {shlex.join(words)}; then open the .sqlite"
        )
    directory = exports.workplace() if exports is not None else None
    directory = directory or Path(tempfile.mkdtemp(prefix="perftui-nsys-"))
    try:
        exported = export(program, path, directory, exporting, cancelled)
        stored = None
        # A report that changed meanwhile is not the exported one.
        if exports is not None and identity is not None and file_identity(path) == identity:
            stored = exports.keep(path, identity, exported)
        trace = _load(stored or exported, path, progress, cancelled, preview)
    except BaseException:
        shutil.rmtree(directory, ignore_errors=True)
        raise
    if stored is None:
        weakref.finalize(trace.read_arguments, shutil.rmtree, directory, ignore_errors=True)
    else:
        shutil.rmtree(directory, ignore_errors=True)
    return trace


def _load(
    exported: Path,
    path: Path,
    progress: Progress | None,
    cancelled: Cancelled | None,
    preview: Preview | None,
) -> Trace:
    def with_path(trace: Trace) -> Trace:
        return dataclasses.replace(trace, path=path)

    try:
        show = None if preview is None else lambda trace: preview(with_path(trace))
        return with_path(load_nsys(exported, progress, cancelled, show))
    except TraceError as error:
        raise TraceError(str(error).replace(str(exported), str(path))) from error
