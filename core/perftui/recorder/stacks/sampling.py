"""Samples the stacks of the training and its data-loader workers into journals."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil

from perftui.recorder.faults import FaultLog
from perftui.recorder.journals.sink import DownsamplingSink, stack_journal
from perftui.recorder.stacks.places import main_place, stays, worker_place
from perftui.recorder.stacks.pyspy import REFUSED, Absent, Failed, Sampler, Seen, Target, first_rate
from perftui.run.journal import Column
from perftui.run.layout import RankLayout
from perftui.run.stack_samples import LOCK_COLUMNS, STACK_COLUMNS, WORKER_STACK_COLUMNS

CHECK_SECONDS = 0.5
"""Between two checks whether samples are complete."""

WORKERS_PART = 2
"""Workers are sampled so many times less often than main threads: they run for longer, and which
line is dear needs no more."""

INSTEAD = "so source lines are known in profiled windows only (--stack-rate 0 turns sampling off)"

ABSENT = f"py-spy is not installed (pip install py-spy), {INSTEAD}"
NOT_ALLOWED = (
    "the system does not let py-spy read the training (kernel.yama.ptrace_scope above 1, or a "
    f"container without SYS_PTRACE), {INSTEAD}"
)
FAILED = "py-spy failed, "


FIRST_SECONDS = 5
"""Length of a training's first sampling: who watches a run waits no longer for its first lines."""

ROUND_SECONDS = 2
"""Length of the first sampling of each of several processes: differences are seen early."""

ALONE_SECONDS = 30
"""Length of later samplings where one process trains: py-spy writes only at the end."""

SHARED_SECONDS = 10
"""Where several processes are sampled one after the other."""


LOCK_SECONDS = 5
LOCK_EVERY = 8
"""One in this many turns of a process with several Python threads is about who holds its lock."""


class TrainingOrder:
    """Every second time the lowest rank, whose diagnosis is shown; else the others, in order.

    Processes that are in ``several`` have more threads of Python than the main one. ``processes``
    gives the directory of each process that trains, by its number.
    """

    def __init__(self, processes: Callable[[], Mapping[int, RankLayout]]) -> None:
        self._processes = processes
        self._count = 0
        self._until_lock = 0
        self.several: set[int] = set()

    def __call__(self) -> Target | None:
        """The next to sample; None where nothing trains now."""
        known = self._processes().items()
        found = [(pid, layout) for pid, layout in known if psutil.pid_exists(pid)]
        if not found:
            return None
        first, *others = sorted(found, key=lambda one: _rank(one[1]))
        number = self._count
        self._count += 1
        if first[0] in self.several and not self._until_lock:
            self._until_lock = LOCK_EVERY
            return Target(*first, LOCK_SECONDS, of_lock=True)
        self._until_lock = max(self._until_lock - 1, 0)
        if not others:
            seconds = ALONE_SECONDS if number else FIRST_SECONDS
            return Target(*first, seconds, is_first=not number)
        pid, layout = others[number // 2 % len(others)] if number % 2 else first
        is_first = number < 2 * len(others)
        seconds = ROUND_SECONDS if is_first else SHARED_SECONDS
        return Target(pid, layout, seconds, is_first=is_first)


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


class StackSampling:
    """Samples what trains and its workers, as long as py-spy is there and may.

    ``processes`` and ``workers`` are those of ``TrainingOrder`` and ``WorkerOrder``. ``give_up`` is
    called, once, with the reason why there is nothing more to come.
    """

    def __init__(
        self,
        rate: int,
        processes: Callable[[], Mapping[int, RankLayout]],
        workers: Callable[[], Mapping[int, tuple[RankLayout, int]]],
        directory: Path,
        faults: FaultLog,
        give_up: Callable[[str], object],
    ) -> None:
        slower = max(rate // WORKERS_PART, 1)
        self._faults = faults
        self._give_up = give_up
        self._has_ended = False
        self._every = 1_000_000_000 // rate
        self._every_first = 1_000_000_000 // first_rate(rate)
        self._every_worker = 1_000_000_000 // slower
        self._journals: dict[Path, DownsamplingSink] = {}
        self._order = TrainingOrder(processes)
        self._training = Sampler("training", rate, self._order, self._keep_main, directory)
        self._workers = Sampler(
            "worker", slower, WorkerOrder(workers), self._keep_worker, directory
        )
        self._samples_workers = True

    def advance(self) -> None:
        """Take what is complete and begin what is due."""
        if self._has_ended:
            return
        try:
            self._training.advance()
            self._advance_workers()
        except Absent:
            self._end(ABSENT)
        except Failed as error:
            refused = REFUSED in str(error)
            failed = f"{FAILED}{INSTEAD}: {str(error) or 'no reason given'}"
            self._end(NOT_ALLOWED if refused else failed)

    def interrupt(self) -> None:
        """The training has ended: have what was seen written; ``finish`` waits for it."""
        self._training.interrupt()
        self._workers.interrupt()

    def finish(self) -> None:
        """Take the last samples and close the journals."""
        self.interrupt()
        self._training.finish()
        self._workers.finish()
        for journal in self._journals.values():
            journal.close()

    def _advance_workers(self) -> None:
        """Sample workers; failing there does not end the samples of the training."""
        if self._samples_workers:
            try:
                self._workers.advance()
            except Failed as error:
                self._samples_workers = False
                self._faults.report("stack samples of workers", f"{error}; they end")

    def _end(self, why: str) -> None:
        self._has_ended = True
        self.interrupt()
        self._give_up(why)

    def _keep_main(self, target: Target, seen: Seen) -> None:
        if target.of_lock:
            self._keep_lock(target, seen)
            return
        if seen.others:
            self._order.several.add(target.pid)
        every = self._every_first if target.is_first else self._every
        rows = [stay.row(every) for stay in stays(seen.main, main_place)]
        self._append(target.layout.stacks, STACK_COLUMNS, rows)

    def _keep_lock(self, target: Target, seen: Seen) -> None:
        turn = [seen.observed, seen.idle]
        rows = [
            [*stay.row(self._every), *turn]
            for thread in seen.others
            for stay in stays(thread, main_place)
        ]
        self._append(target.layout.lock_stacks, LOCK_COLUMNS, rows)

    def _keep_worker(self, target: Target, seen: Seen) -> None:
        whose = [target.pid, target.loader]
        rows = [[*stay.row(self._every_worker), *whose] for stay in stays(seen.main, worker_place)]
        self._append(target.layout.worker_stacks, WORKER_STACK_COLUMNS, rows)

    def _append(self, path: Path, columns: Sequence[Column], rows: list[list[Any]]) -> None:
        if path not in self._journals:
            self._journals[path] = stack_journal(path, columns, self._faults)
        self._journals[path].append(rows)
