"""How a training is set up: observed in its first steps, and noted once."""

from __future__ import annotations

from typing import Any

from ..settings.note import autocast, detects_anomalies, settings_facts
from ..windows.torch_window import is_profiling

SETTINGS_AFTER = 2
"""Training steps after which the settings are noted: what is compiled or made late is there by
then, and later steps may end on the fast path, which notifies nobody of them."""


class Setup:
    """What is seen of the training's setup, until it is noted."""

    def __init__(self) -> None:
        self.until = SETTINGS_AFTER
        """Training steps until the settings are noted; 0 once they are."""
        self._autocast: dict[str, str] | None = None
        """What was in use around the last of the first forward passes."""
        self._anomaly = False
        """Whether anomalies were looked for in the first forward and backward passes."""

    def in_forward(self, torch: Any) -> None:
        """The model is called in training."""
        self._autocast = autocast(torch)
        self.in_backward(torch)

    def in_backward(self, torch: Any) -> None:
        """The autograd engine is called."""
        self._anomaly = self._anomaly or detects_anomalies(torch)

    def has_trained(self, torch: Any) -> bool:
        """A training step has ended; whether it is time for the note: not while a profiler runs,
        which would record that as work of the script."""
        self.until -= 1
        if not self.until and is_profiling(torch):
            self.until = 1
        return not self.until

    @property
    def is_late(self) -> bool:
        """Whether the note is overdue because a profiler was running."""
        return 0 < self.until < SETTINGS_AFTER

    def note(self, torch: Any, optimizers: Any, modules: list[Any]) -> dict[str, Any]:
        """The data of the ``settings`` note."""
        return settings_facts(torch, optimizers, modules, self._autocast, self._anomaly)
