"""The fast path through the hooks writes what the slow path does."""

import ctypes
import mmap
import signal
import weakref
from collections.abc import Callable, Generator
from itertools import count
from threading import Thread, get_ident
from typing import Any, cast

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from perftui.agent.native import IS_COMPILED
from perftui.agent.recording.device import Device
from perftui.agent.recording.fast_path import (
    ASKED,
    FETCHED,
    MOST_NUMBERS,
    MOST_OPTIMIZERS,
    STEPPED,
    WENT_BACK,
    WITH_GRADIENTS,
    WITHOUT,
    FastPath,
    report_event,
)
from perftui.agent.recording.output import RingWriter
from perftui.agent.recording.recording import DEFAULTS, Recording, StepLimit
from perftui.agent.recording.steps import EVAL, TRAIN, Boundary, Optimizers, StepMachine
from perftui.agent.safety.meter import Meter
from perftui.agent.safety.signal_handlers import raised_by_handler
from perftui.wire.ring import BACKWARD, FORWARD, PAGE, RECORD
from perftui.wire.spool import AgentOptions
from tests.core.agent.interrupts import interrupted_at_call

pytestmark = pytest.mark.skipif(not IS_COMPILED, reason="the hooks are not compiled here")

CAPACITY = 4096

events = st.sampled_from([WITH_GRADIENTS, WITHOUT, WENT_BACK, STEPPED, STEPPED + 1, FETCHED, ASKED])
usual_steps = [
    [FETCHED, WITH_GRADIENTS, WENT_BACK, STEPPED],
    [FETCHED, WITH_GRADIENTS, WENT_BACK, WITH_GRADIENTS, WENT_BACK, STEPPED, STEPPED + 1],
    [FETCHED, WITHOUT, WITH_GRADIENTS, WENT_BACK, STEPPED],
    [FETCHED, WITH_GRADIENTS, WENT_BACK, ASKED] * 3 + [FETCHED, WITH_GRADIENTS, WENT_BACK, STEPPED],
]
steps = st.one_of(st.sampled_from(usual_steps), st.lists(events, max_size=6))
loops = st.lists(st.tuples(steps, st.integers(1, 4)), max_size=12)


def machine() -> StepMachine:
    one = StepMachine(lambda: True, lambda: False)
    one.has_optimized = True
    return one


class Iterator:
    """As much of a data loader's as is looked at."""

    _num_workers = 0


class Optimizer:
    """Any."""


class Torch:
    """As much of torch as is asked."""

    class optim:  # noqa: N801 - as torch calls it
        Optimizer = Optimizer

    class cuda:  # noqa: N801 - as torch calls it
        is_initialized = bool

    _C = None

    def __init__(self) -> None:
        self.has_gradients = True

    def is_grad_enabled(self) -> bool:
        return self.has_gradients


def no_error(error: BaseException) -> bool:
    raise AssertionError(error)


