"""The data loaders of one process: which are live, what is known of each, what it feeds."""

from __future__ import annotations

from itertools import count
from typing import Any, Optional
from weakref import WeakKeyDictionary, WeakSet

from ..hooks.call_site import CallSite
from ..output.notes import Notes
from ..overrides.request import Outcome
from ..steps.detection import TRAIN
from .loader import fetches_itself, loader_facts
from .worker_times import name_loader, worker_pids

Origins = WeakKeyDictionary[Any, tuple[Optional[CallSite], Outcome]]
"""Where each loader was made, and what became of its overrides."""


MOST_ALIKE = 1000
"""Kinds of loaders that are remembered: scripts make a handful, unless no two are alike."""


class Loaders:
    """Numbers loaders from 1 as they are first used, and notes the facts of each once.

    A loader that is made anew for each epoch is one: it has the number of the one like it before,
    once that is gone. A script that makes millions leaves no more notes than one that keeps its.
    """

    def __init__(self, torch: Any, notes: Notes, origins: Origins) -> None:
        """``origins`` is what constructors report; a forked child takes it over from its parent."""
        self._torch = torch
        self._notes = notes
        self._next = count(1)
        self.origins = origins
        self._numbers: WeakKeyDictionary[Any, int] = WeakKeyDictionary()
        self._alike: dict[str, list[int]] = {}
        """The numbers of loaders by everything that is known of them."""
        self._iterators: WeakKeyDictionary[Any, int] = WeakKeyDictionary()
        self._live: WeakKeyDictionary[Any, None] = WeakKeyDictionary()
        self._starting: WeakSet[Any] = WeakSet()
        """Iterators whose workers have been started and have given nothing yet."""
        self._roles: dict[int, str] = {}
        self._in_use: set[int] = set()
        self._workers: dict[int, list[int]] = {}
        """Processes of each loader's newest workers."""

    def started(self, loader: Any, iterator: Any) -> None:
        """``iterator`` begins an epoch of ``loader``."""
        number = self._numbers.get(loader)
        if number is None:
            number = self._numbers[loader] = self._number(loader)
        # Workers that persist are those of an iterator that has begun epochs before.
        if iterator not in self._iterators and not fetches_itself(iterator):
            self._starting.add(iterator)
        name_loader(iterator, number)
        self._know_workers(iterator, number)
        self._iterators[iterator] = number
        self._live[iterator] = None

    def _number(self, loader: Any) -> int:
        site, outcome = self.origins.get(loader, (None, None))
        facts = loader_facts(self._torch, loader, 0, site, outcome)
        if len(self._alike) > MOST_ALIKE:
            self._alike.clear()
        alike = self._alike.setdefault(repr(facts), [])
        living = set(self._numbers.values())
        for number in alike:
            if number not in living:
                return number
        number = next(self._next)
        alike.append(number)
        self._notes.write("loader", {**facts, "id": number})
        return number

    def _know_workers(self, iterator: Any, number: int) -> None:
        """Note the processes that serve the loader, where they are others than before."""
        pids = worker_pids(iterator)
        if pids and self._workers.get(number) != pids:
            self._workers[number] = pids
            self._notes.write("loader", {"id": number, "workers": pids})

    def exhausted(self, iterator: Any) -> None:
        """``iterator``, None where it is gone, gives no more batches this epoch."""
        if iterator is not None:
            self._live.pop(iterator, None)

    def leave_behind(self) -> None:
        """Another thread is followed now: no fetch of those that live will be seen."""
        self._live.clear()

    def is_starting(self, iterator: Any) -> bool:
        """Whether a batch of ``iterator`` has to wait for its workers to start; true once."""
        is_starting = iterator in self._starting
        if is_starting:
            self._starting.remove(iterator)
        return is_starting

    def any_live(self) -> bool:
        """Whether some iterator has begun and not ended."""
        return len(self._live) > 0

    def use(self, iterator: Any) -> None:
        """The step that goes on uses a batch of the loader behind ``iterator``."""
        number = self._iterators.get(iterator)
        if number is not None:
            self._in_use.add(number)

    def feeds_training(self, iterator: Any) -> bool:
        """Whether it is known that training steps use the batches of the loader of ``iterator``."""
        return self._roles.get(self._iterators.get(iterator, 0)) == TRAIN

    def step_ended(self, kind: str) -> None:
        """A step of ``kind`` has ended: now the role of the loaders that fed it is known.

        A loader that has fed a training step is a training loader, whatever else it feeds.
        """
        for number in self._in_use:
            if self._roles.get(number) not in (kind, TRAIN):
                self._roles[number] = kind
                self._notes.write("loader", {"id": number, "role": kind})
        self._in_use.clear()
