"""What the first backward passes of a trial begin from, so that its runs can be compared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..hooks.around import put_around

if TYPE_CHECKING:
    from .session import Session


class Losses:
    """Keeps the losses of the first ``count`` backward passes, and notes them together.

    Copies stay where they are until then: reading one would wait for the GPU.
    """

    def __init__(self, torch: Any, session: Session, count: int) -> None:
        self._torch = torch
        self._session = session
        self._count = count
        self._kept: list[Any] = []

    def arm(self) -> None:
        """Listen to ``torch.autograd.backward``, where ``loss.backward()`` ends, too."""
        autograd = self._torch.autograd
        autograd.backward = put_around(self._torch, autograd.backward, self._enter)

    def _enter(self, args: Any, named: Any) -> None:
        if len(self._kept) >= self._count or self._session.recording is None:
            return
        tensors = args[0] if args else (named or {}).get("tensors")
        first = tensors[0] if isinstance(tensors, (list, tuple)) and tensors else tensors
        if not isinstance(first, self._torch.Tensor) or first.numel() != 1:
            return
        self._kept.append(first.detach().clone())
        if len(self._kept) == self._count:
            values = [float(one) for one in self._kept]
            # JSON has no such numbers.
            told = [value if value - value == 0 else str(value) for value in values]
            self._session.notes.write("losses", {"values": told})
