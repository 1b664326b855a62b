"""Reports of Nsight Systems: only its own program reads them, so it is asked to export them."""

from __future__ import annotations

import dataclasses
import shlex
import shutil
import subprocess
import tempfile
import weakref
from collections.abc import Callable
from pathlib import Path

from perftui.trace.errors import LoadCancelled, TraceError
from perftui.trace.model import Trace
from perftui.trace.nsys.load import Cancelled, Progress, load_nsys
from perftui.trace.text import printable

STAGE = "nsys export"
"""What is told while the program of Nsight Systems runs."""

_POLL = 0.1
"""Seconds between looks whether the export has ended or was cancelled."""

_LAST_WORDS = 400
"""Characters of what nsys said last that are told when it fails."""


def load_report(
    path: Path,
    progress: Progress | None = None,
    cancelled: Cancelled | None = None,
    stage: Callable[[str], None] | None = None,
) -> Trace:
    """Export a report to a private temporary directory with ``nsys``, and load that.

    ``stage`` is told "nsys export" when that begins; meanwhile ``progress`` stays at 0. The export
    is kept as long as the trace, whose arguments are read from it.

    Raises TraceError where the report is missing, ``nsys`` is not on PATH or fails, or exports
    nothing that can be loaded; LoadCancelled after ``cancelled`` returned True.
    """
    if not path.is_file():
        raise TraceError(f"cannot read {path}: no such file")
    program = shutil.which("nsys")
    if program is None:
        command = _command("nsys", path, path.with_suffix(".sqlite"))
        raise TraceError(
            f"{path} can only be read by nsys, which is not on PATH; run where it is: "
            f"{shlex.join(command)}; then open the .sqlite"
        )
    directory = Path(tempfile.mkdtemp(prefix="perftui-nsys-"))
    try:
        if stage is not None:
            stage(STAGE)
        exported = directory / "report.sqlite"
        _export(_command(program, path.absolute(), exported), path, directory, progress, cancelled)
        trace = _load(exported, path, progress, cancelled)
    except BaseException:
        shutil.rmtree(directory, ignore_errors=True)
        raise
    weakref.finalize(trace.read_arguments, shutil.rmtree, directory, ignore_errors=True)
    return dataclasses.replace(trace, path=path)


def _load(
    exported: Path, path: Path, progress: Progress | None, cancelled: Cancelled | None
) -> Trace:
    try:
        return load_nsys(exported, progress, cancelled)
    except TraceError as error:
        raise TraceError(str(error).replace(str(exported), str(path))) from error


def _command(program: str, report: Path, exported: Path) -> list[str]:
    # "--output=" and not two words: so the manual spells it for every version.
    return [
        program,
        "export",
        "--type=sqlite",
        "--force-overwrite=true",
        f"--output={exported}",
        str(report),
    ]


def _export(
    command: list[str],
    path: Path,
    directory: Path,
    progress: Progress | None,
    cancelled: Cancelled | None,
) -> None:
    log = directory / "log.txt"
    size = path.stat().st_size
    with log.open("wb") as output:
        process = subprocess.Popen(  # noqa: S603 - a list, no shell; the program that reads reports
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
        )
        try:
            while _runs(process):
                if cancelled is not None and cancelled():
                    raise LoadCancelled
                if progress is not None:
                    progress(0, size)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
    if process.returncode or not (directory / "report.sqlite").is_file():
        said = printable(log.read_text("utf-8", "replace").strip()[-_LAST_WORDS:])
        raise TraceError(
            f"nsys could not export {path} (exit code {process.returncode}): "
            f"{said or 'it said nothing'}; run: {shlex.join(command)}"
        )


def _runs(process: subprocess.Popen[bytes]) -> bool:
    try:
        process.wait(_POLL)
    except subprocess.TimeoutExpired:
        return True
    return False
