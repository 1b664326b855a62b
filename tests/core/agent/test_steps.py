"""Where steps end, for the loops that people write and where the script ends them itself."""

import itertools
from itertools import groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
    """Plays the events of a loop into a machine, one tick of the clock each.

    ``f`` fetches a batch and ``e`` finds there is none, ``F`` goes forward and ``g`` without
    gradients, ``B`` goes back, ``t`` does both, a digit is the step of that optimizer, ``w`` writes
    to the weights, ``s`` says that a step has ended."""

    def __init__(self, events: str = "", *, has_optimizers: bool = True) -> None:
        self.machine = StepMachine(lambda: has_optimizers, lambda: self._have_changed)
        self._have_changed = False
        self.ended: list[Boundary] = []
        self.live = False
        self._clock = itertools.count(1)
        self.play(events)

    def play(self, events: str) -> None:
        for event in events:
            self._play(event)

    def _play(self, event: str) -> None:
        machine, clock = self.machine, self._clock
        if event in "fe":
            self.ended += machine.fetch(next(clock))
            self.live = event == "f"
            if self.live:
                machine.fetched()
        elif event in "Fg":
            self.ended += machine.forward(next(clock), event == "F", self.live)
            machine.last_activity = next(clock)
        elif event == "B":
            self._have_changed = False
            machine.backward()
            machine.last_activity = next(clock)
        elif event == "t":
            self.play("FB")
        elif event == "w":
            self._have_changed = True
        elif event == "s":
            self.say(TRAIN)
        else:
            now = machine.last_activity = next(clock)
            self.ended += machine.optimizer(int(event), now, self.live)

    def say(self, kind: str) -> None:
        now = next(self._clock)
        ended = self.machine.end_explicitly(kind, now)
        assert [one.end for one in ended] in ([], [now])
        self.ended += ended

    def end(self) -> list[Boundary]:
        self.ended += self.machine.finish()
        return self.ended

    @property
    def kinds(self) -> list[str]:
        """Those of all steps, once the process has ended."""
        return [step.kind for step in self.end()]


PLAIN = "ft0" * 10 + "e"
TWO_OPTIMIZERS = "t0t1" * 10
EVALUATED = "fg" * 5

LOOPS = {
    "plain": PLAIN,
    "adversarial": "ft0t1" * 10 + "e",
    "critic of five": ("f" + "t0" * 5 + "t1") * 10 + "e",
    "two loaders": "fft0" * 10 + "e",
    "one batch ahead": "f" + "ft0" * 9 + "et0",
    "adversarial without loader": TWO_OPTIMIZERS,
    "by hand": "t" * 10,
    "by hand with loader": "ft" * 10 + "e",
    "by hand beside an unused optimizer": "tw" * 10,
    "by hand with loader beside an unused optimizer": "ftw" * 10 + "e",
    "gradient penalty": "fFBB0" * 10 + "e",
    "no loader": "tt0" * 10,
    "closures": "ttt0" * 10,
    "accumulation": "ftftftft0" * 10 + "e",
    "accumulation fetched ahead": "fffftttt0" * 10 + "e",
    "accumulation one batch ahead": "f" + "ftftftft0" * 9 + "ftftftet0",
}
MICRO_BATCHES = {"no loader": 2, "closures": 3}
WITHOUT_OPTIMIZERS = ("by hand", "by hand with loader")


@pytest.mark.parametrize("name", LOOPS)
def test_ten_iterations_are_ten_training_steps_that_follow_one_another(name: str) -> None:
    loop = Loop(LOOPS[name], has_optimizers=name not in WITHOUT_OPTIMIZERS)

    micro_batches = 4 if name.startswith("accumulation") else MICRO_BATCHES.get(name, 1)
    found = [(step.kind, step.micro_batches) for step in loop.end()]
    assert found == [(TRAIN, micro_batches)] * 10
    ends = [step.end for step in loop.ended]
    assert all(first < second for first, second in itertools.pairwise(ends))


def test_a_step_ends_when_the_next_batch_is_asked_for() -> None:
    # Ticks of one iteration: fetch, forward begins and ends, backward, optimizer.
    assert [step.end for step in Loop(PLAIN).ended[:2]] == [6, 11]


def test_a_cycle_that_shows_only_later_ends_where_it_ended() -> None:
    assert [step.end for step in Loop(TWO_OPTIMIZERS).ended[:2]] == [8, 16]


KINDS = {
    "batches without a backward are evaluation once something was trained": (
        PLAIN + EVALUATED + "e",
        [TRAIN] * 10 + [EVAL] * 5,
    ),
    "the last batch of an evaluation without its end counts": (
        PLAIN + EVALUATED,
        [TRAIN] * 10 + [EVAL] * 5,
    ),
    "validation before the first training step is no inference": (
        EVALUATED + PLAIN,
        [EVAL] * 5 + [TRAIN] * 10,
    ),
    # The first calls might have been those of teachers.
    "decoding beside an unused optimizer is soon one step a call": ("g" * 50, [EVAL] * 40),
    "a forward that is interrupted at the end is no evaluation": ("ft0" * 3 + "fF", [TRAIN] * 3),
    "one that is interrupted at once is nothing": ("fF", []),
    "many calls for one backward between two optimizers end no step": (
        "t" + ("F" * (LONG_WITHOUT_OPTIMIZER + 10) + "B0" + "F" * 210 + "B1") * 3,
        [TRAIN] * 3,
    ),
    "a teacher that runs without gradients makes no step of its own": ("gt0" * 10, [TRAIN] * 10),
    # The first iteration with both is still taken for two.
    "an optimizer that appears late ends the steps from then on": (
        "t0" * 5 + "t0t1" * 5,
        [TRAIN] * 11,
    ),
    "what is not a whole step is not counted at the end": (PLAIN + "ft", [TRAIN] * 10),
    "steps that always ended by the script's word are there once": ("t0s" * 20, [TRAIN] * 20),
    "and where a loader feeds them": ("ft0s" * 20, [TRAIN] * 20),
    "steps that were found before are not counted twice": ("t0" * 10 + "t0s" * 10, [TRAIN] * 20),
    "nor where a loader feeds them": ("ft0" * 10 + "ft0s" * 10, [TRAIN] * 20),
}
KINDS_WITHOUT_OPTIMIZERS = {
    "batches without a backward are inference where nothing was trained": (
        EVALUATED + "e",
        [INFER] * 5,
    ),
    "decoding without a loader is one step a call": ("g" * 50, [INFER] * 50),
    "a long evaluation between updates by hand is counted apart": (
        "t" * 10 + "g" * 5 + "t" * 10,
        [TRAIN] * 10 + [EVAL] * 5 + [TRAIN] * 10,
    ),
}


