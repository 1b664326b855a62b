"""Moves finished windows and snapshots of GPU memory from the spool into the run directory."""

from __future__ import annotations

import re
import shutil
from itertools import chain, count
from pathlib import Path
from typing import Any

import msgspec

from perftui.recorder.pyspy_stacks import Frame, StackInterval, main_place, stays
from perftui.recorder.spool import Note
from perftui.run.columns import MEMORY_SNAPSHOT
from perftui.run.files import DAMAGE
from perftui.run.layout import PRIVATE_MODE, RankLayout
from perftui.wire.spool import Spool

QUOTA = 1024 * 1024 * 1024
"""Most bytes of the windows of one rank: those of a week, unless they are slow to write."""


class SpoolFileError(Exception):
    """The file of a note cannot be moved or read; the message says why."""


def keep_file(spool: Spool, note: Note, rank: RankLayout) -> Path:
    """Move the file of a ``window`` or ``memory_snapshot`` note to the rank's directory; returns
    its new path.

    Readers see it whole or not at all, also where the spool is on another file system. There is one
    snapshot for each reason: it replaces the one before. Raises SpoolFileError if the note names no
    regular file of the spool, the disk is full, or the run directory is gone, which is not made
    anew."""
    source = spool_file(spool, note.data.get("file"))
    try:
        for directory in (rank.root, rank.memory if note.kind == MEMORY_SNAPSHOT else rank.windows):
            directory.mkdir(mode=PRIVATE_MODE, exist_ok=True)
        if note.kind == MEMORY_SNAPSHOT:
            name = "peak" if note.data.get("reason") == "peak" else "out-of-memory"
            target = rank.memory / f"{name}.pickle"
        else:
            first = note.data.get("first_step", note.step)
            first = first if isinstance(first, int) and first >= 0 else max(note.step, 0)
            # A second window from the same step (a step counter that began anew) gets a number.
            again = (rank.windows / f"{first}.{number}.pt.trace.json" for number in count(2))
            paths = chain((rank.window(first),), again)
            target = next(path for path in paths if not path.exists())
        # Readers see the old file or the whole copy, never a part.
        partial = target.with_name(f".{target.name}.partial")
        try:
            shutil.copyfile(source, partial)
            partial.chmod(0o600)
            partial.replace(target)
        except OSError:
            # On a full disk a partial copy would be in the way of everything else.
            partial.unlink(missing_ok=True)
            raise
        source.unlink()
    except OSError as error:
        raise SpoolFileError(f"{source.name}: {error.strerror}") from error
    return target


def spool_file(spool: Spool, name: object) -> Path:
    """The regular file ``name`` of ``spool``. Raises SpoolFileError if there is none."""
    path = spool.root / Path(str(name)).name
    if not isinstance(name, str) or path.is_symlink() or not path.is_file():
        raise SpoolFileError(f"the agent named a file that is not there: {name!r}")
    return path


def limit_windows(rank: RankLayout, quota: int = QUOTA) -> None:
    """Remove the oldest windows after the first while all take more than ``quota`` bytes. Raises
    OSError if one cannot be looked at or removed."""
    sizes = [(path, path.stat().st_size) for path in rank.window_files()]
    # Viewers show the newest.
    removable = sizes[1:-1]
    excess = sum(size for _, size in sizes) - quota
    for path, size in removable:
        if excess <= 0:
            break
        path.unlink()
        excess -= size


_CALL = re.compile(rb'"cat": "(?:cuda|hip)_(?:runtime|driver)"')
_KERNEL = re.compile(rb'"cat": "kernel"')
_LAUNCH = re.compile(rb'"name": "(?:cuda|cu|hip|hipExt|hipModule)Launch(?:Cooperative)?Kernel')
"""Calls, kernels and launches as Kineto writes them. Each launch leads to at least one kernel, as
in 50 real traces of CUDA and ROCm, except for one of a profiler that shared CUPTI with another,
with 0 kernels for 77."""

_PIECE = 1 << 20

TAKEN = (
    "a window has no kernels, although the script uses the GPU: another profiler (nsys, ncu, "
    "DCGM) holds CUPTI, which only one can use at a time"
)
SOME = "a window has launches without their kernels: CUPTI lost them, so its GPU times are too low"


def problem_of(calls: int, launches: int, kernels: int) -> str | None:
    """The problem with a window of a script that uses a GPU; None if it is complete. The end of a
    window alone makes one call, to wait for kernels."""
    if not calls or (launches and not kernels):
        return TAKEN
    return SOME if kernels < launches else None


def count_kernels(path: Path) -> tuple[int, int, int]:
    """Calls of the GPU's interface, launches and kernels in the trace at ``path``, counted a piece
    at a time. Raises OSError if it cannot be read."""
    calls = launches = kernels = 0
    with path.open("rb") as file:
        # Each text to count is on one line.
        while lines := file.readlines(_PIECE):
            text = b"".join(lines)
            calls += len(_CALL.findall(text))
            launches += len(_LAUNCH.findall(text))
            kernels += len(_KERNEL.findall(text))
    return calls, launches, kernels


class _Samples(msgspec.Struct):
    """Times on the wall clock, ns; a sample names its frames by number, the outermost first."""

    every: int
    end: int
    frames: list[tuple[str, str, int]]
    samples: list[tuple[int, list[int]]]


_DECODER = msgspec.json.Decoder(_Samples)


def take_samples(spool: Spool, name: Any) -> list[list[Any]]:
    """Rows by ``STACK_COLUMNS`` from the spool file that a window's note names; removes it. Raises
    SpoolFileError if there is no such file, or it cannot be read."""
    path = spool_file(spool, name)
    try:
        samples = _DECODER.decode(path.read_bytes())
        rows = [stay.row(samples.every) for stay in stays(_intervals(samples), main_place)]
        path.unlink()
    except (OSError, IndexError, *DAMAGE) as error:
        raise SpoolFileError(f"{path.name}: {error}") from error
    return rows


def _intervals(samples: _Samples) -> list[StackInterval]:
    frames = [Frame(function, file, line) for function, file, line in samples.frames]
    ends = [*(at for at, _ in samples.samples[1:]), samples.end]
    return [
        StackInterval(at, max(end, at), tuple(frames[number] for number in stack))
        for (at, stack), end in zip(samples.samples, ends, strict=True)
        if stack
    ]
