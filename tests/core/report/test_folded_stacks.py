"""Folded stacks: lines that flamegraph.pl reads, whatever names hold, and that sum to the time."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.report.folded_stacks import NoStacksError, folded_text, frame, render
from perftui.report.report import make_report
from perftui.report.subject import Subject, load_subject
from perftui.run.columns import STACK_COLUMNS, WORKER_STACK_COLUMNS
from perftui.run.journal import JournalWriter
from perftui.run.layout import RunLayout
from tests.core.report.test_report import write_run
from tests.traces.builder import TraceBuilder, ms, us

# As flamegraph.pl takes a line apart, and then the number of a second profile off the stack.
LINE = re.compile(r"(.*)\s+?(\d+(?:\.\d*)?)", re.ASCII)
STACKS = st.lists(
    st.tuples(st.lists(st.text(max_size=8), min_size=1, max_size=4), st.integers(0, 10**12)),
    max_size=6,
)
HARMFUL = ("a;b", "a\nb", "a\r", "epoch 3", "3", " 7.5", "\x1b[2J", "", " ", "\u2028", "\x85", "\0")


def read(text: str) -> list[tuple[list[str], int]]:
    assert not text or text.endswith("\n")
    found = []
    for line in text.split("\n")[:-1]:
        match = LINE.fullmatch(line)
        assert match is not None
        assert LINE.fullmatch(match[1]) is None
        found.append((match[1].split(";"), int(match[2])))
    return found


def of(built: TraceBuilder) -> str:
    return render(make_report(Subject(Path("trace.json"), analysis=built.analysis())))


@given(STACKS)
def test_names_do_not_break_the_format(stacks: list[tuple[list[str], int]]) -> None:
    text = folded_text(stacks)
    assert len(text.splitlines()) == text.count("\n")
    found = read(text)
    assert sum(number for _, number in found) == sum(number for _, number in stacks)
    depths = {len(names) for names, number in stacks if number}
    assert {len(names) for names, _ in found} == depths
    assert all(names == list(map(frame, names)) for names, _ in found)


@pytest.mark.parametrize("name", HARMFUL)
def test_a_harmful_name_is_one_frame(name: str) -> None:
    ((names, number),) = read(folded_text([(("main thread", name), 5)]))
    assert (names, number) == (["main thread", frame(name)], 5)
    assert names[1].isprintable()
    assert names[1]


def test_plain_names_stay_as_they_are() -> None:
    for name in (
        "void at::native::gemm<float, 4>(int*)",
        "train.py(12): forward",
        "ProfilerStep#3",
    ):
        assert frame(name) == name


@pytest.mark.slow
@given(st.lists(st.tuples(*[st.integers(1, 500)] * 4, st.booleans()), min_size=1, max_size=5))
def test_a_thread_sums_to_its_outermost_operators(
    parts: list[tuple[int, int, int, int, bool]],
) -> None:
    built, expected = TraceBuilder(), Counter[str]()
    for before, own, called, other, python in parts:
        begin = built.now + us(before)
        built.step().pause(us(before))
        if python:
            built.frame("train.py(3): f")
        built.op("aten::linear").pause(us(own)).op("aten::addmm", us(called)).close()
        built.op("aten::relu", us(own))
        if python:
            built.close()
        expected["main thread"] += built.now - begin
        built.end().on(2).op("AddBackward0", us(other)).on(1)
        expected["autograd"] += us(other)
    found: Counter[str] = Counter()
    for names, number in read(of(built)):
        found[names[0]] += number
    assert found == expected


def test_threads_of_one_name_stay_apart() -> None:
    built = TraceBuilder().op("a", us(9)).on(2).op("a", us(4)).on(3).op("a", us(5))
    built.fields = {}
    assert len({names[0] for names, _ in read(of(built))}) == 3


def test_a_trace_without_operators_has_none() -> None:
    with pytest.raises(NoStacksError, match="neither operators nor Python functions"):
        of(TraceBuilder().kernel("gemm", us(9)))


def with_samples(tmp_path: Path) -> Path:
    root = write_run(tmp_path / "runs", "one")
    rank = RunLayout(root).rank(0)
    stacks = JournalWriter(rank.stacks, STACK_COLUMNS)
    own = ["/p/train.py", 7, "main"]
    via = "torch/nn/functional.py linear"
    stacks.append(
        [
            # In the first seconds four times as many samples are taken.
            [0, ms(200), 1, *own, "torch/nn/functional.py:9 linear", ms(25), "forward", via],
            [ms(200), ms(700), 2, *own, "torch/nn/functional.py:9 linear", ms(100), "", via],
            [ms(900), ms(300), 1, *own, "torch/cuda.py:3 sync", ms(100), "", "torch/a.py call;x"],
            [ms(1200), ms(20), 1, *own, "p/train.py:7 main", ms(100), "", ""],
            [ms(1300), ms(100), 1, "", -1, "", "threading.py:1 wait", ms(100), "", ""],
        ]
    )
    stacks.close()
    workers = JournalWriter(rank.worker_stacks, WORKER_STACK_COLUMNS)
    load = ["/p/data.py", 4, "load", "p/data.py:4 load"]
    workers.append([[0, ms(400), 1, *load, ms(200), "fetch", "", pid, 1] for pid in (8, 9)])
    workers.close()
    return root


def test_a_run_without_a_window_gives_its_samples(tmp_path: Path) -> None:
    main = "main thread;main (/p/train.py:7)"
    assert render(make_report(load_subject(with_samples(tmp_path)))).splitlines() == [
        "data loader workers;load (/p/data.py:4) 4",
        "main thread;main (/p/train.py:7) 1",
        f"{main};torch/a.py call:x;torch/cuda.py:3 sync 3",
        f"{main};torch/nn/functional.py:9 linear 9",
        "main thread;threading.py:1 wait 1",
    ]


def test_a_run_without_anything_says_so(tmp_path: Path) -> None:
    with pytest.raises(NoStacksError, match="no window was profiled; the run has no stack samples"):
        render(make_report(load_subject(write_run(tmp_path / "runs", "one"))))
