"""Where steps end, for the loops that people write."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby

import pytest

from perftui.agent.recording.steps import (
    EVAL,
    FEW_WITHOUT_BACKWARD,
    INFER,
    LONG_WITHOUT_OPTIMIZER,
    TRAIN,
    Boundary,
    StepMachine,
)


class Loop:
    """Plays the events of a loop into a machine, one tick of the clock each."""

    def __init__(self, has_optimizers: bool = True) -> None:
        self.machine = StepMachine(lambda: has_optimizers, self._have_weights_changed)
        self._weights_changed = False
        self.ended: list[Boundary] = []
        self.live = False
        self._clock = itertools.count(1)

    def fetch(self, arrives: bool = True) -> None:
        self.ended += self.machine.fetch(next(self._clock))
        self.live = arrives
        if arrives:
            self.machine.fetched()

    def forward(self, gradients: bool = True) -> None:
        self.ended += self.machine.forward(next(self._clock), gradients, self.live)
        self.machine.last_activity = next(self._clock)

    def backward(self) -> None:
        self._weights_changed = False
        self.machine.backward()
        self.machine.last_activity = next(self._clock)

    def optimizer(self, number: int = 0) -> None:
        now = self.machine.last_activity = next(self._clock)
        self.ended += self.machine.optimizer(number, now, self.live)

    def write_weights(self) -> None:
        self._weights_changed = True

    def _have_weights_changed(self) -> bool:
        return self._weights_changed

    def turn(self) -> None:
        self.forward()
        self.backward()

    def end(self) -> list[Boundary]:
        self.ended += self.machine.finish()
        return self.ended


def plain(loop: Loop) -> None:
    for _ in range(10):
        loop.fetch()
        loop.turn()
        loop.optimizer()
    loop.fetch(arrives=False)


def accumulation(loop: Loop) -> None:
    for batch in range(40):
        loop.fetch()
        loop.turn()
        if batch % 4 == 3:
            loop.optimizer()
    loop.fetch(arrives=False)


def accumulation_fetched_ahead(loop: Loop) -> None:
    for _ in range(10):
        for _ in range(4):
            loop.fetch()
        for _ in range(4):
            loop.turn()
        loop.optimizer()
    loop.fetch(arrives=False)


def one_batch_ahead(loop: Loop) -> None:
    loop.fetch()
    for _ in range(9):
        loop.fetch()
        loop.turn()
        loop.optimizer()
    loop.fetch(arrives=False)
    loop.turn()
    loop.optimizer()


def accumulation_one_batch_ahead(loop: Loop) -> None:
    loop.fetch()
    for batch in range(40):
        loop.fetch(arrives=batch < 39)
        loop.turn()
        if batch % 4 == 3:
            loop.optimizer()


def adversarial(loop: Loop) -> None:
    for _ in range(10):
        loop.fetch()
        for optimizer in (0, 1):
            loop.turn()
            loop.optimizer(optimizer)
    loop.fetch(arrives=False)


def critic_of_five(loop: Loop) -> None:
    for _ in range(10):
        loop.fetch()
        for optimizer in (0, 0, 0, 0, 0, 1):
            loop.turn()
            loop.optimizer(optimizer)
    loop.fetch(arrives=False)


def two_loaders(loop: Loop) -> None:
    for _ in range(10):
        loop.fetch()
        loop.fetch()
        loop.turn()
        loop.optimizer()
    loop.fetch(arrives=False)


def no_loader(loop: Loop) -> None:
    for _ in range(10):
        loop.turn()
        loop.turn()
        loop.optimizer()


def adversarial_without_loader(loop: Loop) -> None:
    for _ in range(10):
        for optimizer in (0, 1):
            loop.turn()
            loop.optimizer(optimizer)


def closures(loop: Loop) -> None:
    for _ in range(10):
        for _ in range(3):
            loop.turn()
        loop.optimizer()


def by_hand(loop: Loop) -> None:
    for _ in range(10):
        loop.turn()


def by_hand_with_loader(loop: Loop) -> None:
    for _ in range(10):
        loop.fetch()
        loop.turn()
    loop.fetch(arrives=False)


def by_hand_beside_an_unused_optimizer(loop: Loop) -> None:
    for _ in range(10):
        loop.turn()
        loop.write_weights()


def by_hand_with_loader_beside_an_unused_optimizer(loop: Loop) -> None:
    for _ in range(10):
        loop.fetch()
        loop.turn()
        loop.write_weights()
    loop.fetch(arrives=False)


def gradient_penalty(loop: Loop) -> None:
    for _ in range(10):
        loop.fetch()
        loop.forward()
        loop.backward()
        loop.backward()
        loop.optimizer()
    loop.fetch(arrives=False)


@dataclass(frozen=True)
class Case:
    play: Callable[[Loop], None]
    micro_batches: int = 1
    has_optimizers: bool = True


CASES = [
    Case(plain),
    Case(accumulation, micro_batches=4),
    Case(accumulation_fetched_ahead, micro_batches=4),
    Case(accumulation_one_batch_ahead, micro_batches=4),
    Case(one_batch_ahead),
    Case(adversarial),
    Case(critic_of_five),
    Case(two_loaders),
    Case(no_loader, micro_batches=2),
    Case(adversarial_without_loader),
    Case(closures, micro_batches=3),
    Case(by_hand, has_optimizers=False),
    Case(by_hand_with_loader, has_optimizers=False),
    Case(by_hand_beside_an_unused_optimizer),
    Case(by_hand_with_loader_beside_an_unused_optimizer),
    Case(gradient_penalty),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.play.__name__)
def test_ten_iterations_are_ten_training_steps(case: Case) -> None:
    loop = Loop(case.has_optimizers)

    case.play(loop)

    assert [(step.kind, step.micro_batches) for step in loop.end()] == [
        (TRAIN, case.micro_batches)
    ] * 10


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.play.__name__)
def test_steps_follow_one_another_in_time(case: Case) -> None:
    loop = Loop(case.has_optimizers)

    case.play(loop)

    ends = [step.end for step in loop.end()]
    assert all(first < second for first, second in itertools.pairwise(ends))


def test_a_step_ends_when_the_next_batch_is_asked_for() -> None:
    loop = Loop()
    plain(loop)

    # Ticks of one iteration: fetch, forward begins and ends, backward, optimizer.
    assert [step.end for step in loop.ended[:2]] == [6, 11]


def test_a_cycle_that_shows_only_later_ends_where_it_ended() -> None:
    loop = Loop()
    adversarial_without_loader(loop)

    assert loop.ended[0].end == 8
    assert loop.ended[1].end == 16


def test_batches_without_a_backward_are_evaluation_once_something_was_trained() -> None:
    loop = Loop()
    plain(loop)
    for _ in range(5):
        loop.fetch()
        loop.forward(gradients=False)
    loop.fetch(arrives=False)

    assert [step.kind for step in loop.end()] == [TRAIN] * 10 + [EVAL] * 5


def test_validation_before_the_first_training_step_is_no_inference() -> None:
    loop = Loop()
    for _ in range(5):
        loop.fetch()
        loop.forward(gradients=False)
    plain(loop)

    assert [step.kind for step in loop.end()] == [EVAL] * 5 + [TRAIN] * 10


def test_batches_without_a_backward_are_inference_where_nothing_was_trained() -> None:
    loop = Loop(has_optimizers=False)
    for _ in range(5):
        loop.fetch()
        loop.forward(gradients=False)
    loop.fetch(arrives=False)

    assert [step.kind for step in loop.end()] == [INFER] * 5


def test_decoding_without_a_loader_is_one_step_a_call() -> None:
    loop = Loop(has_optimizers=False)
    for _ in range(50):
        loop.forward(gradients=False)

    assert [step.kind for step in loop.end()] == [INFER] * 50


def test_decoding_beside_an_unused_optimizer_is_soon_one_step_a_call() -> None:
    loop = Loop()
    for _ in range(50):
        loop.forward(gradients=False)

    # The first calls might have been those of teachers.
    assert [step.kind for step in loop.end()] == [EVAL] * 40


@pytest.mark.parametrize(("has_optimizers", "kind"), [(False, INFER), (True, EVAL)])
def test_calls_with_gradients_and_never_a_backward_are_steps_once_they_are_many(
    has_optimizers: bool, kind: str
) -> None:
    loop = Loop(has_optimizers)
    for _ in range(LONG_WITHOUT_OPTIMIZER + 50):
        loop.forward()

    # The first of them has all the calls that might have been for one backward.
    assert [step.kind for step in loop.ended] == [kind] * 49
    assert loop.ended[0].forwards == LONG_WITHOUT_OPTIMIZER + 1


def test_weights_written_beside_an_optimizer_that_steps_end_no_step() -> None:
    loop = Loop()
    loop.turn()
    loop.optimizer()
    for batch in range(40):
        loop.fetch()
        loop.turn()
        # A moving average of the weights, say.
        loop.write_weights()
        if batch % 4 == 3:
            loop.optimizer()
    loop.fetch(arrives=False)

    assert [step.micro_batches for step in loop.end()] == [1, *[4] * 10]


@pytest.mark.parametrize("steps", [0, 3])
def test_a_forward_that_is_interrupted_at_the_end_is_no_evaluation(steps: int) -> None:
    loop = Loop()
    for _ in range(steps):
        loop.fetch()
        loop.turn()
        loop.optimizer()
    loop.fetch()
    loop.forward()

    assert [step.kind for step in loop.end()] == [TRAIN] * steps


def test_the_last_batch_of_an_evaluation_without_its_end_counts() -> None:
    loop = Loop()
    plain(loop)
    for _ in range(5):
        loop.fetch()
        loop.forward(gradients=False)

    assert [step.kind for step in loop.end()] == [TRAIN] * 10 + [EVAL] * 5


def generation(loop: Loop, calls: int = 300) -> None:
    for _ in range(calls):
        loop.forward(gradients=False)


def test_generation_between_training_steps_is_no_part_of_the_first_ones_either() -> None:
    loop = Loop()
    for _ in range(3):
        generation(loop)
        loop.turn()
        loop.optimizer()

    kinds = [(kind, len(list(steps))) for kind, steps in groupby(loop.end(), lambda one: one.kind)]
    before = [(EVAL, 290), (TRAIN, 1)]
    assert kinds == [*before, *[(EVAL, 300 - LONG_WITHOUT_OPTIMIZER), (TRAIN, 1)] * 2]
    calls = [step.forwards for step in loop.ended if step.forwards > 1]
    assert calls == [FEW_WITHOUT_BACKWARD + 1, *[LONG_WITHOUT_OPTIMIZER + 1] * 2]


def test_many_calls_for_one_backward_between_two_optimizers_end_no_step() -> None:
    loop = Loop()
    loop.turn()
    for _ in range(3):
        for optimizer in (0, 1):
            for _ in range(LONG_WITHOUT_OPTIMIZER + 10):
                loop.forward()
            loop.backward()
            loop.optimizer(optimizer)

    assert [step.kind for step in loop.end()] == [TRAIN] * 3


@pytest.mark.parametrize("live", [False, True])
def test_only_a_call_with_gradients_tells_that_training_goes_on(live: bool) -> None:
    loop = Loop()
    loop.live = live
    for _ in range(3):
        generation(loop)
        loop.forward(gradients=False)
        loop.turn()
        loop.optimizer()

    ended = loop.end()
    told = [number for number, step in enumerate(ended) if step.trains_next]
    first, *others = [number for number, step in enumerate(ended) if step.kind == TRAIN]
    # Before the first backward pass nothing tells whether there will be any.
    assert told == ([] if live else [number - 1 for number in others])
    assert live or first


def test_an_update_by_hand_that_ends_at_a_call_with_gradients_is_followed_by_another() -> None:
    loop = Loop(has_optimizers=False)
    by_hand(loop)
    loop.forward(gradients=False)
    by_hand(loop)

    told = [step.trains_next for step in loop.end()]
    assert told == [*[True] * 9, False, True, *[True] * 9, False]


def test_a_teacher_that_runs_without_gradients_makes_no_step_of_its_own() -> None:
    loop = Loop()
    for _ in range(10):
        loop.forward(gradients=False)
        loop.turn()
        loop.optimizer()

    assert [step.kind for step in loop.end()] == [TRAIN] * 10


def test_a_long_evaluation_between_updates_by_hand_is_counted_apart() -> None:
    loop = Loop(has_optimizers=False)
    by_hand(loop)
    for _ in range(5):
        loop.forward(gradients=False)
    by_hand(loop)

    assert [step.kind for step in loop.end()] == [TRAIN] * 10 + [EVAL] * 5 + [TRAIN] * 10


def test_an_optimizer_that_appears_late_ends_the_steps_from_then_on() -> None:
    loop = Loop()
    for _ in range(5):
        loop.turn()
        loop.optimizer(0)
    for _ in range(5):
        loop.turn()
        loop.optimizer(0)
        loop.turn()
        loop.optimizer(1)

    # The first iteration with both is still taken for two.
    assert len(loop.end()) == 5 + 6


def test_an_optimizer_that_is_dropped_does_not_stop_the_count_for_ever() -> None:
    loop = Loop()
    adversarial_without_loader(loop)
    before = len(loop.ended)
    for _ in range(64 + 10):
        loop.turn()
        loop.optimizer(0)

    assert len(loop.ended) - before == 11


def test_a_loader_left_alive_but_unused_does_not_hide_steps() -> None:
    loop = Loop()
    loop.fetch()
    for _ in range(200):
        loop.turn()
        loop.optimizer()

    assert len(loop.end()) > 100


def test_what_is_not_a_whole_step_is_not_counted_at_the_end() -> None:
    loop = Loop()
    plain(loop)
    loop.fetch()
    loop.turn()

    assert len(loop.end()) == 10


def interrupted() -> Iterator[int]:
    yield from range(1, 4)


@pytest.mark.parametrize("events", interrupted())
def test_the_last_step_ends_with_its_last_work(events: int) -> None:
    loop = Loop()
    for _ in range(events):
        loop.fetch()
        loop.turn()
        loop.optimizer()

    assert loop.end()[-1].end == loop.machine.last_activity
