"""Reports of Nsight Systems: only its own program reads them, so it is asked to export them."""

from __future__ import annotations

import dataclasses
import shlex
import shutil
import tempfile
import weakref
from pathlib import Path

from perftui.trace.cache.exports import Exports, cached_exports
from perftui.trace.cache.identity import file_identity
from perftui.trace.callbacks import Cancelled, Preview, Progress
from perftui.trace.errors import TraceError
from perftui.trace.model import Trace
from perftui.trace.nsys.exporting import ExportProgress, command, export
from perftui.trace.nsys.load import load_nsys


def load_report(
    path: Path,
    progress: Progress | None = None,
    cancelled: Cancelled | None = None,
    preview: Preview | None = None,
    exporting: ExportProgress | None = None,
) -> Trace:
    """Export a report with ``nsys``, and load that.

    ``exporting`` is called with how far ``nsys`` has come; the others are those of ``load_nsys``.
    The export is kept for the next time, unless ``PERFTUI_CACHE=off`` or the disk is full: then it
    lies in a private temporary directory for as long as the trace, whose arguments are read from
    it.

    Raises TraceError where the report is missing, ``nsys`` is not on PATH or fails, or exports
    nothing that can be loaded; LoadCancelled after ``cancelled`` returned True.
    """
    if not path.is_file():
        raise TraceError(f"cannot read {path}: no such file")
    exports, identity = cached_exports(), file_identity(path)
    if exports is not None and identity is not None:
        found = exports.find(path, identity)
        if found is not None:
            return _load(found, path, progress, cancelled, preview)
    program = _program(path)
    directory = exports.workplace() if exports is not None else None
    directory = directory or Path(tempfile.mkdtemp(prefix="perftui-nsys-"))
    try:
        exported = export(program, path, directory, exporting, cancelled)
        kept = _kept(exports, path, identity, exported)
        trace = _load(kept or exported, path, progress, cancelled, preview)
    except BaseException:
        shutil.rmtree(directory, ignore_errors=True)
        raise
    if kept is None:
        weakref.finalize(trace.read_arguments, shutil.rmtree, directory, ignore_errors=True)
    else:
        shutil.rmtree(directory, ignore_errors=True)
    return trace


def _program(path: Path) -> str:
    program = shutil.which("nsys")
    if program is None:
        words = command("nsys", path, path.with_suffix(".sqlite"))
        raise TraceError(
            f"{path} can only be read by nsys, which is not on PATH; on a machine that has it, "
            f"run: {shlex.join(words)}; then open the .sqlite"
        )
    return program


def _kept(
    exports: Exports | None, path: Path, identity: bytes | None, exported: Path
) -> Path | None:
    # A report that was written to meanwhile is not the one that was exported.
    if exports is None or identity is None or file_identity(path) != identity:
        return None
    return exports.keep(path, identity, exported)


def _load(
    exported: Path,
    path: Path,
    progress: Progress | None,
    cancelled: Cancelled | None,
    preview: Preview | None,
) -> Trace:
    def named(trace: Trace) -> Trace:
        return dataclasses.replace(trace, path=path)

    try:
        shown = None if preview is None else lambda trace: preview(named(trace))
        return named(load_nsys(exported, progress, cancelled, shown))
    except TraceError as error:
        raise TraceError(str(error).replace(str(exported), str(path))) from error