class OnFastPath:
    """Has its steps end as the session does, and every event go by the fast path if it can."""

    def __init__(
        self, keeps: Callable[[BaseException], bool] = no_error, options: AgentOptions = DEFAULTS
    ) -> None:
        self.torch = Torch()
        self.meter = Meter()
        ring = RingWriter(mmap.mmap(-1, PAGE + CAPACITY * RECORD.size), CAPACITY)
        device = Device(self.torch, ring, self.meter)
        self.recording = Recording(ring, machine(), self.meter, get_ident(), device, options)
        self.recording.now()
        self.optimizers = Optimizers(self.torch)
        self.all_optimizers = [Optimizer(), Optimizer()]
        for number, optimizer in enumerate(self.all_optimizers):
            assert self.optimizers.number(optimizer) == number
        self.fast_path = FastPath(self.torch, keeps)
        self.iterator = Iterator()
        self.short = 0
        """Steps that ended on the fast path."""
        self.ended: list[tuple[str, int]] = []

    def open(self, events: list[int]) -> None:
        self.fast_path.iterator = cast("Any", weakref.ref(self.iterator))
        self.fast_path.open(self.recording, self.meter, self.optimizers, events, is_fed=True)

    def fetch(self) -> None:
        """Ask for a batch."""
        fast_path, recording = self.fast_path, self.recording
        index = fast_path.index
        if fast_path.is_open and fast_path.enter_fetch(self.iterator):
            if fast_path.index > index:
                self.short += 1
                self.ended.append((TRAIN, fast_path.micro_batches))
            return
        covered = fast_path.close()
        ended = recording.steps.fetch(recording.now())
        self.ended += [(one.kind, one.micro_batches) for one in ended]
        recording.ended(ended)
        if ended and ended[-1].kind == TRAIN and ended[-1].forwards:
            # So that none is ever planned for.
            recording._usual_until = 1 << 62
            fast_path.learn(covered, ended[-1].micro_batches, recording.steps.state())
            self.open([])
        elif covered and not ended:
            self.open([*covered, ASKED])

    def play(self, step: list[int]) -> None:
        """Have the events of a step happen."""
        for event in step:
            if event == ASKED:
                self.fetch()
            elif not (self.fast_path.is_open and self._on_fast_path(event)):
                self.fast_path.close()
                report_event(self.recording.steps, event, True)

    def _on_fast_path(self, event: int) -> bool:
        fast_path = self.fast_path
        if event == FETCHED:
            return fast_path.leave_fetch(self.iterator, 1)
        if event >= STEPPED:
            optimizer = self.all_optimizers[event - STEPPED]
            return fast_path.enter_optimizer(optimizer) and fast_path.leave_optimizer(optimizer)
        self.torch.has_gradients = event == WITH_GRADIENTS
        start = fast_path.enter_backward() if event == WENT_BACK else fast_path.enter_forward()
        return bool(start) and fast_path.leave(BACKWARD if event == WENT_BACK else FORWARD, start)

    @property
    def written(self) -> list[tuple[int, int]]:
        """Kind and step of each record."""
        ring = self.recording.ring
        found = []
        for number in range(ring._head[0]):
            record = RECORD.unpack_from(ring._memory, PAGE + number * RECORD.size)
            assert record[0] == number
            assert record[2] >= 0
            found.append((record[6], record[5]))
        return found


def at_a_fetch(keeps: Callable[[BaseException], bool] = no_error) -> OnFastPath:
    """On the fast path, with a whole step done."""
    ours = OnFastPath(keeps)
    for _ in range(12):
        ours.fetch()
        ours.play(usual_steps[0])
    assert ours.fast_path.is_open
    return ours


def check(ours: OnFastPath, plain: StepMachine, ended: list[Boundary]) -> None:
    """The fast path is closed, and all is as with ``plain``, where these steps have ended."""
    assert ours.ended == [(one.kind, one.micro_batches) for one in ended]
    last = [one._replace(end=0) for one in ours.recording.steps.finish()]
    assert last == [one._replace(end=0) for one in plain.finish()]
    assert ours.recording.index == len(ended)
    assert [step for kind, step in ours.written if kind == 0] == list(range(len(ended)))


@given(loops)
def test_steps_end_and_count_as_the_machine_says(loop: list[tuple[list[int], int]]) -> None:
    plain, ended = machine(), list[Boundary]()
    ours = OnFastPath()
    for step, times in loop:
        for _ in range(times):
            ended += plain.fetch(1)
            ours.fetch()
            for event in step:
                if event == ASKED:
                    ended += plain.fetch(1)
                else:
                    report_event(plain, event, True)
            ours.play(step)
    ours.fast_path.close()
    check(ours, plain, ended)


@given(loops, st.integers(1, 30))
@example([(usual_steps[0], 30)], 20)
def test_a_training_of_so_many_steps_ends_with_the_last_of_them(
    loop: list[tuple[list[int], int]], most: int
) -> None:
    plain, ended = machine(), list[Boundary]()
    ours = OnFastPath(options=AgentOptions(max_steps=most))
    events = [event for step, times in loop for _ in range(times) for event in (ASKED, *step)]
    for event in events:
        if event == ASKED:
            ended += plain.fetch(1)
        else:
            report_event(plain, event, True)
        if sum(one.kind != EVAL for one in ended) >= most:
            with pytest.raises(StepLimit):
                ours.play([event])
            break
        ours.play([event])
    ours.fast_path.close()
    assert ours.ended == [(one.kind, one.micro_batches) for one in ended]
    assert ours.recording.index == len(ended)


def test_a_training_of_so_many_steps_goes_the_fast_path_until_then() -> None:
    ours = OnFastPath(options=AgentOptions(max_steps=20))
    with pytest.raises(StepLimit):
        ours.play([ASKED, *usual_steps[0]] * 40)
    # The first has no loader before it, the second is not known yet, the last ends all.
    assert (ours.recording.index, ours.short) == (20, 17)


