"""Ranges and steps that a script marks with ``perftui.range`` and ``perftui.step``."""

import doctest
import subprocess
import sys
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import perftui
from perftui.agent.marks import LISTENER
from perftui.agent.windows.ranges import MOST_CHARACTERS, STEP_MARK, printable_name
from tests.docs.documents import ROOT, snippets

WINDOW = {"first_step": 10, "window_steps": 3}

BARE = """
from importlib.machinery import PathFinder
find = PathFinder.find_spec
PathFinder.find_spec = lambda name, *more: None if name == "perftui" else find(name, *more)
"""
"""Makes the interpreter one that has no perftui."""

OWN = f"""
import sys
sys.path.insert(0, {str(Path(perftui.__file__).parents[1])!r})
"""
"""Makes it one that has this perftui."""

LOOP = """
import torch
torch.manual_seed(0)
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def train():
    loss = model(torch.rand(4, 8)).relu().sum()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss.item()
"""


def marked(run: Any) -> list[str]:
    """The ranges of the window in order of time, without those of torch's own."""
    marks = [event for event in run.events() if event.get("cat") == "user_annotation"]
    names = [event["name"] for event in sorted(marks, key=lambda event: event["ts"])]
    return [name for name in names if not name.startswith("Optimizer.")]


def inside(run: Any, outer: str, inner: str) -> list[bool]:
    """Whether the events ``inner`` lie in the events ``outer``, one by one."""
    events = [one for one in run.events() if "dur" in one]
    spans = [
        sorted((one["ts"], one["ts"] + one["dur"]) for one in events if one["name"] == name)
        for name in (outer, inner)
    ]
    return [a <= c and d <= b for (a, b), (c, d) in zip(*spans, strict=True)]


@pytest.mark.subprocess
def test_ranges_are_part_of_a_window(train: Any) -> None:
    source = """
import perftui
@perftui.range("read")
def read(number):
    '''Reads.'''
    return torch.rand(number)
for _ in range(30):
    with perftui.range("batch"):
        read(3)
        read(number=4)
    with perftui.range("update"):
        train()
print(read.__name__, read.__doc__)
"""
    run = train(OWN + LOOP + source, options=WINDOW)

    assert (run.code, run.out, run.err) == (0, "read Reads.\n", "")
    phases = ["perftui::forward", "perftui::backward", "perftui::optimizer"]
    # A step ends with the optimizer, within the range around it.
    step = ["batch", "read", "read", "update", *phases]
    names = [name for name in marked(run) if "ProfilerStep" not in name]
    assert names == [*step, "update", *step, "update", *step]
    assert run.notes("error") == run.notes("warning") == []


@pytest.mark.subprocess
def test_a_range_that_goes_on_is_in_each_step(train: Any) -> None:
    source = """
import perftui
train()
for epoch in range(3):
    with perftui.range(f"epoch {epoch}"):
        for _ in range(8):
            train()
"""
    run = train(OWN + LOOP + source, options={"first_step": 7, "window_steps": 4})

    steps = ["ProfilerStep#7", "ProfilerStep#8", "ProfilerStep#9", "ProfilerStep#10"]
    assert [name for name in marked(run) if "perftui::" not in name] == [
        # The first epoch began before the window did.
        *steps[:3],
        "epoch 1",
        steps[3],
        "epoch 1",
    ]
    assert all(inside(run, "perftui::forward", "aten::addmm"))
    assert run.notes("error") == run.notes("warning") == []


MISUSED = """
import perftui, threading
both = perftui.range("both")
def generate():
    with perftui.range("left open"):
        yield 1
def elsewhere():
    with perftui.range("elsewhere"), both:
        pass
for number in range(30):
    left = generate()
    next(left)
    with both, both, perftui.range('a "quoted" name\\n\\ud800' + "x" * 500):
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
        print(train())
    try:
        with perftui.range("raises"):
            raise KeyError(number)
    except KeyError as error:
        print(error.args)
    del left
"""


@pytest.mark.subprocess
def test_a_script_runs_as_it_does_without(unnoticed: Any) -> None:
    run = unnoticed(OWN + LOOP + MISUSED, options=WINDOW)

    assert run.code == 0
    assert run.step_kinds == ["train"] * 30
    names = marked(run)
    assert "elsewhere" not in names
    assert names.count("raises") == 3
    assert max(map(len, names)) == MOST_CHARACTERS
    assert run.notes("error") == run.notes("warning") == []


