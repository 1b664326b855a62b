"""Steps that the script ends itself, and those that were found before."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.agent.recording.steps import EVAL, INFER, TRAIN, StepMachine

LIVE = (False, True)


class Loop:
    """Plays the events of a loop, one tick of the clock each."""

    def __init__(self) -> None:
        self.machine = StepMachine(lambda: True, lambda: False)
        self.kinds: list[str] = []
        self.clock = 0
        self.live = False

    def tick(self) -> int:
        self.clock += 1
        return self.clock

    def fetch(self) -> None:
        self.kinds += [one.kind for one in self.machine.fetch(self.tick())]
        self.machine.fetched()
        self.live = True

    def forward(self) -> None:
        ended = self.machine.forward(self.tick(), True, self.live)
        self.kinds += [one.kind for one in ended]

    def backward(self) -> None:
        self.machine.backward()

    def optimizer(self) -> None:
        ended = self.machine.optimizer(0, self.tick(), self.live)
        self.kinds += [one.kind for one in ended]

    def step(self, kind: str = TRAIN) -> None:
        ended = self.machine.end_explicitly(kind, self.tick())
        assert [one.end for one in ended] in ([], [self.clock])
        self.kinds += [one.kind for one in ended]

    def train(self) -> None:
        self.forward()
        self.backward()
        self.optimizer()

    def end(self) -> list[str]:
        self.kinds += [one.kind for one in self.machine.finish()]
        return self.kinds


EVENTS: dict[str, Callable[[Loop], None]] = {
    "fetch": Loop.fetch,
    "forward": Loop.forward,
    "backward": Loop.backward,
    "optimizer": Loop.optimizer,
}


@given(st.lists(st.lists(st.sampled_from(sorted(EVENTS)), max_size=8), min_size=1, max_size=12))
def test_once_used_they_alone_end_steps(steps: list[list[str]]) -> None:
    loop = Loop()
    loop.forward()
    loop.step()
    before = len(loop.kinds)
    for step in steps:
        for event in step:
            EVENTS[event](loop)
        loop.step()
    loop.train()

    assert loop.end()[before:] == [TRAIN] * len(steps)


@pytest.mark.parametrize("fed", LIVE)
def test_a_loop_that_always_ended_its_steps_has_each_once(fed: bool) -> None:
    loop = Loop()
    for _ in range(20):
        if fed:
            loop.fetch()
        loop.train()
        loop.step()

    assert loop.end() == [TRAIN] * 20


@pytest.mark.parametrize("fed", LIVE)
def test_steps_that_were_found_before_are_not_counted_twice(fed: bool) -> None:
    loop = Loop()
    for number in range(20):
        if fed:
            loop.fetch()
        loop.train()
        if number >= 10:
            loop.step()

    assert loop.end() == [TRAIN] * 20


def test_a_step_of_another_kind_is_not_the_one_that_was_found() -> None:
    loop = Loop()
    for _ in range(3):
        loop.train()
    loop.step(EVAL)
    loop.step(INFER)

    assert loop.end() == [TRAIN] * 3 + [EVAL, INFER]


def test_where_nothing_has_begun_nothing_ends() -> None:
    machine = StepMachine(lambda: False, lambda: False)

    assert machine.end_explicitly(TRAIN, None) == []
    assert [one.end for one in machine.end_explicitly(TRAIN, 7)] == [7]


def test_micro_batches_of_the_step_are_counted() -> None:
    loop = Loop()
    for _ in range(3):
        loop.forward()
        loop.backward()
    loop.optimizer()
    (ended,) = loop.machine.end_explicitly(TRAIN, loop.tick())

    assert (ended.micro_batches, ended.forwards) == (3, 3)
