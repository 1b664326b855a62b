"""Python frames of a trace that was recorded with stacks: ``train.py(12): forward``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from pathlib import PurePath

_FRAME = re.compile(r"(?P<file>.+)\((?P<line>\d+)\): (?P<function>.+)", re.DOTALL)
_INSTALLED = frozenset({"site-packages", "dist-packages"})
_BETWEEN = frozenset(
    {
        *("abc.py", "contextlib.py", "copy.py", "functools.py", "inspect.py", "queue.py"),
        *("runpy.py", "threading.py", "typing.py", "weakref.py"),
        *("asyncio", "collections", "concurrent", "importlib", "logging", "multiprocessing"),
    }
)
"""Files and directories of the standard library that stand between a script and torch. The profiler
cuts off the directory that modules are found in, so that its other modules cannot be distinguished
from a script's."""
_PACKAGES = frozenset(
    {
        "torch",
        "functorch",
        "triton",
        "accelerate",
        "einops",
        "numpy",
        "tqdm",
        "IPython",
        "ipykernel",
    }
)
"""Packages that stand between a model and its operators; the profiler cuts off ``site-packages``,
too. Lines of packages of models, such as transformers, tell more than the line that calls those."""
_AGENT = ("perftui", "agent")
"""Where our own hooks are, which stand between a script and what it calls."""


@dataclass(frozen=True)
class SourceLine:
    """A function and a line of it; text as the trace has it.

    PyTorch 2.13 names the line at which the function begins, of those that ran already as the
    recording began the line that they were at. Call stacks of old traces have the line of the call.
    """

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} {self.function}"


def source_line(name: str) -> SourceLine | None:
    """The line that a frame's name names, where it is no library's; else None."""
    found = _FRAME.fullmatch(name)
    if found is None or is_library(found["file"]):
        return None
    return SourceLine(found["file"], int(found["line"]), found["function"])


def is_library(file: str) -> bool:
    """Whether the code came with Python, a package or us. A checkout called ``torch`` did not."""
    parts = PurePath(file).parts
    first = parts[0] if parts else ""
    standard = first in _BETWEEN or any(part.startswith("python3.") for part in parts)
    installed = first in _PACKAGES or not _INSTALLED.isdisjoint(parts) or _AGENT in pairwise(parts)
    return installed or standard or file.startswith("<")
