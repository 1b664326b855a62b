"""Detects whether the script changes its weights without any optimizer of torch."""

from __future__ import annotations

from typing import Any
from weakref import ReferenceType, ref

UNKNOWN = -1

MOST = 8
"""Modules of which one parameter each is looked at."""


class Weights:
    """One trainable parameter of each outermost module, and how often it was written to.

    torch counts the writes in place to each tensor, which costs nothing to look at. A script that
    writes through ``.data`` is not seen.
    """

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._parameters: list[ReferenceType[Any]] = []
        self._versions: list[int] = []

    def of(self, module: Any) -> None:
        """``module`` is called for the first time."""
        if len(self._parameters) >= MOST:
            return
        with self._unseen():
            parameter = next(filter(_is_trained, module.parameters()), None)
        if parameter is not None:
            self._parameters.append(ref(parameter))

    def remember(self) -> None:
        """A backward pass begins."""
        self._versions = self._now()

    def have_changed(self) -> bool:
        """Whether any has been written to since."""
        return any(map(_was_written, self._versions, self._now()))

    def _now(self) -> list[int]:
        alive = (one() for one in self._parameters)
        with self._unseen():
            return [UNKNOWN if one is None else one._version for one in alive]

    def _unseen(self) -> Any:
        """Keeps the script's modes and subclasses of tensors from seeing our reads."""
        return self._torch._C.DisableTorchFunction()


def _was_written(before: int, after: int) -> bool:
    return before != after and UNKNOWN not in (before, after)


def _is_trained(parameter: Any) -> bool:
    """Tensors of inference mode count no writes."""
    return bool(parameter.requires_grad) and not parameter.is_inference()