class WithoutLoader(OnFastPath):
    """The same where nothing is fetched, and steps end with optimizers."""

    def play(self, step: list[int]) -> None:
        for event in step:
            index = self.fast_path.index
            if self.fast_path.is_open and self._on_fast_path(event):
                if self.fast_path.index > index:
                    self.short += 1
                    self.ended.append((TRAIN, self.fast_path.micro_batches))
                continue
            self._off_fast_path(event, self.fast_path.close())

    def _off_fast_path(self, event: int, covered: list[int]) -> None:
        recording = self.recording
        ended, now = happen(recording.steps, event, recording.now())
        self.ended += [(one.kind, one.micro_batches) for one in ended]
        recording.ended(ended)
        if event < STEPPED:
            return
        if not recording.steps.ends_by_optimizers():
            return
        whole = [*covered, event] if covered else []
        if not ended:
            if whole:
                self.open(whole)
        elif ended[-1].end == now and ended[-1].forwards:
            recording._usual_until = 1 << 62
            self.fast_path.learn(whole, ended[-1].micro_batches, recording.steps.state())
            self.open([])

    def open(self, events: list[int]) -> None:
        self.fast_path.open(self.recording, self.meter, self.optimizers, events, is_fed=False)


def happen(machine: StepMachine, event: int, now: int) -> tuple[list[Boundary], int]:
    """Without a loader; steps that end with it, and when it happened."""
    if event == WENT_BACK:
        machine.backward()
        return [], now
    if event >= STEPPED:
        return machine.optimizer(event - STEPPED, now, False), now
    return machine.forward(now, event == WITH_GRADIENTS, False), now


unfed_events = st.sampled_from([WITH_GRADIENTS, WITHOUT, WENT_BACK, STEPPED, STEPPED + 1])
unfed_usual = [
    [WITH_GRADIENTS, WENT_BACK, STEPPED],
    [WITH_GRADIENTS, WENT_BACK, STEPPED, WITH_GRADIENTS, WENT_BACK, STEPPED + 1],
    [WITHOUT, WITH_GRADIENTS, WENT_BACK, WITH_GRADIENTS, WENT_BACK, STEPPED, STEPPED, STEPPED + 1],
    [WITHOUT] * 150 + [WITH_GRADIENTS, WENT_BACK, STEPPED],
]
unfed_loops = st.lists(
    st.tuples(
        st.one_of(
            st.sampled_from([*unfed_usual, [WITHOUT] * 70, [WITH_GRADIENTS, WENT_BACK] * 70]),
            st.lists(unfed_events, max_size=6),
        ),
        st.integers(1, 5),
    ),
    max_size=12,
)


@given(unfed_loops)
# Before the first backward pass a dozen forward calls are steps of their own.
@example([([WITH_GRADIENTS, STEPPED], 3), ([*[WITHOUT] * 20, WITH_GRADIENTS, STEPPED], 1)])
def test_steps_without_a_loader_end_as_the_machine_says(loop: list[tuple[list[int], int]]) -> None:
    plain, ended, clock = machine(), list[Boundary](), count(1)
    ours = WithoutLoader()
    for step, times in loop:
        for _ in range(times):
            for event in step:
                ended += happen(plain, event, next(clock))[0]
            ours.play(step)
    ours.fast_path.close()
    check(ours, plain, ended)


@pytest.mark.parametrize("step", unfed_usual)
def test_the_third_step_without_a_loader_takes_the_fast_path(step: list[int]) -> None:
    ours = WithoutLoader()
    for _ in range(20):
        ours.play(step)

    assert ours.short >= 16
    ours.fast_path.close()
    one = ours.recording.index - 3
    assert sum(index == one for _, index in ours.written) == len(step) + 1
    assert ours.meter._steps == len(ours.ended)


@pytest.mark.parametrize("change", [{"usual_until": 1}, {"slow_after": -1}, {"pauses": [1]}])
def test_an_optimizer_ends_no_step_when_it_is_time_to_plan(change: dict[str, Any]) -> None:
    ours = without_loader()
    optimizer = ours.all_optimizers[0]
    ours.play(unfed_usual[0][:-1])
    assert ours.fast_path.enter_optimizer(optimizer)
    for name, value in change.items():
        setattr(ours.fast_path, name, value)
    written = len(ours.written)

    assert not ours.fast_path.leave_optimizer(optimizer)
    assert len(ours.written) == written
    ours.fast_path.close()
    assert ours.optimizers.left(optimizer) > 0