@pytest.mark.subprocess
def test_an_error_of_ours_never_reaches_the_script(train: Any) -> None:
    source = """
import perftui, sys
def fails(*_, **__):
    raise RuntimeError("of ours")
sys.modules["_perftui.agent.windows.ranges"].Marks.begin_range = fails
sys.modules["_perftui.agent.recording.steps"].StepMachine.end_explicitly = fails
for number in range(20):
    with perftui.range("a"):
        train()
    if number == 15:
        perftui.step()
print("done")
"""
    run = train(OWN + LOOP + source, options=WINDOW)

    assert (run.code, run.out, run.err) == (0, "done\n", "")
    assert [one["message"] for one in run.notes("error")] == [
        "recording stopped: RuntimeError: of ours"
    ]


@pytest.mark.slow
@pytest.mark.subprocess
def test_ranges_are_compiled_as_if_they_were_not_there(train: Any) -> None:
    source = """
import perftui
from torch._dynamo.testing import CompileCounter
counter = CompileCounter()
@perftui.range("decorated")
def scaled(x):
    return x * 2
def work(x):
    with perftui.range("inner"):
        return scaled(x).sin().sum()
work = torch.compile(work, backend=counter, fullgraph=True)
for _ in range(30):
    work(model(torch.rand(4, 8))).backward()
    optimizer.step()
print(counter.frame_count)
"""
    run = train(OWN + LOOP + source, options=WINDOW, fresh=True)

    assert (run.code, run.out, run.err) == (0, "1\n", "")
    assert "inner" not in marked(run)
    assert run.notes("error") == run.notes("warning") == []


@pytest.mark.slow
@pytest.mark.subprocess
def test_the_agent_stands_in_where_perftui_is_not_installed(train: Any) -> None:
    source = """
try:
    import perftui
except ImportError:
    perftui = None
print(perftui and sorted(perftui.__all__))
for _ in range(30):
    if perftui:
        with perftui.range("update"):
            train()
        perftui.step("eval")
"""
    alone = train(BARE + LOOP + source, agent=False, fresh=True)
    run = train(BARE + LOOP + source, options={**WINDOW, "first_step": 12}, fresh=True)

    assert (alone.code, alone.out, alone.err) == (0, "None\n", "")
    assert (run.code, run.out, run.err) == (0, "['range', 'step']\n", "")
    assert run.step_kinds == ["eval"] * 30
    assert run.notes("error") == []


@pytest.mark.slow
@pytest.mark.subprocess
def test_the_installed_perftui_goes_first(train: Any) -> None:
    source = "import perftui, torch\nprint(perftui.open_run.__name__, perftui.__version__)"
    run = train(OWN + source, fresh=True)

    assert (run.code, run.out, run.err) == (0, f"open_run {perftui.__version__}\n", "")


@pytest.mark.subprocess
def test_steps_of_a_loop_in_which_nothing_is_seen(train: Any) -> None:
    source = """
import perftui, torch
weights = torch.ones(100)
for _ in range(31):
    weights = (weights * 0.9).cos()
    perftui.step()
"""
    run = train(OWN + source, options=WINDOW)

    assert (run.code, run.err) == (0, "")
    steps = run.of_kind("step")
    assert [step.step for step in steps] == list(range(30))
    ends = [step.start + step.duration for step in steps]
    assert [step.start for step in steps[1:]] == ends[:-1]
    (window,) = run.notes("window")
    assert (window["first_step"], window["steps"]) == (10, 3)
    assert marked(run) == ["ProfilerStep#10", "ProfilerStep#11", "ProfilerStep#12"]


LOADER = """
import perftui
from torch.utils.data import DataLoader, TensorDataset
data = TensorDataset(torch.ones(160, 8))
for epoch in range(2):
    for number, (x,) in enumerate(DataLoader(data, 4)):
        model(x).sum().backward()
        if number % 2:
            optimizer.step()
            perftui.step()
    with torch.no_grad():
        for (x,) in DataLoader(data, 40):
            model(x)
    perftui.step("eval")
"""


