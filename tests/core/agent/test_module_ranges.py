"""Which module each operator runs in, while a window is open."""

import importlib
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest

from perftui.agent.hooks.watch import watch_modules
from perftui.agent.recording.fast_path import FastPath
from perftui.agent.windows.ranges import Marks, ModuleNames, ModuleRanges, Ranges

COUNTS = {
    "embed (Linear)": 1,
    "layers.0 (Block)": 1,
    "layers.0.inner (Linear)": 1,
    "layers.0.act (ReLU)": 1,
    "layers.1 (Block)": 1,
    "layers.1.inner (Linear)": 1,
    "layers.1.act (ReLU)": 1,
    "head (Linear)": 1,
}


class Window:
    """A window of which the ranges are written down."""

    def __init__(self, torch: Any) -> None:
        self.calls: list[tuple[int, str]] = []
        self.depth = 0
        self.errors: list[str] = []
        self.marks = Marks(self)  # type: ignore[arg-type] - it takes the place of Ranges
        self.modules = ModuleRanges(torch, self, self.errors.append)  # type: ignore[arg-type]

    are_recorded_elsewhere = True

    def open(self, name: str) -> int:
        self.calls.append((self.depth, name))
        self.depth += 1
        return self.depth

    def close(self, handle: int) -> None:
        assert handle == self.depth, "a range was ended that is not the innermost"
        self.depth -= 1

    @property
    def counts(self) -> dict[str, int]:
        mark = "nn.Module: "
        return dict(Counter(n[len(mark) :] for _, n in self.calls if n.startswith(mark)))


@pytest.fixture(scope="module")
def small() -> Any:
    return importlib.import_module("tests.core.agent.small_model")


@pytest.fixture
def hooked(torch: Any) -> Iterator[None]:
    """The hook that the agent puts in the place of torch's function."""

    class Session:
        """Records nothing, and knows where an outermost call goes on."""

        fast_path = FastPath(torch, lambda _: False)

        def enter_forward(self, *_: object) -> int:
            self.fast_path.inside = True
            return 1

        def leave(self, *_: int) -> None:
            self.fast_path.inside = False

    before = torch.nn.Module.__call__
    watch_modules(torch, Session())  # type: ignore[arg-type] - of which it is all that is needed
    yield
    torch.nn.Module.__call__ = before  # type: ignore[method-assign]


@contextmanager
def opened(torch: Any) -> Iterator[Window]:
    window = Window(torch)
    before = torch.nn.Module.__call__
    window.marks.begin_step(7)
    window.modules.open(window.marks)
    try:
        yield window
    finally:
        window.modules.close()
        window.marks.end_all()
        assert torch.nn.Module.__call__ is before
        assert window.depth == 0


def times(number: int, **others: int) -> dict[str, int]:
    return {**{name: count * number for name, count in COUNTS.items()}, **others}


def within(window: Window, work: Callable[[], Any]) -> None:
    window.marks.begin("forward")
    work()
    window.marks.end("forward")


def test_every_call_is_named_by_its_place_and_ranges_lie_one_inside_the_other(
    torch: Any, small: Any
) -> None:
    with opened(torch) as window:
        model = small.Model()
        within(window, partial(model, torch.ones(3, 4)))

    assert window.counts == times(1, Model=1)
    assert window.calls[:6] == [
        (0, "ProfilerStep#7"),
        (1, "perftui::forward"),
        (2, "nn.Module: Model"),
        (3, "nn.Module: embed (Linear)"),
        (3, "nn.Module: layers.0 (Block)"),
        (4, "nn.Module: layers.0.inner (Linear)"),
    ]


def test_the_outermost_call_has_its_range_within_the_phase_that_it_begins(
    torch: Any, small: Any
) -> None:
    with opened(torch) as window:
        model = small.Model()
        # Not in a phase yet, so it is the hook inside that names it.
        model(torch.ones(3, 4))
        window.marks.begin("forward")
        window.modules.begin_root(model)
        window.marks.end("forward")

    assert window.counts == {"Model": 1}