def test_an_optimizer_within_a_backward_pass_ends_no_step() -> None:
    ours = without_loader()
    ours.play(unfed_usual[0][:-1])
    assert ours.fast_path.enter_optimizer(ours.all_optimizers[0])
    ours.fast_path.inside = True

    assert not ours.fast_path.leave_optimizer(ours.all_optimizers[0])


def test_no_loader_is_for_a_fast_path_without_one() -> None:
    ours = without_loader()
    ours.fast_path.iterator = cast("Any", weakref.ref(ours.iterator))

    assert ours.fast_path.enter_fetch(ours.iterator) == 0
    assert not ours.fast_path.leave_fetch(ours.iterator, 1)


@pytest.mark.parametrize("step", usual_steps)
def test_the_third_step_alike_takes_the_fast_path(step: list[int]) -> None:
    ours = OnFastPath()
    for _ in range(20):
        ours.fetch()
        ours.play(step)

    assert ours.short >= 16
    ours.fast_path.close()
    # Each phase and each step wrote its record, a fetch two.
    passes = sum(event not in (FETCHED, ASKED) for event in step) + 2 * step.count(FETCHED)
    assert ours.written[-passes:] == [
        (kind, ours.recording.index) for kind, _ in ours.written[-passes:]
    ]
    assert sum(index == 10 for _, index in ours.written) == passes + 1


def test_the_meter_knows_of_every_step_and_measures_one_in_31() -> None:
    ours, measured = OnFastPath(), []
    for number in range(200):
        ours.fetch()
        if ours.fast_path.is_open and ours.fast_path.is_sampling:
            measured.append(number)
        ours.play(usual_steps[0])
    ours.fast_path.close()

    assert ours.meter._steps == 199
    assert measured == [1, 2, 3, 4, 5, 6, 7, 31, 62, 93, 124, 155, 186]


def test_another_thread_and_another_iterator_have_no_way_here() -> None:
    ours = at_a_fetch()
    fast_path, answers = ours.fast_path, list[object]()

    def elsewhere() -> None:
        answers.extend(
            [fast_path.enter_forward(), fast_path.enter_backward(), fast_path.leave(FORWARD, 1)]
        )
        answers.extend(
            [fast_path.enter_fetch(ours.iterator), fast_path.leave_fetch(ours.iterator, 1)]
        )

    thread = Thread(target=elsewhere)
    thread.start()
    thread.join()

    assert answers == [0, 0, False, 0, False]
    assert fast_path.enter_forward() > 0
    assert fast_path.enter_fetch(Iterator()) == 0
    assert not fast_path.enter_optimizer(Optimizer())


def test_steps_are_ended_elsewhere_when_it_is_time_to_plan_or_one_was_slow() -> None:
    planned = {"plan": ctypes.addressof(ctypes.c_int64(8)), "planned": 7}
    for change in ({"usual_until": 1}, {"slow_after": -1}, {"pauses": [1]}, planned):
        ours = at_a_fetch()
        for name, value in change.items():
            setattr(ours.fast_path, name, value)

        assert ours.fast_path.enter_fetch(ours.iterator) == 0


def test_nothing_is_for_the_fast_path_after_a_fetch_whose_end_was_not_reported() -> None:
    ours = at_a_fetch()
    assert ours.fast_path.enter_fetch(ours.iterator)

    assert ours.fast_path.is_fetching
    assert (ours.fast_path.enter_forward(), ours.fast_path.enter_backward()) == (0, 0)
    assert not ours.fast_path.enter_optimizer(ours.all_optimizers[0])
    assert ours.fast_path.leave_fetch(ours.iterator, 1)
    assert ours.fast_path.enter_forward() > 0


def test_an_optimizer_that_steps_when_the_fast_path_closes_goes_on() -> None:
    ours = at_a_fetch()
    assert ours.fast_path.enter_optimizer(ours.all_optimizers[0])
    ours.fast_path.close()

    assert ours.optimizers.left(ours.all_optimizers[0]) > 0