@pytest.mark.parametrize("why", [*KINDS, *KINDS_WITHOUT_OPTIMIZERS])
def test_steps_are_of_the_kind_that_they_are(why: str) -> None:
    events, kinds = KINDS.get(why) or KINDS_WITHOUT_OPTIMIZERS[why]
    assert Loop(events, has_optimizers=why in KINDS).kinds == kinds


@pytest.mark.parametrize(("has_optimizers", "kind"), [(False, INFER), (True, EVAL)])
def test_calls_with_gradients_and_never_a_backward_are_steps_once_they_are_many(
    has_optimizers: bool, kind: str
) -> None:
    loop = Loop("F" * (LONG_WITHOUT_OPTIMIZER + 50), has_optimizers=has_optimizers)

    # The first of them has all the calls that might have been for one backward.
    assert [step.kind for step in loop.ended] == [kind] * 49
    assert loop.ended[0].forwards == LONG_WITHOUT_OPTIMIZER + 1


def test_weights_written_beside_an_optimizer_that_steps_end_no_step() -> None:
    # A moving average of the weights, say.
    loop = Loop("t0" + "ftwftwftwftw0" * 10 + "e")

    assert [step.micro_batches for step in loop.end()] == [1, *[4] * 10]


GENERATED = "g" * 300


def test_generation_between_training_steps_is_no_part_of_the_first_ones_either() -> None:
    loop = Loop((GENERATED + "t0") * 3)

    kinds = [(kind, len(list(steps))) for kind, steps in groupby(loop.end(), lambda one: one.kind)]
    before = [(EVAL, 290), (TRAIN, 1)]
    assert kinds == [*before, *[(EVAL, 300 - LONG_WITHOUT_OPTIMIZER), (TRAIN, 1)] * 2]
    calls = [step.forwards for step in loop.ended if step.forwards > 1]
    assert calls == [FEW_WITHOUT_BACKWARD + 1, *[LONG_WITHOUT_OPTIMIZER + 1] * 2]


@pytest.mark.parametrize("live", [False, True])
def test_only_a_call_with_gradients_tells_that_training_goes_on(live: bool) -> None:
    loop = Loop()
    loop.live = live
    loop.play((GENERATED + "gt0") * 3)

    ended = loop.end()
    told = [number for number, step in enumerate(ended) if step.trains_next]
    first, *others = [number for number, step in enumerate(ended) if step.kind == TRAIN]
    # Before the first backward pass nothing tells whether there will be any.
    assert told == ([] if live else [number - 1 for number in others])
    assert live or first


def test_an_update_by_hand_that_ends_at_a_call_with_gradients_is_followed_by_another() -> None:
    loop = Loop("t" * 10 + "g" + "t" * 10, has_optimizers=False)

    told = [step.trains_next for step in loop.end()]
    assert told == [*[True] * 9, False, True, *[True] * 9, False]


def test_an_optimizer_that_is_dropped_does_not_stop_the_count_for_ever() -> None:
    loop = Loop(TWO_OPTIMIZERS)
    before = len(loop.ended)
    loop.play("t0" * (64 + 10))

    assert len(loop.ended) - before == 11


def test_a_loader_left_alive_but_unused_does_not_hide_steps() -> None:
    assert len(Loop("f" + "t0" * 200).end()) > 100


@pytest.mark.parametrize("count", [1, 2, 3])
def test_the_last_step_ends_with_its_last_work(count: int) -> None:
    loop = Loop("ft0" * count)

    assert loop.end()[-1].end == loop.machine.last_activity


@given(st.lists(st.text("fFB0", max_size=8), min_size=1, max_size=12))
def test_once_the_script_has_ended_one_nothing_else_ends_steps(steps: list[str]) -> None:
    loop = Loop("Fs")
    before = len(loop.ended)
    loop.play("".join(f"{step}s" for step in steps) + "t0")

    assert loop.kinds[before:] == [TRAIN] * len(steps)


def test_a_step_of_another_kind_is_not_the_one_that_was_found() -> None:
    loop = Loop("t0" * 3)
    loop.say(EVAL)
    loop.say(INFER)

    assert loop.kinds == [TRAIN] * 3 + [EVAL, INFER]


def test_where_nothing_has_begun_nothing_ends() -> None:
    machine = StepMachine(lambda: False, lambda: False)

    assert machine.end_explicitly(TRAIN, None) == []
    assert [one.end for one in machine.end_explicitly(TRAIN, 7)] == [7]


def test_micro_batches_of_a_step_that_the_script_ends_are_counted() -> None:
    (ended,) = Loop("ttt0s").ended[-1:]

    assert (ended.micro_batches, ended.forwards) == (3, 3)
