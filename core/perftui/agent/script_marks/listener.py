"""Lets the marks that a script sets reach the recording."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from threading import get_ident
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ..safety.guarded import guarded
from ..windows.ranges import printable_name
from .marks import LISTENER

if TYPE_CHECKING:
    from ..overhead.meter import Meter
    from ..recording.session import Session
    from ..windows.windows import Windows


class Listener(ModuleType):
    """The module ``LISTENER``, which ``perftui.range`` and ``perftui.step`` look for."""

    def __init__(self, torch: Any, session: Session) -> None:
        super().__init__(LISTENER)
        self._is_compiling = torch.compiler.is_compiling
        self._session = session

    @property
    def meter(self) -> Meter:
        """Where the time of what is guarded goes."""
        return self._session.meter

    def guards(self, error: BaseException) -> bool:
        """Stop the recording for an error of ours."""
        return self._session.guards(error)

    def begin(self, name: str) -> Callable[[], object] | None:
        """A range begins; returns what ends it, None where it is not recorded."""
        # First, so that the compiler, to which it is a constant, makes no guard of what follows.
        if self._is_compiling() or self._open_windows() is None:
            return None
        return self._begin(name) or None

    def step(self, kind: str) -> None:
        """The script says that a step of that kind has ended."""
        if not self._is_compiling():
            self._session.end_step(kind)

    def _open_windows(self) -> Windows | None:
        recording = self._session.recording
        windows = recording.windows if recording is not None else None
        return windows if windows is not None and windows.is_open else None

    @guarded
    def _begin(self, name: str) -> Callable[[], object] | None:
        windows = self._open_windows()
        marks = windows.marks if windows is not None else None
        if windows is None or marks is None:
            return None
        name = printable_name(name)
        if windows.thread == get_ident():
            return partial(self._end, marks.end_range, marks.begin_range(name))
        handle = marks.begin_elsewhere(name)
        return None if handle is None else partial(self._end, marks.end_elsewhere, handle)

    @guarded
    def _end(self, end: Callable[[Any], object], opened: Any) -> None:
        end(opened)


def listen(torch: Any, session: Session) -> None:
    """Be there for the marks of this process."""
    sys.modules[LISTENER] = Listener(torch, session)