def test_a_step_of_very_many_events_takes_the_slow_path() -> None:
    step = [FETCHED, *[WITH_GRADIENTS, WENT_BACK] * 2500, STEPPED]
    ours = OnFastPath()
    for _ in range(4):
        ours.fetch()
        ours.play(step)
    ours.fetch()

    assert (ours.short, ours.ended) == (0, [(TRAIN, 1)] * 4)


PATH = """
import sys, torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
recording = sys.modules["_perftui.agent.recording.recording"]
if sys.argv[1] == "slow":
    recording.Recording.knows_all = lambda self: False
else:
    # On a busy machine it is time to plan after every other step.
    recording.USUAL_NS = 10**15
    original, usual = recording.Recording.take_back, []
    def take_back(self, fast_path):
        usual.append(fast_path.steps)
        original(self, fast_path)
    recording.Recording.take_back = take_back
"""
"""All goes the slow path, or all that can the fast one; ``usual`` counts steps that did."""


RANDOM_LOOPS = """
import random
model = nn.Linear(4, 1)
optimizers = [torch.optim.SGD(model.parameters(), lr=0.01) for _ in range(3)]
scaler = torch.amp.GradScaler("cpu", init_scale=2.0)
loader = DataLoader(TensorDataset(torch.ones(16, 4)), 4, num_workers=int(sys.argv[2]))
x, loss, batches = torch.ones(2, 4), None, iter(loader)

def forward():
    global loss
    loss = model(x).sum()

def without():
    with torch.no_grad():
        model(x)

def backward():
    if loss is None:
        forward()
    loss.backward(retain_graph=True)

def closure():
    forward()
    backward()
    return loss

def skip():
    optimizer = optimizers[0]
    optimizer.zero_grad()
    forward()
    scaler.scale(loss * float("inf")).backward(retain_graph=True)
    scaler.step(optimizer)
    scaler.update()

def broken():
    try:
        model(torch.ones(2, 3))
    except RuntimeError:
        pass

def epoch():
    for (batch,) in loader:
        model(batch).sum().backward()
        optimizers[0].step()

def look():
    next(iter(loader))

def fetch():
    global batches
    if len(batches) == batches._num_yielded:
        batches = iter(loader)
    next(batches)
    forward()

steps = [lambda one=one: one.step() for one in optimizers]
closures = [lambda one=one: one.step(closure) for one in optimizers]
usual_ones = [[forward, backward, steps[0]], [without, forward, backward, steps[0], steps[1]],
              [forward, backward, steps[1], forward, backward, steps[0]], [closures[0]],
              [fetch, backward, steps[0]], [fetch, backward, fetch, backward, steps[1]]]
events = [forward, without, backward, broken, skip, fetch, *steps, *closures]
draw = random.Random(int(sys.argv[3]))
for _ in range(60):
    if draw.random() < 0.6:
        step = draw.choice(usual_ones)
    elif draw.random() < 0.2:
        step = [draw.choice([epoch, look])]
    elif draw.random() < 0.1:
        step = [draw.choice([forward, without, backward])] * 230
    else:
        step = draw.choices(events, k=draw.randint(1, 5))
    for _ in range(draw.randint(1, 9)):
        for event in step:
            event()
if sys.argv[1] != "slow":
    print(sum(usual) > 40)
"""


@pytest.mark.slow
@pytest.mark.subprocess
@pytest.mark.parametrize(("workers", "seed"), [("0", "0"), ("0", "1"), ("0", "2"), ("1", "3")])
def test_a_training_is_recorded_alike_on_both_paths(train: Any, workers: str, seed: str) -> None:
    def recorded(path: str) -> list[tuple[object, ...]]:
        run = train(PATH + RANDOM_LOOPS, path, workers, seed, options={"profile": False})
        assert (run.code, run.out) == (0, "" if path == "slow" else "True\n")
        assert run.notes("error") == []
        ring = next(n for n, path in enumerate(run.spool.rings()) if path.exists())
        kept = [one for one in run.records(ring) if one.kind not in ("gc", "memory")]
        for path in run.spool.root.iterdir():
            if path.is_file():
                path.unlink()
        # How many batches are ready is a matter of time.
        return [
            (one.kind, one.step, one.flag, one.value if one.kind == "step" else None)
            for one in kept
        ]

    fast, slow = recorded("fast"), recorded("slow")

    assert len(fast) > 500
    assert fast == slow


