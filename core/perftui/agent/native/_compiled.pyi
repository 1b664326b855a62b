"""What is in the C files."""

from collections.abc import Callable, Sequence
from typing import Any

from .plain import PlainPage, PlainPauses

class CompiledAround:
    """What ``plain_around`` makes, without a frame.

    Has the attributes of ``original``, once ``functools.update_wrapper`` has run, and the class of
    that if it ``poses``.
    What is not set is as where ``put_around`` is given none.
    """

    original: Callable[..., Any]
    enter: Callable[[tuple[Any, ...], dict[str, Any] | None], Any]
    leave: Callable[[tuple[Any, ...], Any, Any, bool], object]
    fast_enter: Callable[..., int]
    fast_leave: Callable[..., bool]
    phase: int
    fast_path: CompiledFastPath
    goes_back: bool
    insists: bool
    poses: bool
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...

class CompiledFastPath:
    inside: bool
    """Whether hooks let all pass: a phase is going on, or recording is off. Set as the first thing
    in a phase and after it, where no call can come in between: what a signal handler raises comes
    there, and a second time where a worker has died."""
    is_off: bool
    """Whether recording is off."""
    goes_back: bool
    """Whether the thread that is followed is in a backward pass."""
    is_open: bool
    is_fed: bool
    """Whether steps end where ``iterator`` is asked for the next batch; else with the last event
    of ``usual``, the step of an optimizer."""
    own_thread: int
    """The one whose hooks may come here."""
    is_sampling: bool
    """Whether the hooks of the step are measured."""
    is_fetching: bool
    """Whether a batch was asked for, and nobody saw how that ended."""
    has_workers: bool
    iterator: Callable[[], Any]
    """A weak reference to the one asked last."""
    batches_ready: Callable[[Any], int]
    is_grad_enabled: Callable[[], bool]
    guards: Callable[[BaseException], bool]
    pauses: list[Any]
    """While there is something in it, steps are not ended here."""

    ready: int
    """Batches that were ready when the one was asked for that is being fetched."""
    cpu_start: int
    """CPU time of the thread at that moment, where it fetches the batch itself, else -1."""

    events: list[int]
    """What has happened in the step that goes on."""
    n_reported: int
    """So many of them the machine of steps has seen."""
    @property
    def usual(self) -> None:
        """Set only: events after which a step ends and leaves the machine as it was, or None."""

    @usual.setter
    def usual(self, events: list[int] | None) -> None: ...
    @property
    def optimizers(self) -> None:
        """Set only: weak references to optimizers, and the number of each; at most 8 are used."""

    @optimizers.setter
    def optimizers(self, known: Sequence[tuple[Callable[[], Any], int]]) -> None: ...

    going_on: int
    """Which of the optimizers steps now, since ``optimizer_start``; -1 while none does."""
    optimizer_start: int
    finished: int
    """Optimizer steps that were seen to end, in all."""

    ring: int
    """Address of the ring in memory, with room for ``capacity`` records."""
    capacity: int
    index: int
    """Of the step that goes on, since ``step_start``."""
    step_start: int
    micro_batches: int
    last_activity: int
    usual_until: int
    """From then on, and after steps longer than ``slow_after`` ns, steps are not ended here."""
    slow_after: int
    most_steps: int
    """After so many, none is ended here."""
    plan: int
    """Where ranks plan windows in memory, or 0; while that is not ``planned``, steps are not ended
    here."""
    planned: int
    steps: int
    """Ended here since the fast path opened, ``steps_ns`` long, with ``steps_hooks`` of ours."""
    steps_ns: int
    steps_hooks: int

    calls: int
    """Of hooks in the step that goes on, each taken to cost ``call_ns``."""
    call_ns: float
    fetch_calls: int
    """What a batch costs elsewhere, where the thread makes it itself, in calls of hooks."""
    until_sample: int
    """Steps until one is measured."""
    sampled_ns: int
    """What ``sampled_calls`` of hooks took that were measured."""
    sampled_calls: int

    # The hooks, as ``fast_path.c`` describes them.
    def enter_fetch(self, iterator: Any, /) -> int: ...
    def leave_fetch(self, iterator: Any, start: int, /) -> bool: ...
    def enter_forward(self) -> int: ...
    def enter_backward(self) -> int: ...
    def leave(self, kind: int, start: int, /) -> bool: ...
    def enter_optimizer(self, optimizer: Any, /) -> bool: ...
    def leave_optimizer(self, optimizer: Any, /) -> bool: ...

class CompiledPage(PlainPage):
    """What ``PlainPage`` is."""

class CompiledPauses(PlainPauses):
    """What ``PlainPauses`` is, but that no signal is handled in it."""
