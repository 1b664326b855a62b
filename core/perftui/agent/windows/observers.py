"""What else is recorded while a window is open: stack samples, calls that wait for the GPU."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from threading import get_ident
from typing import TYPE_CHECKING, Any

from ...wire.control_page import ControlPage
from ...wire.spool import AgentOptions, Spool
from .stack_sampler import StackSampler

if TYPE_CHECKING:
    from ..sync_calls.counter import SyncCounter


class WindowObservers:
    """Begins with a window and ends with it; outside windows there is nothing of it.

    What has been seen is taken with the window that it belongs to. Where that fails the window goes
    on without it, and ``warn`` is called with the reason.
    """

    def __init__(
        self, torch: Any, spool: Path, options: AgentOptions, warn: Callable[[str], object]
    ) -> None:
        self._torch = torch
        self._spool = spool
        self._counts_syncs = options.syncs
        if options.syncs:
            # Imported at the start, since the script may be gone from its directory later.
            from ..sync_calls.counter import SyncCounter

            self._new_counter = SyncCounter
        self._warn = warn
        self._control = ControlPage(Spool(spool).control)
        self._sampler: StackSampler | None = None
        self._counter: SyncCounter | None = None
        self._running: list[StackSampler | SyncCounter] = []

    def begin(self, has_stacks: bool) -> None:
        """A window of the calling thread has begun; ``has_stacks`` where it records all lines."""
        self._sampler = self._counter = None
        every = self._control.sample_every
        # Python frames are recorded of all threads: ours would be among them.
        if every and not has_stacks:
            self._begin_sampling(every)
        if self._counts_syncs:
            self._begin_counting()

    def end(self) -> None:
        """Watch no more. Any thread may ask, several times."""
        while self._running:
            running = self._running.pop()
            try:
                running.end()
            except RuntimeError as error:
                self._warn(f"{error}: {error.__cause__ or 'no reason given'}")

    def take(self, number: int) -> dict[str, Any]:
        """What was seen in window ``number``, as data of its note.

        Raises:
            OSError: the spool cannot be written.
        """
        data: dict[str, Any] = {}
        name = f"stacks-{os.getpid()}-{number}.json"
        if self._sampler is not None and self._sampler.save(self._spool / name):
            data["stack_samples"] = name
        if self._counter is not None:
            data["syncs"] = {"gpu": self._counter.uses_gpu, "calls": self._counter.sites.found()}
        self._sampler = self._counter = None
        return data

    def _begin_sampling(self, every: int) -> None:
        sampler = StackSampler(get_ident(), every)
        try:
            sampler.start()
        except RuntimeError as error:
            self._warn(f"the stacks of the main thread were not sampled: {error}")
            return
        self._sampler = sampler
        self._running.append(sampler)

    def _begin_counting(self) -> None:
        counter = self._new_counter(self._torch)
        refusal = counter.begin()
        if refusal is not None:
            self._warn(refusal)
            return
        self._counter = counter
        self._running.append(counter)