MANY_OPTIMIZERS = """
count = int(sys.argv[2])
model = nn.Sequential(*[nn.Linear(4, 4) for _ in range(count)])
optimizers = [torch.optim.SGD(one.parameters(), lr=0.01) for one in model]
for _ in range(30):
    model(torch.ones(2, 4)).sum().backward()
    for optimizer in optimizers:
        optimizer.step()
# Closes the fast path.
iter(DataLoader(TensorDataset(torch.ones(4, 4))))
print(sum(usual) > 20)
"""


@pytest.mark.subprocess
@pytest.mark.parametrize("count", [MOST_OPTIMIZERS, MOST_OPTIMIZERS + 1])
def test_a_fast_path_that_cannot_know_all_optimizers_stays_closed(train: Any, count: int) -> None:
    # It would open and close with each of the others: 0.3 ms a step where there are 48.
    run = train(PATH + MANY_OPTIMIZERS, "fast", str(count), options={"profile": False})

    assert (run.code, run.out) == (0, f"{count == MOST_OPTIMIZERS}\n")
    assert run.step_kinds.count("train") == 30


class Stopped(BaseException):
    """What a handler of the script raises."""


@pytest.fixture
def stops() -> Generator[Callable[..., Any]]:
    """Has the handler of a signal raise it."""

    def stop(*_: object) -> None:
        raise Stopped

    before = signal.signal(signal.SIGUSR1, stop)
    yield lambda *_: signal.raise_signal(signal.SIGUSR1)
    signal.signal(signal.SIGUSR1, before)


def test_what_a_handler_raises_on_the_fast_path_is_known_and_ends_no_more_than_the_phase(
    stops: Callable[..., Any],
) -> None:
    seen: list[bool] = []
    ours = at_a_fetch(lambda error: bool(seen.append(raised_by_handler(error))))
    ours.fast_path.is_grad_enabled = ours.fast_path.batches_ready = stops
    ours.fast_path.has_workers = True
    with pytest.raises(Stopped):
        ours.fast_path.enter_forward()
    assert not ours.fast_path.inside
    with pytest.raises(Stopped):
        ours.fast_path.enter_fetch(ours.iterator)

    assert seen == [True, True]


def test_an_error_of_ours_is_kept_and_what_is_raised_while_it_is_told_is_passed_on() -> None:
    seen: list[type[BaseException]] = []
    ours = at_a_fetch(lambda error: not seen.append(type(error)))
    ours.fast_path.is_grad_enabled = lambda: 1 // 0 > 0

    assert ours.fast_path.enter_forward() == 0
    assert seen == [ZeroDivisionError]

    def stop(_: BaseException) -> bool:
        raise Stopped

    ours = at_a_fetch(stop)
    ours.fast_path.is_grad_enabled = lambda: 1 // 0 > 0
    with pytest.raises(Stopped):
        ours.fast_path.enter_forward()


def without_loader() -> WithoutLoader:
    """On the fast path, with a whole step done."""
    ours = WithoutLoader()
    for _ in range(12):
        ours.play(unfed_usual[0])
    assert ours.fast_path.is_open
    return ours


@pytest.mark.parametrize("number", range(1, 9))
def test_each_fast_path_that_is_opened_knows_all_optimizers(number: int) -> None:
    ours = OnFastPath()
    ours.all_optimizers = [Optimizer() for _ in range(number)]
    ours.optimizers = Optimizers(ours.torch)
    for optimizer in ours.all_optimizers:
        ours.optimizers.number(optimizer)
    for opened in range(6):
        ours.open([])
        for optimizer in ours.all_optimizers:
            assert ours.fast_path.enter_optimizer(optimizer)
            assert ours.fast_path.leave_optimizer(optimizer)
        ours.fast_path.close()
        assert ours.fast_path.finished == number * (opened + 1)


def test_an_optimizer_whose_number_is_no_event_takes_the_slow_path() -> None:
    ours = at_a_fetch()
    first, second = ours.all_optimizers
    ours.optimizers._numbers[second] = MOST_NUMBERS
    ours.fast_path.close()
    ours.open([])

    assert not ours.fast_path.enter_optimizer(second)
    assert ours.fast_path.enter_optimizer(first)
    with pytest.raises(ValueError, match="optimizer"):
        ours.fast_path.optimizers = [(cast("Any", weakref.ref(second)), MOST_NUMBERS)]


