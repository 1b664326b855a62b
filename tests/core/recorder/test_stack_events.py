"""What py-spy writes, read; its files are made here the way its own code makes them."""

from __future__ import annotations

import json
from contextlib import suppress
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.recorder.stack_events import (
    LONGEST_TEXT,
    Frame,
    StackError,
    Stretch,
    is_own,
    read_stretches,
    stays,
)

PID = 4242
BEGUN = 1_795_311_337_000_000_000
ROOT = Frame("<module>", "/home/user/train.py", 30)

names = st.sampled_from(["main", "step", "load", "forward"])
files = st.sampled_from(["/home/user/train.py", "/v/lib/python3.11/site-packages/torch/nn/a.py"])
frames = st.builds(Frame, names, files, st.integers(1, 3))
stacks = st.lists(frames, max_size=5).map(lambda above: (ROOT, *above))
looks = st.lists(st.tuples(st.integers(1, 400_000), stacks), min_size=1, max_size=30)


def as_pyspy_writes(looks: list[tuple[int, tuple[Frame, ...]]], tid: int = 7) -> list[Any]:
    """Looks (microseconds since the one before, stack) as ``chrometrace.rs`` writes them: frames
    that stay are kept, what has changed ends innermost first and begins outermost first."""
    events: list[Any] = []
    before: tuple[Frame, ...] = ()
    at = 0

    def event(frame: Frame, phase: str) -> dict[str, Any]:
        where = {"filename": frame.file, "line": frame.line}
        of = {"args": where, "cat": "py-spy", "name": frame.function, "ph": phase}
        return {**of, "pid": PID, "tid": tid, "ts": at}

    for pause, stack in looks:
        at += pause
        same = 0
        while same < min(len(before), len(stack)) and before[same] == stack[same]:
            same += 1
        events += [event(frame, "E") for frame in reversed(before[same:])]
        events += [event(frame, "B") for frame in stack[same:]]
        before = stack
    at += 1000
    return events + [event(frame, "E") for frame in reversed(before)]


@given(looks)
def test_stretches_are_the_looks_with_equal_ones_as_one(
    looks: list[tuple[int, tuple[Frame, ...]]],
) -> None:
    found = read_stretches(json.dumps(as_pyspy_writes(looks)).encode(), PID, BEGUN)

    expected: list[Stretch] = []
    at = 0
    for index, (pause, stack) in enumerate(looks):
        at += pause
        length = looks[index + 1][0] if index + 1 < len(looks) else 1000
        start, end = BEGUN + at * 1000, BEGUN + (at + length) * 1000
        if expected and expected[-1].stack == stack:
            expected[-1] = Stretch(expected[-1].start, end, stack)
        else:
            expected.append(Stretch(start, end, stack))
    assert found == expected


@given(looks)
def test_stays_cover_the_same_time_in_order(looks: list[tuple[int, tuple[Frame, ...]]]) -> None:
    stretches = read_stretches(json.dumps(as_pyspy_writes(looks)).encode(), PID, BEGUN)
    found = stays(stretches, "/ours")
    assert found[0].start == stretches[0].start
    assert found[-1].end == stretches[-1].end
    assert sum(stay.looks for stay in found) == len(stretches)
    for one, following in pairwise(found):
        assert one.end == following.start
        assert one.place != following.place


@given(st.binary(max_size=200))
def test_what_is_no_trace_is_refused_or_empty(content: bytes) -> None:
    with suppress(StackError):
        assert read_stretches(content, PID, BEGUN) == []


def test_other_threads_and_processes_are_left_out() -> None:
    main = as_pyspy_writes([(10, (ROOT,))])
    helper = Frame("_bootstrap", "/v/lib/python3.11/threading.py", 1)
    other = as_pyspy_writes([(10, (helper,)), (90_000, (helper, ROOT))], tid=8)
    worker = [{**event, "pid": PID + 1} for event in as_pyspy_writes([(10, (ROOT,))])]
    found = read_stretches(json.dumps(main + other + worker).encode(), PID, BEGUN)
    assert [stretch.stack for stretch in found] == [(ROOT,)]


def test_the_place_is_the_users_innermost_line_and_what_it_called() -> None:
    stack = (
        ROOT,
        Frame("main", "/home/user/train.py", 17),
        Frame("backward", "/v/lib/python3.11/site-packages/torch/_tensor.py", 630),
        Frame("hook", "/v/lib/python3.11/site-packages/perftui/agent/hooks.py", 12),
    )
    (stay,) = stays([Stretch(5, 9, stack)], "/v/lib/python3.11/site-packages/perftui/agent")
    file, line, function = "/home/user/train.py", 17, "main"
    assert stay.row() == [5, 4, 1, file, line, function, "torch/_tensor.py:630 backward"]


def test_without_a_line_of_the_users_there_is_none() -> None:
    installed = Frame("<module>", "/v/lib/python3.11/site-packages/tool/run.py", 3)
    (stay,) = stays([Stretch(0, 1, (installed,))], "/ours")
    assert stay.row()[3:] == ["", -1, "", "tool/run.py:3 <module>"]


def test_a_name_of_any_length_is_cut() -> None:
    (stay,) = stays([Stretch(0, 1, (Frame("f" * 9999, "/home/" + "x" * 9999, 1),))], "/ours")
    assert all(len(str(value)) <= LONGEST_TEXT for value in stay.row())


@pytest.mark.parametrize(
    ("file", "own"),
    [
        ("/home/user/train.py", True),
        ("/home/user/torch/train.py", True),
        ("train.py", True),
        ("/opt/conda/lib/python3.11/threading.py", False),
        ("/usr/lib64/python3.9/json/decoder.py", False),
        ("/v/lib/python3.11/site-packages/torch/nn/modules/module.py", False),
        ("/usr/lib/python3/dist-packages/yaml/loader.py", False),
        ("<frozen runpy>", False),
        ("", False),
    ],
)
def test_own_files(file: str, own: bool) -> None:
    assert is_own(file) is own
