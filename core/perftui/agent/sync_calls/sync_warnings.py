"""torch's own warnings of operations that made the host wait for the GPU, for those without a name.

``torch.cuda.set_sync_debug_mode`` has torch warn at each of them. Those warnings are taken out of
the script's: they are counted and never shown, whatever its filters are.
"""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Callable
from types import FrameType
from typing import Any

_TEXT = re.compile(
    "called a synchronizing CUDA operation|Synchronization debug mode is a prototype"
)

_WARNS = 1
"""The mode, by torch's number."""


class SyncWarnings:
    """Calls ``report`` with the frame from which each operation was called that waited."""

    def __init__(self, torch: Any, report: Callable[[FrameType | None], object]) -> None:
        self._torch = torch
        self._report = report
        self._filter = ("always", _TEXT, Warning, None, 0)
        self._show = self._shown
        self._before: Callable[..., Any] = warnings.showwarning
        self._is_on = False

    def begin(self) -> None:
        """Begin, unless the script itself has asked torch for these warnings."""
        if self._torch.cuda.get_sync_debug_mode():
            return
        self._is_on = True
        self._before = warnings.showwarning
        # Not by ``warnings.filterwarnings``: that would have each warning shown again that the
        # interpreter shows once a line.
        warnings.filters.insert(0, self._filter)  # type: ignore[attr-defined]
        warnings.showwarning = self._show
        self._torch._C._cuda_set_sync_debug_mode(_WARNS)

    def end(self) -> None:
        """Leave everything as it was, but for what the script has changed meanwhile."""
        if not self._is_on:
            return
        self._is_on = False
        if self._torch.cuda.get_sync_debug_mode() == _WARNS:
            self._torch._C._cuda_set_sync_debug_mode(0)
        if warnings.showwarning is self._show:
            warnings.showwarning = self._before
        filters: Any = warnings.filters
        for at, one in enumerate(filters):
            if one is self._filter:
                del filters[at]
                break

    def _shown(self, message: Any, *args: Any, **kwargs: Any) -> None:
        if not _TEXT.search(str(message)):
            self._before(message, *args, **kwargs)
        elif self._is_on and "called" in str(message):
            self._report(sys._getframe(1))
