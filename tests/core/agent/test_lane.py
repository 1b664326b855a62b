"""The short way through the hooks writes what the long way does."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.agent import lane as lanes
from perftui.agent.lane import FETCHED, MOST_EVENTS, STEPPED, WENT_BACK, WITH_GRADIENTS, Lane
from perftui.agent.steps import TRAIN, Boundary, StepMachine

events = st.sampled_from([WITH_GRADIENTS, lanes.WITHOUT, WENT_BACK, STEPPED, STEPPED + 1, FETCHED])
usual_steps = [
    [FETCHED, WITH_GRADIENTS, WENT_BACK, STEPPED],
    [FETCHED, WITH_GRADIENTS, WENT_BACK, WITH_GRADIENTS, WENT_BACK, STEPPED, STEPPED + 1],
    [FETCHED, lanes.WITHOUT, WITH_GRADIENTS, WENT_BACK, STEPPED],
]
steps = st.one_of(st.sampled_from(usual_steps), st.lists(events, max_size=6))
loops = st.lists(st.tuples(steps, st.integers(1, 4)), max_size=12)


def machine() -> StepMachine:
    one = StepMachine(lambda: True, lambda: False)
    one.has_optimized = True
    return one


class Recording:
    """Takes every step that is like the ones before."""

    def __init__(self) -> None:
        self.steps = machine()
        self.thread = 1
        self.index = 0
        self.ended: list[tuple[str, int]] = []
        self.usual = 0

    def end_usual(self, micro_batches: int, calls: int) -> bool:
        assert calls > 0
        self.usual += 1
        self.ended.append((TRAIN, micro_batches))
        return True


class OnLane:
    """Has its steps end as the session does."""

    def __init__(self) -> None:
        self.recording = Recording()
        torch = SimpleNamespace(is_grad_enabled=lambda: True)
        self.lane = Lane(torch, lambda _: False)
        self.iterator = SimpleNamespace(_num_workers=0)

    def fetch(self) -> None:
        lane, recording = self.lane, self.recording
        if lane.is_open and lane.enter_fetch(self.iterator):
            return
        covered = lane.close()
        ended = recording.steps.fetch(1)
        recording.ended += [(one.kind, one.micro_batches) for one in ended]
        if ended and ended[-1].kind == TRAIN and ended[-1].forwards:
            lane.learn(covered, ended[-1].micro_batches, recording.steps.state())
            meter = SimpleNamespace(is_sampling=False, calls=0)
            lane.open(cast("Any", recording), cast("Any", meter), cast("Any", None), self._iterator)

    def _iterator(self) -> object:
        return self.iterator

    def play(self, step: list[int]) -> None:
        if self.lane.is_open and len(self.lane.events) + len(step) <= MOST_EVENTS:
            self.lane.events += step
        else:
            self.lane.close()
            lanes.tell(self.recording.steps, step)


@given(loops)
def test_steps_end_and_count_as_the_machine_says(loop: list[tuple[list[int], int]]) -> None:
    plain, ended = machine(), list[Boundary]()
    ours = OnLane()
    for step, times in loop:
        for _ in range(times):
            ended += plain.fetch(1)
            ours.fetch()
            lanes.tell(plain, step)
            ours.play(step)
    ours.lane.close()

    assert ours.recording.ended == [(one.kind, one.micro_batches) for one in ended]
    assert ours.recording.steps.finish() == plain.finish()


@pytest.mark.parametrize("step", usual_steps)
def test_the_third_step_alike_goes_the_short_way(step: list[int]) -> None:
    ours = OnLane()
    for _ in range(20):
        ours.fetch()
        ours.play(step)

    assert ours.recording.usual >= 16


LOOP = """
import sys, torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
if sys.argv[1] == "long":
    sys.modules["_perftui_agent.recording"].Recording.knows_all = lambda self: False
else:
    recording = sys.modules["_perftui_agent.recording"].Recording
    original, usual = recording.end_usual, []
    def end_usual(*args):
        usual.append(original(*args))
        return usual[-1]
    recording.end_usual = end_usual
model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
other = torch.optim.Adam(model.parameters())
loader = DataLoader(TensorDataset(torch.ones(160, 4)), 4, num_workers=int(sys.argv[2]))

def step(x):
    optimizer.zero_grad()
    model(x).sum().backward()
    optimizer.step()

for (x,) in loader:
    step(x)
with torch.no_grad():
    for (x,) in loader:
        model(x)
for number, (x,) in enumerate(loader):
    model(x).sum().backward()
    if number % 4 == 3:
        optimizer.step()
for number, (x,) in enumerate(loader):
    step(x)
    if number % 7 == 5:
        other.step()
    if number == 20:
        with torch.no_grad():
            model(x)
for (x,) in loader:
    model(x).sum().backward()
    model(x).sum().backward()
    optimizer.step()
    other.step()
batches = iter(loader)
for _ in range(12):
    (x,) = next(batches)
    step(x)
for _ in range(150):
    step(x)
del batches
for _ in range(9):
    step(x)
try:
    for number, (x,) in enumerate(loader):
        if number == 12:
            model(torch.ones(2, 3))
        step(x)
except RuntimeError:
    pass
for _ in range(7):
    step(x)
if sys.argv[1] != "long":
    print(sum(usual) > 40)
"""


@pytest.mark.subprocess
@pytest.mark.parametrize("workers", [0, 1])
def test_a_training_is_recorded_alike_on_either_way(
    train: Any, workers: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    def told(way: str) -> list[tuple[object, ...]]:
        run = train(LOOP, way, str(workers), options={"profile": False})
        assert (run.code, run.out) == (0, "" if way == "long" else "True\n")
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

    short, long = told("short"), told("long")

    assert len(short) > 1000
    assert short == long


def test_what_a_handler_raises_on_the_lane_ends_no_more_than_the_phase() -> None:
    class Stopped(BaseException):
        pass

    def stop(*_: object) -> None:
        raise Stopped

    seen: list[BaseException] = []
    lane = Lane(SimpleNamespace(is_grad_enabled=stop), lambda error: bool(seen.append(error)))
    iterator, meter = SimpleNamespace(_num_workers=0), SimpleNamespace(is_sampling=False, calls=0)
    lane.open(cast("Any", Recording()), cast("Any", meter), cast("Any", None), lambda: iterator)
    with pytest.raises(Stopped):
        lane.enter_forward()

    assert len(seen) == 1
    assert not lane.inside