def closing_as_it_ends(ours: OnFastPath) -> list[list[int]]:
    """Have it closed as its step ends; what it returns then."""
    closed: list[list[int]] = []
    ours.fast_path.is_sampling = True
    ours.meter.learn_compiled = lambda *_: closed.append(ours.fast_path.close())  # type: ignore[method-assign]
    return closed


def test_a_fast_path_that_closes_as_its_step_ends_leaves_that_to_others() -> None:
    ours = at_a_fetch()
    fast_path, closed = ours.fast_path, closing_as_it_ends(ours)
    index, written = fast_path.index, len(ours.written)

    assert fast_path.enter_fetch(ours.iterator) == 0
    assert closed == [usual_steps[0]]
    assert (ours.recording.index, len(ours.written)) == (index, written)
    # The machine has been told of that step, and ends it.
    assert len(ours.recording.steps.fetch(1)) == 1


def test_a_fast_path_that_closes_as_an_optimizer_ends_its_step_leaves_that_to_others() -> None:
    ours = without_loader()
    fast_path = ours.fast_path
    ours.play(unfed_usual[0][:-1])
    assert fast_path.enter_optimizer(ours.all_optimizers[0])
    closed = closing_as_it_ends(ours)
    index, written = fast_path.index, len(ours.written)

    assert not fast_path.leave_optimizer(ours.all_optimizers[0])
    assert closed == [unfed_usual[0][:-1]]
    assert (ours.recording.index, len(ours.written)) == (index, written)
    # Who is told of its end next finds when it began, and a step to end.
    assert ours.optimizers.left(ours.all_optimizers[0]) > 0
    assert len(ours.recording.steps.optimizer(0, 1, False)) == 1


def in_a_step() -> OnFastPath:
    """On the fast path, in the middle of a step: its optimizer goes on."""
    ours = at_a_fetch()
    ours.fetch()
    ours.play([FETCHED, WITH_GRADIENTS, WENT_BACK])
    assert ours.fast_path.enter_optimizer(ours.all_optimizers[0])
    return ours


def handed_over(ours: OnFastPath) -> tuple[object, ...]:
    """What others know of what happened on the fast path."""
    recording = ours.recording
    return (
        (recording.index, recording._usual_steps),
        (recording.steps.state(), vars(recording.steps._counts)),
        [optimizer() is ours.all_optimizers[0] for optimizer, _ in ours.optimizers.open],
    )


def test_an_interrupt_while_the_fast_path_closes_keeps_nothing_from_anybody() -> None:
    whole = in_a_step()
    whole.fast_path.close()
    known = handed_over(whole)
    number = 0
    while True:
        ours = in_a_step()
        was_interrupted = interrupted_at_call(number, ours.fast_path.close)
        # As the next hook does.
        ours.fast_path.close()

        assert handed_over(ours) == known
        if not was_interrupted:
            break
        number += 1

    assert number > 6


HOOKS = {
    "enter_fetch": 1,
    "leave_fetch": 2,
    "enter_forward": 0,
    "enter_backward": 0,
    "leave": 2,
    "enter_optimizer": 1,
    "leave_optimizer": 1,
}


@pytest.mark.parametrize(("name", "arguments"), HOOKS.items())
def test_hooks_take_so_many_arguments_and_no_others(name: str, arguments: int) -> None:
    hook = getattr(at_a_fetch().fast_path, name)
    for wrong in {*range(5)} - {arguments, arguments + 1}:
        with pytest.raises(TypeError, match="arguments"):
            hook(*[1] * wrong)


@pytest.mark.parametrize(
    "name", ["pauses", "iterator", "is_grad_enabled", "batches_ready", "guards"]
)
def test_a_fast_path_from_which_something_is_missing_takes_no_steps(name: str) -> None:
    ours = at_a_fetch(lambda _: True)
    delattr(ours.fast_path, name)
    ours.fast_path.has_workers = True

    assert ours.fast_path.enter_fetch(ours.iterator) == 0


@pytest.mark.parametrize("name", ["events", "usual", "optimizers"])
def test_what_is_a_list_cannot_be_deleted(name: str) -> None:
    with pytest.raises(TypeError):
        delattr(at_a_fetch().fast_path, name)
