"""The optimizers of a script: which there are, and in which order they step."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any
from weakref import ReferenceType, WeakKeyDictionary, ref


class Optimizers:
    """The ``torch.optim`` optimizers of one process and their steps that are going on."""

    def __init__(self, torch: Any) -> None:
        self._base = torch.optim.Optimizer
        self._numbers: WeakKeyDictionary[Any, int] = WeakKeyDictionary()
        self._next = count()
        self.open: list[tuple[ReferenceType[Any], int]] = []
        """Optimizers whose steps go on, innermost last, and when those began."""
        self.last: tuple[ReferenceType[Any], int] | None = None
        """The one whose number was asked for last, and that number."""
        self._exist = False
        self.finished = 0
        """Steps that were seen to end."""

    def number(self, optimizer: Any) -> int:
        """A number that no other optimizer of this process has had."""
        last = self.last
        # Most scripts have one: a look into the dictionary of references takes 1 us.
        if last is not None and last[0]() is optimizer:
            return last[1]
        number = self._numbers.get(optimizer)
        if number is None:
            number = self._numbers[optimizer] = next(self._next)
        self.last = (ref(optimizer), number)
        return number

    @property
    def count(self) -> int:
        """How many have a number, and are alive or were until lately."""
        return len(self._numbers)

    def known(self) -> list[tuple[ReferenceType[Any], int]]:
        """Optimizers that have a number and are alive, with that number."""
        return [(ref(optimizer), number) for optimizer, number in self._numbers.items()]

    def entered(self, optimizer: Any, start: int) -> None:
        """``optimizer.step`` began at ``start``.

        It is not kept alive: torch does not report where a step raised, and a script that is out of
        memory may want to let go of its parameters then.
        """
        if self.open:
            self.open = [one for one in self.open if _goes_on(one[0](), optimizer)]
        self.open.append((ref(optimizer), start))

    def left(self, optimizer: Any) -> int:
        """When the step of ``optimizer`` that ends now began, 0 if that was not seen.

        Steps inside it that raised are forgotten.
        """
        while self.open:
            entered, start = self.open.pop()
            if entered() is optimizer:
                self.finished += 1
                return start
        return 0

    def exist(self) -> bool:
        """Whether any optimizer has been constructed.

        Constructing one makes torch wrap the ``step`` of its class, once, and say so there.
        """
        if not self._exist:
            self._exist = any(
                getattr(kind.__dict__.get("step"), "hooked", False)
                for kind in _subclasses(self._base)
            )
        return self._exist


def _goes_on(entered: Any, beginning: Any) -> bool:
    """Whether the step of ``entered`` goes on, now that one of ``beginning`` begins."""
    return entered is not None and entered is not beginning


def _subclasses(kind: type) -> Iterator[type]:
    subclass: type
    for subclass in kind.__subclasses__():
        yield subclass
        yield from _subclasses(subclass)


LONGEST_CYCLE = 64
"""Optimizer steps without an end after which the order learned is no longer believed."""


class OptimizerCycle:
    """Learns which optimizer steps last in each iteration of the loop.

    The newest optimizer to appear is taken for the last one: with a discriminator and a generator
    it is the generator, however many times the discriminator steps first. Whether the first
    iteration is over shows when an optimizer steps again; its end is then in the past.
    """

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Forget everything: a data loader ends the steps now."""
        self._known: set[int] = set()
        self._last = -1
        self._pending = 0
        self._learning = True
        self._since_end = 0

    def state(self) -> tuple[object, ...]:
        """All that decides about the ends to come."""
        return frozenset(self._known), self._last, self._learning, self._since_end

    def settle(self) -> int | None:
        """No optimizer has stepped for long: when the first iteration has ended, if that was it."""
        if not self._learning or not self._known:
            return None
        self._learning = False
        return self._pending

    def step(self, optimizer: int, now: int) -> list[int]:
        """Optimizer number ``optimizer`` has stepped; times at which steps have ended."""
        is_new = optimizer not in self._known
        if is_new:
            self._known.add(optimizer)
            self._last = optimizer
        if self._learning and is_new:
            self._pending = now
            return []
        ends = [self._pending] if self._learning else []
        self._learning = False
        self._since_end += 1
        if optimizer == self._last or self._since_end >= LONGEST_CYCLE:
            self._last = optimizer
            self._since_end = 0
            ends.append(now)
        return ends
