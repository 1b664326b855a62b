"""Reads the stack samples that the agent took of its own main thread inside a window."""

from __future__ import annotations

from typing import Any

import msgspec

from perftui.recorder.spool.windows import SpoolFileError, spool_file
from perftui.recorder.stacks.events import Frame, StackInterval
from perftui.recorder.stacks.places import main_place, stays
from perftui.run.versioned import DAMAGE
from perftui.wire.spool import Spool


class _Samples(msgspec.Struct):
    """Times on the wall clock, ns; a sample names its frames by number, the outermost first."""

    every: int
    end: int
    frames: list[tuple[str, str, int]]
    samples: list[tuple[int, list[int]]]


_DECODER = msgspec.json.Decoder(_Samples)


def take_samples(spool: Spool, name: Any) -> list[list[Any]]:
    """Rows by ``STACK_COLUMNS`` of the file of the spool that a window's note names; it is removed.

    Raises:
        SpoolFileError: there is no such file, or it cannot be read.
    """
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
