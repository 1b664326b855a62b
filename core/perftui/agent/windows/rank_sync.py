"""Rank sync: all ranks of a host open their windows at the same step.

Where one rank is held up by its window, the others wait for it in their next all-reduce, and what
they record there is that wait. So whoever wants a window plans it some steps ahead on the page that
all share, and everybody opens one then. What counts is training steps, where there are any: of
evaluation some ranks may do more than others.
"""

from __future__ import annotations

from ...wire.control_page import ControlPage
from ..overhead.budget import Budget
from ..startup.process import ranks

LEAST_LEAD = 2
MOST_LEAD = 8
LEAD_NS = 1_000_000_000
"""Steps between plan and window: ranks that wait for each other are a step or two apart, more
where steps are short and only queued on a GPU. Long steps are not counted by the dozen."""


class RankSync:
    """Plans windows with the other ranks. A process that trains alone never waits for a plan."""

    def __init__(self, control: ControlPage) -> None:
        self._control = control
        self._seen = control.step
        self._cost_before = control.cost
        """What windows had cost processes that were here before: torchrun starts ranks anew."""
        self.is_one_of_many = False
        """Whether others open their windows at the same steps."""

    def is_due(self, trained: int, is_wanted: bool, lead: int) -> bool:
        """Whether to prepare a window after ``trained`` steps.

        One that ``is_wanted`` is planned ``lead`` steps ahead.
        """
        step = self._control.step
        if is_wanted or step != self._seen:
            # The process group may have been made after the recording began.
            self._seen = step
            self.is_one_of_many = self._control.is_shared and ranks()["world_size"] > 1
        if not self.is_one_of_many:
            return is_wanted
        if is_wanted and not trained <= step <= trained + MOST_LEAD:
            # What is planned is over, or was for ranks that have been started anew since.
            step = trained + lead
            self._control.plan(step)
        return trained <= step <= trained + 1

    def can_wait(self, trained: int) -> bool:
        """Whether no window is planned for a step after ``trained``, as far as is known."""
        return not self.is_one_of_many or self._seen < trained

    @property
    def plan(self) -> tuple[int, int]:
        """Where the plan lies in memory, 0 for nowhere, and which one is known."""
        return self._control.step_address, self._seen

    def may_start(self, trained: int, at_once: bool) -> bool:
        """Whether the prepared window opens now; ``at_once`` if it need not wait for others."""
        if self.is_one_of_many:
            return trained >= self._control.step
        return at_once

    def pay(self, budget: Budget) -> None:
        """Report to the others what windows have cost here."""
        if self.is_one_of_many:
            self._control.raise_cost(self._cost_before + budget.windows)

    def learn(self, budget: Budget) -> None:
        """Count what windows have cost where they cost most: all have waited for that."""
        if self.is_one_of_many:
            budget.raise_to(self._control.cost - self._cost_before)


def usual_lead(typical: int) -> int:
    """How many steps of ``typical`` ns ahead a window is planned, so that all ranks learn of it."""
    steps = LEAD_NS // typical if typical else MOST_LEAD
    return max(LEAST_LEAD, min(steps, MOST_LEAD))
