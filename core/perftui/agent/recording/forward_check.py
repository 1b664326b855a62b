"""Whether the time of forward passes is seen at all."""

from __future__ import annotations

from ..steps.detection import TRAIN, Boundary

STEPS_WITHOUT_FORWARD = 10
"""Training steps in a row without a call of any module, after which there is a warning."""

UNSEEN = (
    "the time of the forward pass is not known and counts as other: "
    "no module is called outside compiled functions"
)


class ForwardCheck:
    """Counts training steps in a row without a forward pass."""

    def __init__(self) -> None:
        self._without = 0

    def has_gone_unseen(self, boundary: Boundary) -> bool:
        """A step has ended; whether it is the one after which to warn with ``UNSEEN``."""
        if boundary.forwards or boundary.kind != TRAIN:
            self._without = 0
            return False
        self._without += 1
        return self._without == STEPS_WITHOUT_FORWARD