@pytest.mark.subprocess
def test_steps_that_are_ended_explicitly_are_the_only_ones(train: Any) -> None:
    run = train(OWN + LOOP + LOADER)

    assert (run.code, run.err) == (0, "")
    assert run.step_kinds == (["train"] * 20 + ["eval"]) * 2
    steps = run.of_kind("step")
    assert {step.value for step in steps if step.step % 21 != 20} == {2}
    for kind in ("input_wait", "forward", "backward", "optimizer"):
        for phase in run.of_kind(kind):
            if phase.step < len(steps):
                within = steps[phase.step]
                assert within.start <= phase.start
                assert phase.start + phase.duration <= within.start + within.duration
    assert run.notes("error") == run.notes("warning") == []


@pytest.mark.subprocess
def test_steps_within_a_phase_or_another_thread_are_ignored(train: Any) -> None:
    source = """
import perftui, threading
model.register_forward_hook(lambda *_: perftui.step())
next(model.parameters()).register_hook(lambda _: perftui.step())
for _ in range(20):
    train()
    thread = threading.Thread(target=perftui.step)
    thread.start()
    thread.join()
"""
    run = train(OWN + LOOP + source)

    assert (run.code, run.err) == (0, "")
    assert run.step_kinds == ["train"] * 20
    assert run.notes("error") == []


@pytest.mark.subprocess
def test_the_last_step_that_was_asked_for_ends_the_script(train: Any) -> None:
    run = train(OWN + LOOP + "import perftui\nwhile True:\n    train()\n    perftui.step()",
                options={"max_steps": 12})  # fmt: skip

    assert (run.code, run.out, run.err) == (0, "", "")
    assert run.step_kinds == ["train"] * 12


@pytest.mark.subprocess
def test_the_training_of_the_docs_runs_with_an_agent_and_without(
    unnoticed: Any, tmp_path: Path, environment: Any
) -> None:
    training, optional = snippets(ROOT / "docs" / "api.md")
    run = unnoticed(OWN + training, options=WINDOW)

    assert (run.code, run.out, run.err) == (0, "", "")
    assert run.step_kinds == ["train"] * 99
    parts = ["update", "simulate"] * 3
    assert [name for name in marked(run) if not name.startswith(STEP_MARK)] == parts
    # Without site-packages there is no perftui.
    command = [sys.executable, "-S", "-c", f"{optional}print(perftui)"]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, cwd=tmp_path, env=environment(None)
    )
    assert done.stdout == "None\n"


@pytest.fixture
def listener(monkeypatch: Any) -> list[str]:
    """What is told to an agent that is played."""
    told: list[str] = []
    played: Any = ModuleType(LISTENER)
    played.begin = lambda name: told.append(name) or (lambda: told.append(f"end of {name}"))
    played.step = told.append
    monkeypatch.setitem(sys.modules, LISTENER, played)
    return told


def test_one_range_may_be_used_by_several_threads_at_once(listener: list[str]) -> None:
    shared, ready = perftui.range("shared"), threading.Barrier(2)
    ends: list[int] = []

    def use() -> None:
        with shared:
            ready.wait(10)
            with shared:
                ready.wait(10)
        ends.append(threading.get_ident())

    threads = [threading.Thread(target=use) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(ends) == 2
    assert sorted(listener) == ["end of shared"] * 4 + ["shared"] * 4


def test_names_and_kinds_are_checked_with_an_agent_and_without(listener: list[str]) -> None:
    wrong: Any = 10
    with pytest.raises(TypeError, match="the name of a range is a str, not int"):
        perftui.range(wrong)
    wrong = "test"
    with pytest.raises(ValueError, match="the kind of a step is train, eval or infer, not 'test'"):
        perftui.step(wrong)
    perftui.step("infer")

    assert listener == ["infer"]


def test_the_examples_of_the_docstrings_run() -> None:
    found = doctest.testmod(sys.modules[perftui.range.__module__])

    assert (found.attempted, found.failed) == (2, 0)


@pytest.mark.parametrize(("name", "shown"), [("a", "a"), ('"\\\n', "???"), ("é\ud800", "é?")])
def test_names_are_such_as_a_trace_can_hold(name: str, shown: str) -> None:
    assert printable_name(name) == shown