def test_nothing_is_named_once_the_window_is_closed_even_for_who_kept_the_call(
    torch: Any, small: Any
) -> None:
    with opened(torch) as window:
        kept = torch.nn.Module.__call__
    kept(small.Model(), torch.ones(3, 4))

    assert window.counts == {}


def test_a_call_that_somebody_replaced_meanwhile_stays_replaced(torch: Any) -> None:
    before = torch.nn.Module.__call__
    window = Window(torch)
    window.modules.open(window.marks)
    ours = torch.nn.Module.__call__

    def theirs(self: Any, *args: Any) -> Any:
        return ours(self, *args)

    try:
        torch.nn.Module.__call__ = theirs  # type: ignore[method-assign]
        window.modules.close()
        assert torch.nn.Module.__call__ is theirs
        assert torch.nn.ReLU()(torch.ones(1)).item() == 1
    finally:
        torch.nn.Module.__call__ = before  # type: ignore[method-assign]


def test_a_module_that_raises_ends_its_range(torch: Any, small: Any) -> None:
    def again(layer: Any, x: Any) -> Any:
        with pytest.raises(RuntimeError):
            layer(x[:, :3])
        return small.plainly(layer, x)

    with opened(torch) as window:
        within(window, partial(small.Model(again), torch.ones(3, 4)))

    found = {"layers.0 (Block)": 2, "layers.0.inner (Linear)": 2}
    found |= {"layers.1 (Block)": 2, "layers.1.inner (Linear)": 2}
    assert window.counts == times(1, Model=1, **found)
    assert {depth for depth, name in window.calls if "head" in name} == {3}


def test_what_a_module_left_open_ends_with_the_phase(torch: Any) -> None:
    with opened(torch) as window:
        window.marks.begin("forward")
        window.marks.begin_range("nn.Module: Lost")
        window.marks.end("forward")
        assert window.depth == 1


@pytest.mark.parametrize("reentrant", [True, False])
def test_what_a_checkpoint_computes_anew_is_named_too(
    torch: Any, small: Any, reentrant: bool
) -> None:
    from torch.utils.checkpoint import checkpoint

    model = small.Model(partial(checkpoint, use_reentrant=reentrant))
    with opened(torch) as window:
        window.marks.begin("forward")
        out = model(torch.ones(3, 4))
        window.marks.end("forward")
        window.marks.begin("backward")
        out.sum().backward()
        window.marks.end("backward")

    assert window.counts["layers.0.inner (Linear)"] == 2
    assert window.counts["head (Linear)"] == 1


@pytest.mark.parametrize("is_profiled", [True, False])
def test_in_other_threads_only_those_of_the_profile_have_ranges(
    torch: Any, small: Any, is_profiled: bool
) -> None:
    model = small.Model()
    with opened(torch) as window:
        window.are_recorded_elsewhere = is_profiled
        thread = threading.Thread(target=model, args=(torch.ones(3, 4),))
        thread.start()
        thread.join()

    assert window.counts == (times(1, Model=1) if is_profiled else {})


def test_modes_of_the_script_meet_no_operators_of_ours(torch: Any, small: Any) -> None:
    ranges = Ranges(torch, recorded=True, nvtx=False)
    marks = Marks(ranges)
    modules = ModuleRanges(torch, ranges, pytest.fail)
    model = small.Model()
    with small.Seen() as plain:
        model(torch.ones(3, 4))
    with torch.autograd.profiler.profile(use_kineto=True) as profiler, small.Seen() as ours:
        modules.open(marks)
        marks.begin("forward")
        model(torch.ones(3, 4))
        marks.end("forward")
        modules.close()

    assert ours.operators == plain.operators
    assert sum(each.name.startswith("nn.Module: ") for each in profiler.function_events) == 9


