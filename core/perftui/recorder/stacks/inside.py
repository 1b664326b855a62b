"""Reads what the agent saw of its own main thread while a window was open."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from perftui.recorder.spool.windows import WindowError
from perftui.recorder.stacks.events import Frame, StackInterval
from perftui.recorder.stacks.places import main_place, stays
from perftui.run.damage import DAMAGE
from perftui.wire.spool import Spool


class _Looks(msgspec.Struct):
    """Times on the wall clock, ns; a look names its frames by number, the outermost first."""

    every: int
    end: int
    frames: list[tuple[str, str, int]]
    looks: list[tuple[int, list[int]]]


_DECODER = msgspec.json.Decoder(_Looks)


def take_samples(spool: Spool, name: Any) -> list[list[Any]]:
    """Rows by ``STACK_COLUMNS`` of the file of the spool that a window's note names; it is removed.

    Raises:
        WindowError: there is no such file, or it cannot be read.
    """
    path = spool.root / Path(str(name)).name
    if not isinstance(name, str) or path.is_symlink() or not path.is_file():
        raise WindowError(f"the agent named looks that are not there: {name!r}")
    try:
        looks = _DECODER.decode(path.read_bytes())
        rows = [stay.row(looks.every) for stay in stays(_intervals(looks), main_place)]
        path.unlink()
    except (OSError, IndexError, *DAMAGE) as error:
        raise WindowError(f"{path.name}: {error}") from error
    return rows


def _intervals(looks: _Looks) -> list[StackInterval]:
    frames = [Frame(function, file, line) for function, file, line in looks.frames]
    ends = [*(at for at, _ in looks.looks[1:]), looks.end]
    return [
        StackInterval(at, max(end, at), tuple(frames[number] for number in stack))
        for (at, stack), end in zip(looks.looks, ends, strict=True)
        if stack
    ]
