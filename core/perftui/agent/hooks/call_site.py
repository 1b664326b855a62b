"""Finds where in the user's code a call was made."""

from __future__ import annotations

import os
import sys
from itertools import islice
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

FRAMEWORKS = (
    "torch",
    "lightning",
    "lightning_fabric",
    "pytorch_lightning",
    "accelerate",
    "transformers",
    "torchdata",
    "ignite",
)
"""Packages that build loaders on behalf of the user's code."""


class CallSite(NamedTuple):
    """A call in a source file; ``end_line`` is ``line`` where the interpreter does not know."""

    file: str
    line: int
    end_line: int
    function: str

    def covers(self, file: str, line: int) -> bool:
        """Whether the call at ``file:line`` is this one."""
        has_line = self.line <= line <= self.end_line
        return has_line and os.path.realpath(self.file) == os.path.realpath(file)


def find_call_site() -> CallSite | None:
    """The newest frame that is neither ours nor a framework's."""
    frame: FrameType | None = sys._getframe(1)
    hidden = hidden_directories()
    while frame is not None and frame.f_code.co_filename.startswith(hidden):
        frame = frame.f_back
    return _site(frame) if frame is not None else None


def hidden_directories() -> tuple[str, ...]:
    """Directories of the agent and the frameworks that are loaded.

    The directory itself, not a part of the path: people keep their own code in ``torch/`` too.
    """
    directories = [str(Path(__file__).parents[1]) + os.sep]
    for name in FRAMEWORKS:
        paths: Any = getattr(sys.modules.get(name), "__path__", ())
        directories += [path + os.sep for path in paths if isinstance(path, str)]
    return tuple(directories)


def _site(frame: FrameType) -> CallSite:
    code = frame.f_code
    line = end = frame.f_lineno
    if sys.version_info >= (3, 11):
        # One position for each instruction, which has two bytes.
        first, last, _, _ = next(islice(code.co_positions(), frame.f_lasti // 2, None))
        line, end = first or line, last or end
    return CallSite(os.path.realpath(code.co_filename), line, end, code.co_name)
