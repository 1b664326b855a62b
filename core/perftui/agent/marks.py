"""Marks that a script sets itself: ``perftui.range`` and ``perftui.step``.

It is part of ``perftui``, and is the whole of it for a profiled script whose interpreter has no
perftui. It imports nothing: scripts pay for it in every process.
"""

from __future__ import annotations

import sys
from _thread import get_ident

TYPE_CHECKING = False
if TYPE_CHECKING:
    # Importing typing would take longer than everything else here together.
    from collections.abc import Callable
    from types import TracebackType
    from typing import Any, Literal, ParamSpec, TypeVar

    P = ParamSpec("P")
    R = TypeVar("R")

__all__ = ["range", "step"]

LISTENER = "_perftui_marks"
"""Module by which the agent of this process, if there is one, is told of marks. Agent and perftui
may be of different versions: nothing but its ``begin`` and ``step`` is used."""

KINDS = ("train", "eval", "infer")

_modules: dict[str, Any] = sys.modules


class range:  # noqa: A001, N801 - scripts write perftui.range
    """Name a part of the script, as a context manager or as a decorator.

    >>> with range("augment"):
    ...     pass
    >>> @range("collate")
    ... def collate(samples):
    ...     return samples

    The steps that perftui profiles show the range on the timeline and, summed by name, on Ops; with
    ``--nvtx`` and ``--nsys`` it is an NVTX range. Only the thread that trains is profiled, and with
    ``--nsys`` all threads. A range that goes on when a step ends is shown once in each of both
    steps; one that began before the profiled steps is not shown. Elsewhere, and where the process
    is not profiled, it does nothing, in about 0.5 us. A range may be used again, also by several
    threads at once.

    The decorator suits functions; of a generator or a coroutine it would mark the making alone.
    Raises TypeError if ``name`` is no ``str``."""

    __slots__ = ("_opened", "name")

    def __init__(self, name: str) -> None:
        if type(name) is not str and not isinstance(name, str):
            raise TypeError(f"the name of a range is a str, not {type(name).__name__}")
        self.name = name
        self._opened: list[tuple[int, Callable[[], object]]] = []

    def __enter__(self) -> range:
        if LISTENER in _modules:
            end = _modules[LISTENER].begin(self.name)
            if end is not None:
                self._opened.append((get_ident(), end))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._opened:
            self._end(get_ident())

    def _end(self, thread: int) -> None:
        for entry in self._opened[::-1]:
            if entry[0] == thread:
                self._opened.remove(entry)
                entry[1]()
                return

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """``function`` with the range around each call."""
        from functools import wraps

        name = self.name

        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            with range(name):
                return function(*args, **kwargs)

        return call


def step(kind: Literal["train", "eval", "infer"] = "train") -> None:
    """End a step of the training, here and now.

    For loops whose steps perftui does not find: without a module, an optimizer of ``torch.optim``
    or a data loader, or where a step is something else. From the first call on only these calls end
    steps, in the whole process: call it once in each step, at its end, and with ``"eval"`` or
    ``"infer"`` at the end of what is no training, which is part of the next training step
    otherwise. What is ended by the first call is the step that goes on, unless perftui has just
    found its end itself; where perftui has seen nothing before, the first call begins the first
    step. Calls within a forward or backward pass, or in a thread other than the one that trains,
    are ignored. Where the process is not profiled it does nothing, in 0.1 us.

    Raises:
        ValueError: ``kind`` is none of the three.
        SystemExit: it was the last step that ``--max-steps`` lets the script run.
    """
    if kind not in KINDS:
        raise ValueError(f"the kind of a step is train, eval or infer, not {kind!r}")
    if LISTENER in _modules:
        _modules[LISTENER].step(kind)
