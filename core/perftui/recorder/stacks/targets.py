"""Which process is sampled next: the cost of sampling must not grow with ranks or workers."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import psutil

from perftui.recorder.stacks.sampler import Target
from perftui.run.layout import RankLayout

FIRST_SECONDS = 5
"""Of the first samples of a training: who watches a run waits no longer for its first lines."""

ALONE_SECONDS = 30
"""Of the others where one process trains: py-spy writes only at the end."""

SHARED_SECONDS = 10
"""Where several processes are sampled one after the other."""


class TrainingOrder:
    """Every second time the lowest rank, whose diagnosis is shown; else the others, in order.

    ``processes`` gives the directory of each process that trains, by its number.
    """

    def __init__(self, processes: Callable[[], Mapping[int, RankLayout]]) -> None:
        self._processes = processes
        self._count = 0

    def __call__(self) -> Target | None:
        """The next to sample; None where nothing trains now."""
        known = self._processes().items()
        found = [(pid, layout) for pid, layout in known if psutil.pid_exists(pid)]
        if not found:
            return None
        first, *others = sorted(found, key=lambda one: _rank(one[1]))
        number = self._count
        self._count += 1
        if not others:
            return Target(*first, ALONE_SECONDS if number else FIRST_SECONDS)
        pid, layout = others[number // 2 % len(others)] if number % 2 else first
        return Target(pid, layout, SHARED_SECONDS if number else FIRST_SECONDS)


class WorkerOrder:
    """The workers of all ranks, one after the other: those of a loader do the same work.

    ``workers`` gives for each process the directory of its rank and the number of its loader.
    """

    def __init__(self, workers: Callable[[], Mapping[int, tuple[RankLayout, int]]]) -> None:
        self._workers = workers
        self._last = (-1, -1)

    def __call__(self) -> Target | None:
        """The next to sample; None where no worker is known now."""
        found = {
            (_rank(layout), pid): (layout, loader)
            for pid, (layout, loader) in self._workers().items()
            if psutil.pid_exists(pid)
        }
        if not found:
            return None
        self._last = min((key for key in found if key > self._last), default=min(found))
        layout, loader = found[self._last]
        return Target(self._last[1], layout, SHARED_SECONDS, loader)


def _rank(layout: RankLayout) -> int:
    return int(layout.root.name.removeprefix("rank-"))
