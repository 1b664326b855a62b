"""Lines where the main thread was: over steady steps, and in the gaps of a GPU."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.analysis.model import Gap, GapCause, TraceAnalysis
from perftui.facts.fact import Facts
from perftui.facts.gpu.gaps import gap_lines, line_of_gap
from perftui.facts.notes import notes
from perftui.facts.source.lines import (
    FEWEST_SAMPLES,
    MOST_LINES,
    lines_by_time,
    main_thread,
    stack_samples,
)
from perftui.facts.step.steps import steady
from perftui.report import as_json
from perftui.report.report import make_report
from perftui.report.subject import Subject
from perftui.report.text import render
from perftui.run.columns import NO_STACKS
from perftui.trace.model import NONE, Int64
from tests.core.diagnosis.runs import MS
from tests.core.diagnosis.stack_runs import ORIGIN, RATE, at_wall, run_with, stack_table
from tests.described import described


def gap(start: int, length: int, cause: GapCause = GapCause.PYTHON) -> Gap:
    return Gap(0, start * MS, (start + length) * MS, NONE, NONE, cause, NONE, NONE)


@dataclass(frozen=True)
class _Trace:
    """Events all the time from 0 to ``end``."""

    wall_origin: int | None
    end: int = 10_000 * MS

    @property
    def start(self) -> Int64:
        return np.zeros(1, dtype=np.int64)

    def ends_of(self, rows: slice) -> Int64:
        return np.full(1, self.end, dtype=np.int64)[rows]


@dataclass(frozen=True)
class _Analysis:
    """What is read of an analysis here."""

    trace: _Trace
    gaps: tuple[Gap, ...]
    worked_out: dict[object, object] = field(default_factory=dict)


def analysis_of(*gaps: Gap, origin: int | None = ORIGIN, end: int = 10_000 * MS) -> TraceAnalysis:
    found: Any = _Analysis(_Trace(origin, end), gaps)
    return found


lines = st.lists(st.tuples(st.integers(1, 400), st.integers(1, 4)), min_size=1, max_size=60)


@pytest.mark.slow
@given(lines)
def test_shares_are_of_the_time_inside_steady_steps(found: list[tuple[int, int]]) -> None:
    rows, at = [], 0
    for held, line in found:
        rows.append((at, held, "train.py", line))
        at += held
    run = run_with(stack_table(*rows))
    steps = run.ranks[0].steps
    mask = steady(steps)
    inside = [False] * 10_000
    for start, chosen in zip(steps["start"].tolist(), mask.tolist(), strict=True):
        for each in range(start // MS, start // MS + 100):
            inside[each] = chosen
    expected: dict[int, int] = {}
    for start, held, _, line in rows:
        seen = sum(inside[start : start + held])
        if seen:
            expected[line] = expected.get(line, 0) + seen * MS

    thread = main_thread(Facts(run))
    if sum(expected.values()) * RATE // 1_000_000_000 < FEWEST_SAMPLES:
        assert thread is None
        return
    assert thread is not None
    assert thread.covered == sum(expected.values())
    assert {line.line: line.held for line in thread.lines} == expected
    assert [line.held for line in thread.lines] == sorted(expected.values(), reverse=True)
    assert sum(thread.share(line) for line in thread.lines) == pytest.approx(1.0)


def test_only_the_longest_lines_are_kept_and_their_share_is_of_everything() -> None:
    rows = [(at * 400, 400, "train.py", at) for at in range(20)]
    run = run_with(stack_table(*rows))
    thread = main_thread(Facts(run))
    assert thread is not None
    assert len(thread.lines) == MOST_LINES
    assert thread.covered > sum(line.held for line in thread.lines)


def test_a_gap_is_named_only_by_samples_inside_it_and_by_long_stretches_around_it() -> None:
    stacks = at_wall(
        (0, 90, "train.py", 1),  # covers the first gap, but is as long as one mean interval only
        (90, 10, "train.py", 2),
        (100, 400, "train.py", 3),  # four mean intervals: holds the second gap
        (500, 30, "train.py", 4),
        (530, 500, "train.py", 5),  # begins inside the third
    )
    none, held, begun = (
        line_of_gap((stacks,), analysis_of(), one)
        for one in (gap(20, 50), gap(200, 100), gap(510, 40))
    )
    assert none is None
    assert held is not None
    assert begun is not None
    assert [(line.line, line.held // MS) for line in held.lines] == [(3, 100)]
    assert [(line.line, line.held // MS) for line in begun.lines] == [(5, 20)]
    assert held.samples == begun.samples == 1


def test_a_line_before_and_after_a_short_trace_names_none_of_its_gaps() -> None:
    """The training waits for the profiler at one line, before and after the only step."""
    stacks = at_wall((-300, 800, "train.py", 1))
    assert line_of_gap((stacks,), analysis_of(end=60 * MS), gap(20, 5)) is None
    assert line_of_gap((stacks,), analysis_of(end=299 * MS), gap(20, 5)) is None
    found = line_of_gap((stacks,), analysis_of(end=300 * MS), gap(20, 5))
    assert found is not None
    assert (found.lines[0].line, found.samples) == (1, 1)


def test_gaps_are_told_by_cause_where_enough_samples_saw_them() -> None:
    stacks = at_wall(*((at * 100 + 10, 90, "train.py", 40 + at % 2) for at in range(10)))
    python = [gap(at * 100, 50) for at in range(9)]
    single = gap(900, 50, GapCause.LAUNCH)
    facts = Facts(None, analysis_of(single, *python))
    facts.worked_out[stack_samples] = (stacks,)
    (told,) = gap_lines(facts)
    assert told.cause is GapCause.PYTHON
    assert told.idle == 450 * MS
    assert told.thread.samples == 9
    assert told.thread.covered == 9 * 40 * MS
    assert [(line.line, line.held // MS) for line in told.thread.lines] == [(40, 200), (41, 160)]


@pytest.mark.parametrize("origin", [None, ORIGIN + 10_000 * MS])
def test_a_trace_on_another_clock_is_not_named(origin: int | None) -> None:
    stacks = at_wall((0, 900, "train.py", 1))
    assert line_of_gap((stacks,), analysis_of(origin=origin), gap(10, 50)) is None


def test_a_run_without_samples_says_nothing_and_an_asked_for_one_says_why() -> None:
    run = run_with(stack_table(), **{NO_STACKS: "py-spy is not installed"})
    assert main_thread(Facts(run)) is None
    assert "py-spy is not installed" in notes(Facts(run))
    text = render(make_report(Subject(run.root, run)))
    assert "py-spy is not installed" in text
    assert "main thread" not in text


@pytest.mark.slow
def test_the_report_lists_lines_with_their_share() -> None:
    stacks = stack_table((0, 8_000, "/home/a/train.py", 8), (8_000, 2_000, "", -1))
    run = run_with(stacks)
    report = make_report(Subject(run.root, run))
    text = render(report)
    assert "Where the main thread is, over the steady steps (about 100 samples)" in text
    assert "80.0 %  /home/a/train.py:8 in main" in text
    assert "20.0 %  no line of yours (torch/x.py:-1 forward) in main" in text
    found = described("report", as_json.as_object(report))["main_thread"]
    assert found["samples"] == 100
    assert found["lines"][0]["share"] == pytest.approx(0.8)
    assert found["lines"][0]["file"] == "/home/a/train.py"


def test_names_cannot_drive_the_terminal() -> None:
    run = run_with(stack_table((0, 10_000, "/home/\x1b[2J\u202eevil.py", 8)))
    text = render(make_report(Subject(run.root, run)))
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "evil.py:8" in text


@pytest.mark.parametrize(
    ("lines", "tells"),
    [((7, 7, 7), True), ((7, 7), False), ((7, 7, 7, 9), False), ((7, 7, 7, 9, 9), True)],
)
def test_three_samples_that_agree_name_a_line_as_five_do(
    lines: tuple[int, ...], tells: bool
) -> None:
    stacks = stack_table(*((at * 100, 100, "/p/train.py", line) for at, line in enumerate(lines)))
    assert lines_by_time(stacks, stacks["held"]).suffices is tells
