"""Losses that the backward passes of a trial begin from, to compare its runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..hooks.around import put_around

if TYPE_CHECKING:
    from .session import Session

MOST_PASSES = 64
"""Backward passes of one step on average: a script without steps of an optimizer has one step."""


class Losses:
    """Keeps the losses of the first ``count`` steps with a backward pass, and notes them together.

    Copies stay on their device until then: reading one would wait for the GPU.
    """

    def __init__(self, torch: Any, session: Session, count: int) -> None:
        self._torch = torch
        self._session = session
        self._count = count
        self._losses: dict[int, list[Any]] = {}
        """Losses by number of the step."""
        self._passes = 0
        self._is_noted = False

    def arm(self) -> None:
        """Listen to ``torch.autograd.backward``, which ``loss.backward()`` calls, too."""
        autograd = self._torch.autograd
        autograd.backward = put_around(self._torch, autograd.backward, self._enter)

    def _enter(self, args: Any, kwargs: Any) -> None:
        recording = self._session.recording
        if self._is_noted or recording is None:
            return
        step = recording.index
        if step not in self._losses and len(self._losses) >= self._count:
            self._note()
            return
        tensors = args[0] if args else (kwargs or {}).get("tensors")
        first = tensors[0] if isinstance(tensors, (list, tuple)) and tensors else tensors
        if not isinstance(first, self._torch.Tensor) or first.numel() != 1:
            return
        self._passes += 1
        if self._passes <= self._count * MOST_PASSES:
            self._losses.setdefault(step, []).append(first.detach().clone())

    def _note(self) -> None:
        """Write the sum of each step's losses: a step may run a backward pass for each."""
        self._is_noted = True
        values = [sum(map(float, losses)) for losses in self._losses.values()]
        self._losses.clear()
        # JSON has no NaN and no infinity.
        texts = [value if value - value == 0 else str(value) for value in values]
        self._session.notes.write("losses", {"values": texts})
