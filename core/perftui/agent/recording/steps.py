"""Decides where steps end, from the events of hooks; uses no torch and reads no clock."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any, NamedTuple
from weakref import ReferenceType, WeakKeyDictionary, ref


class Optimizers:
    """The ``torch.optim`` optimizers of one process, and their steps in progress."""

    def __init__(self, torch: Any) -> None:
        self._base = torch.optim.Optimizer
        self._numbers: WeakKeyDictionary[Any, int] = WeakKeyDictionary()
        self._next = count()
        self.open: list[tuple[ReferenceType[Any], int]] = []
        """Optimizers with a step in progress, innermost last, and when it began."""
        self.last: tuple[ReferenceType[Any], int] | None = None
        """The last optimizer whose number was asked for, and that number."""
        self._exist = False
        self.finished = 0
        """Number of steps that were seen to end."""

    def number(self, optimizer: Any) -> int:
        """A number that no other optimizer of this process has had."""
        last = self.last
        # Most scripts have one optimizer: the dictionary of references takes 1 us to search.
        if last is not None and last[0]() is optimizer:
            return last[1]
        number = self._numbers.get(optimizer)
        if number is None:
            number = self._numbers[optimizer] = next(self._next)
        self.last = (ref(optimizer), number)
        return number

    @property
    def count(self) -> int:
        """Number of optimizers with a number that are alive or were until lately."""
        return len(self._numbers)

    def known(self) -> list[tuple[ReferenceType[Any], int]]:
        """Living optimizers that have a number, with it."""
        return [(ref(optimizer), number) for optimizer, number in self._numbers.items()]

    def entered(self, optimizer: Any, start: int) -> None:
        """``optimizer.step`` began at ``start``.

        It is not kept alive: torch does not report where a step raised, and a script that is out of
        memory may want to let go of its parameters then.
        """
        if self.open:
            self.open = [entry for entry in self.open if _goes_on(entry[0](), optimizer)]
        self.open.append((ref(optimizer), start))

    def left(self, optimizer: Any) -> int:
        """When the step of ``optimizer`` that ends now began, 0 if unknown.

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

        The first constructor of a class makes torch wrap its ``step``, and leave a mark there.
        """
        if not self._exist:
            steps = (kind.__dict__.get("step") for kind in _subclasses(self._base))
            self._exist = any(getattr(step, "hooked", False) for step in steps)
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
"""Optimizer steps without an end after which the learned order is dropped."""


class OptimizerCycle:
    """Learns which optimizer steps last in each iteration of the loop.

    The newest optimizer to appear is taken for the last one: with a discriminator and a generator
    it is the generator, however many times the discriminator steps first. The end of the first
    iteration only shows when an optimizer steps again; it is then in the past.
    """

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Forget everything: a data loader ends the steps now."""
        self._numbers: set[int] = set()
        self._last = -1
        self._pending = 0
        self._learning = True
        self._since_end = 0

    def state(self) -> tuple[object, ...]:
        """Everything that decides where later steps end."""
        return frozenset(self._numbers), self._last, self._learning, self._since_end

    def settle(self) -> int | None:
        """No optimizer has stepped for long: the end of the first iteration, if it is over."""
        if not self._learning or not self._numbers:
            return None
        self._learning = False
        return self._pending

    def step(self, optimizer: int, now: int) -> list[int]:
        """Optimizer number ``optimizer`` has stepped; returns the times at which steps ended."""
        is_new = optimizer not in self._numbers
        if is_new:
            self._numbers.add(optimizer)
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


TRAIN, EVAL, INFER = "train", "eval", "infer"

LONG_WITHOUT_OPTIMIZER = 200
"""Forward or backward calls without an optimizer step after which the loop is believed to have
none. No gradient accumulation over so many micro batches has been seen; decoding and rollouts call
far more."""

FEW_WITHOUT_BACKWARD = 10
"""Forward calls without gradients, before any backward pass, after which the script is believed to
train nothing, though it has an optimizer. Teachers, of which several may come first, are fewer."""

FETCHED_AHEAD = 1
"""Batches that a loop holds back to know which one is the last."""


class Boundary(NamedTuple):
    """The end of a step. One is made for each: frozen data classes take 1 us longer."""

    kind: str
    end: int
    """``perf_counter_ns``; in the past where the end only showed later."""
    micro_batches: int
    forwards: int = 1
    """Outermost module calls in it."""
    trains_next: bool = False
    """Whether the call that begins the next step has gradients: it will be a training step."""


class _Counts:
    """Events since the last boundary."""

    def __init__(self) -> None:
        self.forwards = self.with_gradients = self.backwards = 0
        self.optimizers = self.batches = 0
        self.turns = 0
        """Times that a backward has followed a forward, before the first optimizer step."""
        self.turns_after_optimizer = 0
        """Times that a backward has followed a forward since the last optimizer step."""


