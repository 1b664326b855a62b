"""When the fast path opens: once a step has ended in a way that the next ones will repeat."""

from __future__ import annotations

from threading import get_ident

from ..native.compiled import IS_COMPILED
from ..recording.lifetime import Lifetime
from ..recording.recording import Recording
from ..steps.detection import TRAIN, Boundary
from .fast_path import MOST_NUMBERS, MOST_OPTIMIZERS, STEPPED


class FastPathOpening(Lifetime):
    """Opens the fast path when a training step ends, and closes it for what it does not know."""

    def _is_on_fast_path(self) -> bool:
        """Whether the loop of this thread was known until now."""
        recording = self.recording
        if recording is None or not self.fast_path.is_open:
            return False
        return recording.thread == get_ident()

    def _close_fast_path(self, *, is_fed: bool) -> list[int]:
        """Close the fast path; returns the events of the current step, or none where it does not
        know all of them, or its steps do not end by a loader or without one as asked."""
        if not self._is_on_fast_path():
            return []
        events = self.fast_path.close()
        return events if self.fast_path.is_fed == is_fed else []

    def _open_fast_path(
        self, recording: Recording, ended: Boundary, events: list[int], *, is_fed: bool
    ) -> None:
        """Let the hooks of the next step go the fast path; ``events`` are those of the last one."""
        if ended.kind != TRAIN or not ended.forwards or not recording.has_stepped:
            return
        if self.inner_calls_cost or not IS_COMPILED:
            # What modules inside others cost is counted on the slow path only.
            return
        if is_fed and not self.loaders.feeds_training(self.fast_path.iterator()):
            return
        # The compiled hooks see no batch.
        if recording.knows_all() and not self.padding_checks.is_due(recording.index):
            state = is_fed, recording.steps.state()
            self.fast_path.learn(events, ended.micro_batches, state)
            self.fast_path.open(recording, self.meter, self.optimizers, [], is_fed=is_fed)

    def _open_without_loader(
        self,
        recording: Recording,
        ended: list[Boundary],
        number: int,
        now: int,
        events: list[int],
    ) -> None:
        """Optimizer ``number`` has stepped ``now``, after ``events`` on the fast path."""
        if self.loaders.any_live() or number >= MOST_NUMBERS:
            return
        if not recording.steps.ends_by_optimizers():
            return
        if self.optimizers.count > MOST_OPTIMIZERS:
            # Each one that it does not know would close it: 0.3 ms a step with 48 of them.
            return
        events = [*events, STEPPED + number] if events else []
        if events and not ended:
            self.fast_path.open(recording, self.meter, self.optimizers, events, is_fed=False)
        elif ended and ended[-1].end == now:
            self._open_fast_path(recording, ended[-1], events, is_fed=False)