@pytest.mark.usefixtures("hooked")
@pytest.mark.filterwarnings("ignore:The .grad attribute:UserWarning")  # torch's compiler looks
@pytest.mark.parametrize("first", ["before", "within"])
@pytest.mark.parametrize("way", ["whole", "in place", "blocks", "broken", "function"])
def test_nothing_is_compiled_anew_or_otherwise(
    torch: Any, small: Any, way: str, first: str
) -> None:
    from torch._dynamo.utils import counters

    def graphs() -> tuple[int, int]:
        return counters["frames"]["ok"], counters["stats"]["unique_graphs"]

    def run(root: Callable[..., Any]) -> None:
        for _ in range(3):
            root(torch.ones(3, 4)).sum().backward()

    torch._dynamo.reset()
    counters.clear()
    _, alone = small.compiled(way)
    run(alone)
    expected = graphs()

    torch._dynamo.reset()
    counters.clear()
    _, root = small.compiled(way)
    if first == "before":
        run(root)
    with opened(torch) as window:
        within(window, partial(run, root))
    run(root)

    assert expected[0] > 0
    assert graphs() == expected
    assert bool(window.counts) == (way != "function")


def test_wrappers_are_no_part_of_the_place(torch: Any, small: Any) -> None:
    names = ModuleNames()
    model = small.Model()
    wrapped = torch.compile(model, backend="eager")
    wrapped.add_module("other", torch.nn.Sequential())
    assert names.of(wrapped) == "nn.Module: OptimizedModule"
    assert names.of(model) == "nn.Module: Model"
    assert names.of(model.layers[1].inner) == "nn.Module: layers.1.inner (Linear)"  # type: ignore[arg-type, union-attr]

    class DistributedDataParallel(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.module = small.Model()

    parallel = DistributedDataParallel()
    names.of(parallel)
    assert names.of(parallel.module) == "nn.Module: Model"
    assert names.of(parallel.module.embed) == "nn.Module: embed (Linear)"


def test_a_name_that_would_damage_the_file_is_made_safe(torch: Any) -> None:
    names = ModuleNames()
    model = torch.nn.Module()
    model.add_module('we"ird\\\n', torch.nn.ReLU())
    names.of(model)

    assert names.of(model.get_submodule('we"ird\\\n')) == "nn.Module: we?ird?? (ReLU)"


def test_a_failure_to_name_is_said_and_the_modules_are_called(torch: Any, small: Any) -> None:
    class Shy(small.Model):
        def named_modules(self, *_: Any, **__: Any) -> Any:
            raise ValueError("no")

    with opened(torch) as window:
        within(window, partial(Shy(), torch.ones(3, 4)))

    assert window.errors == ["modules were not marked: ValueError: no"]
    assert window.counts == {}


TRAINING = """
import torch
from torch import nn
torch.manual_seed(1)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
loss = nn.MSELoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
before = nn.Module.__call__
for _ in range(20):
    optimizer.zero_grad()
    loss(model(torch.ones(3, 4)), torch.zeros(3, 2)).backward()
    optimizer.step()
print(nn.Module.__call__ is before)
print([float(p.double().sum()) for p in model.parameters()], torch.rand(1).item())
"""


def test_a_training_is_recorded_with_its_modules_and_not_changed(unnoticed: Any) -> None:
    run = unnoticed(TRAINING, options={"modules": True, "first_step": 5, "window_steps": 2})

    assert run.code == 0
    marks = [one for one in run.events() if one.get("cat") == "user_annotation"]
    counts = Counter(one["name"] for one in marks if one["name"].startswith("nn.Module: "))
    names = ("Sequential", "0 (Linear)", "1 (ReLU)", "2 (Linear)", "MSELoss")
    assert counts == {f"nn.Module: {name}": 2 for name in names}
    spans = {one["name"]: (one["ts"], one["ts"] + one["dur"]) for one in reversed(marks)}
    order = ["ProfilerStep#5", "perftui::forward", "nn.Module: Sequential", "nn.Module: 1 (ReLU)"]
    begins, ends = zip(*(spans[name] for name in order), strict=True)
    assert sorted(begins) == list(begins)
    assert sorted(ends, reverse=True) == list(ends)