class StepMachine:
    """The rules, in the order of the strength of their evidence.

    1. With a live data loader, a step ends when the next batch is fetched after an optimizer
       step; a batch with a backward but no optimizer step is a micro batch; one with a forward
       only is a step of evaluation (or inference, where nothing was ever trained and no optimizer
       waits for that).
    2. Without one, it ends with the last optimizer of the loop's cycle.
    3. Where no optimizer was ever made, or none has stepped and yet the weights have changed,
       parameters are updated by hand: the step ends at the next fetch, or else the next root
       forward, after a backward. Accumulation over micro batches looks exactly the same where
       there is no optimizer and is counted as steps.
    4. Without any of these, each root forward without gradients is a step of its own; one with
       gradients, too, once very many have come and no backward ever.

    Once the script has said that a step ends, nothing else ends one.

    ``optimizers_exist`` returns whether the script has made a ``torch.optim`` optimizer,
    ``weights_changed`` whether it has written to its parameters since the last backward pass
    began. Times are any one monotonic clock in ns.
    """

    def __init__(
        self, optimizers_exist: Callable[[], bool], weights_changed: Callable[[], bool]
    ) -> None:
        self._optimizers_exist = optimizers_exist
        self._weights_changed = weights_changed
        self._cycle = OptimizerCycle()
        self._has_trained = False
        self.has_optimized = False
        """Whether a torch optimizer has begun to step; the caller sets it before that step ends."""
        self._has_gone_back = False
        self._is_by_hand = False
        self._held_back = 0
        self._forwards_since_optimizer = self._gradients_since_optimizer = 0
        self._backwards_since_optimizer = self._optimizers_since_fetch = 0
        self._last_was_backward = False
        self._is_explicit = False
        """Whether the script marks the ends of its steps."""
        self._last_kind = ""
        """Kind of the last step; empty before the first has ended."""
        self.last_activity = 0
        """End of the newest work of the step; the caller keeps it."""
        self._counts = _Counts()

    def state(self) -> tuple[object, ...]:
        """Everything that decides about later steps, right after one has ended."""
        return (
            self._cycle.state(),
            self._has_trained,
            self.has_optimized,
            self._has_gone_back,
            self._is_by_hand,
            self._held_back,
            self._forwards_since_optimizer,
            self._gradients_since_optimizer,
            self._backwards_since_optimizer,
            self._optimizers_since_fetch,
            self._last_was_backward,
            self._is_explicit,
            not self._has_seen_any(),
        )

    def ends_by_optimizers(self) -> bool:
        """Whether only optimizers end steps without a live loader, until one has very many forward
        or backward calls (``LONG_WITHOUT_OPTIMIZER``). Asked when an optimizer has ended one."""
        return self._has_gone_back and self._optimizers_exist()

    def end_explicitly(self, kind: str, now: int | None) -> list[Boundary]:
        """The script says that a step of ``kind`` ends; ``now`` is None if none has begun.

        The first time its end may have been found already.
        """
        was_explicit, self._is_explicit = self._is_explicit, True
        is_found = not was_explicit and self._last_kind == kind and not self._has_seen_any()
        return [] if now is None or is_found else [self._cut(kind, now)]

    def fetch(self, now: int) -> list[Boundary]:
        """The loop asks a loader for a batch, or for a new iterator."""
        self._optimizers_since_fetch = 0
        if self._is_explicit:
            return []
        if self._counts.optimizers:
            self._cycle.restart()
            return [self._cut(TRAIN, now)]
        if self._counts.backwards:
            return [self._cut(TRAIN, now)] if self._updates_by_hand() else []
        return [self._cut(self._forward_only(), now)] if self._counts.forwards else []

    def fetched(self) -> None:
        """A batch has arrived."""
        self._counts.batches += 1

    def forward(self, now: int, has_gradients: bool, loader_is_live: bool) -> list[Boundary]:
        """The outermost module is called. Returns steps that ended before the call."""
        ended = []
        if not loader_is_live and not self._is_explicit:
            ended = self._end_long_ago() if self._counts.optimizers else []
            if not self._counts.optimizers:
                ended += self._end_at_forward(now, has_gradients)
        self._counts.forwards += 1
        self._counts.with_gradients += has_gradients
        self._forwards_since_optimizer += 1
        self._gradients_since_optimizer += has_gradients
        self._last_was_backward = False
        return ended

    def backward(self) -> None:
        """A backward pass begins."""
        self._has_gone_back = True
        self._counts.backwards += 1
        self._backwards_since_optimizer += 1
        if not self._last_was_backward:
            if self._counts.optimizers:
                self._counts.turns_after_optimizer += 1
            else:
                self._counts.turns += 1
        self._last_was_backward = True

    def optimizer(self, number: int, now: int, loader_is_live: bool) -> list[Boundary]:
        """Optimizer ``number`` has stepped, or was skipped because gradients were not finite."""
        self._counts.optimizers += 1
        self._optimizers_since_fetch = self._optimizers_since_fetch + 1 if loader_is_live else 0
        self._forwards_since_optimizer = self._backwards_since_optimizer = 0
        self._gradients_since_optimizer = 0
        self._has_trained = self.has_optimized = True
        turns, self._counts.turns_after_optimizer = self._counts.turns_after_optimizer, 0
        if self._is_explicit:
            return []
        if loader_is_live and self._optimizers_since_fetch < LONGEST_CYCLE:
            return []
        ended = []
        for end in self._cycle.step(number, now):
            ended.append(self._cut(TRAIN, end))
            if end < now:
                # Everything after that earlier end belongs to the next step.
                self._counts.optimizers, self._counts.turns = 1, turns
        return ended

    def finish(self) -> list[Boundary]:
        """The process ends; the last step, if it is whole, ends with its last work."""
        if self._is_explicit:
            return []
        if self._counts.optimizers or (self._counts.backwards and self._updates_by_hand()):
            return [self._cut(TRAIN, self.last_activity)]
        if self._counts.forwards and not self._counts.backwards:
            kind = self._forward_only()
            # A forward with gradients was the beginning of a training step.
            if kind == INFER or not self._counts.with_gradients:
                return [self._cut(kind, self.last_activity)]
        return []

    def _has_seen_any(self) -> bool:
        """Whether there were events since the last step ended."""
        return any(vars(self._counts).values())

    def _end_long_ago(self) -> list[Boundary]:
        """The end of the first iteration, if only calls without gradients followed for long."""
        calls = self._forwards_since_optimizer
        are_many = calls > LONG_WITHOUT_OPTIMIZER
        is_alone = not (self._gradients_since_optimizer or self._backwards_since_optimizer)
        end = self._cycle.settle() if are_many and is_alone else None
        if end is None:
            return []
        self._counts.forwards -= calls
        ended = self._cut(TRAIN, end)
        self._counts.forwards = calls
        return [ended]

    def _end_at_forward(self, now: int, has_gradients: bool) -> list[Boundary]:
        trains_next = has_gradients and self._has_gone_back
        if self._counts.backwards:
            return [self._cut(TRAIN, now, trains_next)] if self._updates_by_hand() else []
        if self._counts.forwards and self._only_calls_forward():
            return [self._cut(self._forward_only(), now, trains_next)]
        return []

    def _updates_by_hand(self) -> bool:
        has_none = self._backwards_since_optimizer > LONG_WITHOUT_OPTIMIZER
        if has_none or not self._optimizers_exist():
            return True
        if not self.has_optimized:
            self._is_by_hand = self._is_by_hand or self._weights_changed()
        return self._is_by_hand and not self.has_optimized

    def _only_calls_forward(self) -> bool:
        if self._counts.with_gradients:
            # Nobody keeps the graphs of so many forward calls for one first backward.
            is_long = self._forwards_since_optimizer > LONG_WITHOUT_OPTIMIZER
            return is_long and not self._has_gone_back
        most = LONG_WITHOUT_OPTIMIZER if self._has_gone_back else FEW_WITHOUT_BACKWARD
        return self._forwards_since_optimizer > most or not self._optimizers_exist()

    def _forward_only(self) -> str:
        return EVAL if self._has_trained or self._optimizers_exist() else INFER

    def _cut(self, kind: str, end: int, trains_next: bool = False) -> Boundary:
        self._has_trained |= kind == TRAIN
        self._last_kind = kind
        counts, self._counts = self._counts, _Counts()
        # Several backward passes on one batch are one micro batch. Of batches that were fetched
        # ahead, as many count as backward passes follow; one may be used in the next step only.
        batches = self._held_back + counts.batches
        turns = min(counts.turns, batches) if counts.batches else counts.turns
        self._held_back = min(max(batches - turns, 0), FETCHED_AHEAD)
        return Boundary(kind, end, max(turns, 1), counts.forwards, trains_next)


