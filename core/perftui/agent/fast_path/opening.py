"""When the lane opens: once a step has ended as those to come will."""

from __future__ import annotations

from threading import get_ident

from ..native.compiled import IS_COMPILED
from ..recording.lifetime import Lifetime
from ..recording.recording import Recording
from ..steps.machine import TRAIN, Boundary
from .fast_path import MOST_NUMBERS, MOST_OPTIMIZERS, STEPPED


class ShortWay(Lifetime):
    """Opens the lane where a training step has ended, and closes it for what it does not know."""

    def _is_on_lane(self) -> bool:
        """Whether the loop of this thread was known until now."""
        recording = self.recording
        if recording is None or not self.lane.is_open:
            return False
        return recording.thread == get_ident()

    def _close_lane(self, *, is_fed: bool) -> list[int]:
        """The events of the step that goes on, where the lane knows all of it, and its steps end
        by a loader or without one as asked."""
        if not self._is_on_lane():
            return []
        events = self.lane.close()
        return events if self.lane.is_fed == is_fed else []

    def _open_lane(
        self, recording: Recording, ended: Boundary, events: list[int], *, is_fed: bool
    ) -> None:
        """Let the hooks of the next step go the short way; ``events`` are those of the last one."""
        if ended.kind != TRAIN or not ended.forwards or not recording.has_stepped:
            return
        if self.inner_calls_cost or not IS_COMPILED:
            # What modules inside others cost is counted on the long way only.
            return
        if is_fed and not self.loaders.feeds_training(self.lane.iterator()):
            return
        if recording.knows_all():
            state = is_fed, recording.steps.state()
            self.lane.learn(events, ended.micro_batches, state)
            self.lane.open(recording, self.meter, self.optimizers, [], is_fed=is_fed)

    def _open_lane_without_loader(
        self,
        recording: Recording,
        ended: list[Boundary],
        number: int,
        now: int,
        events: list[int],
    ) -> None:
        """Optimizer ``number`` has stepped ``now``, after ``events`` on the lane."""
        if self.loaders.any_live() or number >= MOST_NUMBERS:
            return
        if not recording.steps.ends_by_optimizers():
            return
        if self.optimizers.count > MOST_OPTIMIZERS:
            # Each one that the lane does not know would close it: 0.3 ms a step with 48 of them.
            return
        events = [*events, STEPPED + number] if events else []
        if events and not ended:
            self.lane.open(recording, self.meter, self.optimizers, events, is_fed=False)
        elif ended and ended[-1].end == now:
            self._open_lane(recording, ended[-1], events, is_fed=False)
