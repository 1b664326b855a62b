"""What else is watched while a window is open: the main thread's lines, the calls that wait."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from threading import get_ident
from typing import Any

from ...wire.control_page import ControlPage
from ...wire.options import AgentOptions
from ...wire.spool import Spool
from ..sync_calls.counter import SyncHunt
from .stack_sampler import InnerLooks


class Witnesses:
    """Begins with a window and ends with it; outside windows there is nothing of it.

    What has been seen is taken with the window that it belongs to. Where it fails the window goes
    on without it, and ``say`` is told.
    """

    def __init__(
        self, torch: Any, spool: Path, options: AgentOptions, say: Callable[[str], object]
    ) -> None:
        self._torch = torch
        self._spool = spool
        self._hunts = options.syncs
        self._say = say
        self._control = ControlPage(Spool(spool).control)
        self._looks: InnerLooks | None = None
        self._hunt: SyncHunt | None = None
        self._running: list[InnerLooks | SyncHunt] = []

    def begin(self, has_stacks: bool) -> None:
        """A window of the calling thread has begun; ``has_stacks`` where it records all lines."""
        self._looks = self._hunt = None
        every = self._control.sample_every
        # Python frames are recorded of all threads: ours would be among them.
        if every and not has_stacks:
            self._begin_looks(every)
        if self._hunts:
            self._begin_hunt()

    def end(self) -> None:
        """Watch no more. Any thread may ask, several times."""
        while self._running:
            running = self._running.pop()
            try:
                running.end()
            except RuntimeError as error:
                self._say(f"{error}: {error.__cause__ or 'nobody knows why'}")

    def take(self, number: int) -> dict[str, Any]:
        """What was seen in window ``number``, as data of its note.

        Raises:
            OSError: the spool cannot be written.
        """
        data: dict[str, Any] = {}
        name = f"looks-{os.getpid()}-{number}.json"
        if self._looks is not None and self._looks.save(self._spool / name):
            data["looks"] = name
        if self._hunt is not None:
            data["syncs"] = {"gpu": self._hunt.uses_gpu, "calls": self._hunt.found()}
        self._looks = self._hunt = None
        return data

    def _begin_looks(self, every: int) -> None:
        looks = InnerLooks(get_ident(), every)
        try:
            looks.start()
        except RuntimeError as error:
            self._say(f"the main thread was not looked at: {error}")
            return
        self._looks = looks
        self._running.append(looks)

    def _begin_hunt(self) -> None:
        hunt = SyncHunt(self._torch)
        refusal = hunt.begin()
        if refusal is not None:
            self._say(refusal)
            return
        self._hunt = hunt
        self._running.append(hunt)