UNKNOWN = -1

MOST = 8
"""Modules with a watched parameter."""


class Weights:
    """One trainable parameter of each outermost module, and its count of writes.

    torch counts the writes in place to each tensor, which costs nothing to look at. A script that
    writes through ``.data`` is not seen. Its modes and subclasses of tensors are not called.
    """

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._parameters: list[ReferenceType[Any]] = []
        self._versions: list[int] = []

    def of(self, module: Any) -> None:
        """``module`` is called for the first time."""
        if len(self._parameters) >= MOST:
            return
        with self._torch._C.DisableTorchFunction():
            trained = (p for p in module.parameters() if p.requires_grad)
            # Tensors of inference mode do not count writes.
            parameter = next((p for p in trained if not p.is_inference()), None)
        if parameter is not None:
            self._parameters.append(ref(parameter))

    def remember(self) -> None:
        """A backward pass begins."""
        self._versions = self._now()

    def have_changed(self) -> bool:
        """Whether any parameter has been written to since."""
        pairs = zip(self._versions, self._now(), strict=False)
        return any(before != after and UNKNOWN not in (before, after) for before, after in pairs)

    def _now(self) -> list[int]:
        alive = (parameter() for parameter in self._parameters)
        with self._torch._C.DisableTorchFunction():
            return [UNKNOWN if parameter is None else parameter._version for parameter in alive]
