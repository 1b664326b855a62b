"""Steps: of traces that mark none, in columns, those that a run recorded, and which are slow."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.analysis.model import Step, TraceAnalysis
from perftui.analysis.recorded_steps import recorded_steps
from perftui.analysis.steps import find_phases, median_duration, slow_steps, step_source
from perftui.analysis.timeline.measure import step_columns
from perftui.diagnosis.diagnose import diagnosis
from perftui.facts.fact import Facts
from perftui.facts.step.trace_steps import trace_steps
from perftui.run.columns import PHASES
from perftui.run.reader import RunReader
from perftui.trace.model import NONE
from tests.core.diagnosis.stories import CALL, finding_of, training
from tests.traces.builder import AUTOGRAD, TraceBuilder, ms, us
from tests.tui.recorded import write_run
from tests.tui.test_ranks_screen import write_run_of_ranks


def iteration(t: TraceBuilder) -> None:
    """1 ms that ends with the optimizer's step."""
    t.op("aten::mm", us(700)).optimizer_step(us(200)).pause(us(100))


def spans(analysis: TraceAnalysis) -> list[tuple[int, int]]:
    return [(step.start, step.end) for step in analysis.steps]


def test_a_step_ends_as_that_of_the_optimizer() -> None:
    story = TraceBuilder().op("aten::empty", ms(1)).pause(ms(49)).repeat(4, iteration)
    found = story.analysis()
    assert spans(found) == [(us(50_900 + at), us(51_900 + at)) for at in (0, 1000, 2000)]
    assert [step.index for step in found.steps] == [0, 1, 2]
    assert step_source(found.trace, found.steps) == "optimizer"
    assert [note for note in found.notes if "steps" in note] == [
        "no steps marked: derived from the optimizer; 51 ms around them is left out"
    ]


def test_two_steps_of_the_optimizer_are_no_rhythm_and_marks_go_first() -> None:
    found = TraceBuilder().repeat(2, iteration).analysis()
    assert found.steps == ()
    assert [each.step.index for each in found.step_parts] == [-1]
    found = TraceBuilder().repeat(4, lambda t: iteration(t.step()) or t.end()).analysis()
    assert [step.duration for step in found.steps] == [ms(1)] * 4
    assert step_source(found.trace, found.steps) == ""


def test_batches_of_one_step_of_the_optimizer_are_accumulation() -> None:
    def accumulating(t: TraceBuilder) -> None:
        t.repeat(4, lambda t: t.data_wait(us(50)).op("MmBackward0", us(200)))
        t.optimizer_step(us(100))

    found = TraceBuilder().repeat(4, accumulating).analysis()
    assert [step.duration for step in found.steps] == [us(1100)] * 3


def test_of_two_optimizers_the_one_that_steps_less_often_counts() -> None:
    def adversarial(t: TraceBuilder) -> None:
        t.repeat(3, lambda t: t.op("aten::mm", us(100)).range("Optimizer.step#RMSprop.step", us(9)))
        t.op("aten::mm", us(100)).range("Optimizer.step#Adam.step", us(9))

    found = TraceBuilder().repeat(4, adversarial).analysis()
    assert [step.duration for step in found.steps] == [us(436)] * 3


def test_optimizers_of_one_name_take_turns_for_each_batch() -> None:
    def adversarial(t: TraceBuilder) -> None:
        t.data_wait(us(50)).op("aten::mm", us(100)).optimizer_step(us(10))
        t.op("aten::mm", us(300)).optimizer_step(us(10))

    found = TraceBuilder().repeat(4, adversarial).analysis()
    assert spans(found) == [(us(at), us(at + 470)) for at in (0, 470, 940)]
    assert step_source(found.trace, found.steps) == "data loader"


def test_an_optimizer_that_calls_its_base_class_steps_once() -> None:
    def step(t: TraceBuilder) -> None:
        t.op("aten::mm", us(100)).optimizer_step().pause(us(5)).optimizer_step(us(10)).close()

    found = TraceBuilder().repeat(4, step).analysis()
    assert [step.duration for step in found.steps] == [us(115)] * 3


def test_batches_tell_without_an_optimizer_and_the_thread_with_most_of_them_counts() -> None:
    found = TraceBuilder().repeat(4, lambda t: t.data_wait(us(50)).op("aten::mm", us(200)))
    assert spans(found.analysis()) == [(us(at), us(at + 250)) for at in (0, 250, 500)]
    story = TraceBuilder().repeat(4, iteration).at(0).on(AUTOGRAD)
    story.repeat(9, lambda t: t.optimizer_step(us(20)).pause(us(80)))
    assert [step.duration for step in story.analysis().steps] == [ms(1)] * 3


def test_what_comes_before_and_behind_is_not_judged() -> None:
    """50 ms of Python around steps that a loader makes wait."""

    def waiting(t: TraceBuilder) -> None:
        t.data_wait(us(600)).launch("gemm", us(300)).sync().optimizer_step(us(50))

    story = TraceBuilder().op("aten::empty", us(1)).pause(ms(50)).repeat(9, waiting)
    facts = Facts(None, story.pause(ms(50)).op("aten::empty", us(1)).analysis())
    found, top = trace_steps(facts), diagnosis(facts).top
    assert found is not None
    assert top is not None
    assert found.steps == 8
    assert (top.rule, top.steps) == ("input-in-main-thread", 8)
    assert top.share == pytest.approx(0.63, abs=0.02)


def test_steps_are_drawn_and_counted() -> None:
    found = TraceBuilder().repeat(4, iteration).analysis()
    assert found.steps[0] == Step(0, us(900), us(1900), found.steps[0].row)
    assert found.trace.name_of(found.steps[0].row) == "Optimizer.step#SGD.step"


def unmarked(last: int) -> TraceBuilder:
    """Batches fetched for 6 of each 10 ms, and a mark of ``last`` at the end of it all."""
    story = TraceBuilder().repeat(
        2, lambda t: t.data_wait(ms(6)).repeat(40, lambda t: t.op("aten::mm", us(100)))
    )
    return story.pause(us(50)).step(last)


def launching(t: TraceBuilder) -> TraceBuilder:
    """A step of 4 ms with 80 short kernels, each launched late."""
    t.step()
    for number in range(80):
        at = t.now
        t.op(f"aten::add{number}", us(50)).at(at + us(40))
        t.launch("add", us(3), call=CALL).at(at + us(50))
    return t.end()


def test_a_mark_behind_the_work_is_no_step_and_one_of_some_of_the_time_is() -> None:
    found = unmarked(us(14)).analysis()
    assert found.steps == ()
    finding = finding_of(unmarked(us(14)), "input-in-main-thread")
    assert (finding.steps, round(finding.share, 2)) == (0, 0.6)
    assert len(unmarked(ms(2)).analysis().steps) == 1


def test_a_last_step_counts_if_it_has_some_work() -> None:
    story = launching(training()).pause(us(30)).step(us(30))
    judged = trace_steps(story.analysis())
    assert judged is not None
    assert [one.step.index for one in judged.each] == [0]
    assert finding_of(story, "launch-bound").steps == 1
    story = launching(training()).pause(us(30)).step()
    story.repeat(8, lambda t: t.launch("add", us(3), call=CALL).pause(us(40))).end()
    assert len(story.analysis().steps) == 2
    judged = trace_steps(story.analysis())
    assert judged is not None
    assert judged.each[-1].step.index == 1


def steps_of(*durations: int) -> list[Step]:
    return [Step(at, 1000 * at, 1000 * at + length, at) for at, length in enumerate(durations)]


@pytest.mark.parametrize(
    ("durations", "median", "slow"),
    [
        ((), 0, []),
        ((100,), 100, []),
        ((100, 109, 110, 111, 100, 100), 100, [2, 3]),
        ((100, 300), 100, [1]),
        ((0, 0, 5), 0, []),
    ],
)
def test_slow_is_a_tenth_above_the_median(
    durations: tuple[int, ...], median: int, slow: list[int]
) -> None:
    steps = steps_of(*durations)
    assert median_duration(steps) == median
    assert [step.index for step in slow_steps(steps)] == slow


def phased(steps: int = 2) -> TraceBuilder:
    """Steps of 100 ms: 40 of waiting for data, 20 forward, 30 backward, 10 of the optimizer."""

    def step(story: TraceBuilder) -> object:
        began = story.now
        story.step(ms(100) - us(1))
        story.data_wait(ms(40))
        story.at(began + ms(40)).forward(ms(20))
        story.at(began + ms(41)).launch("matmul", ms(9), call=us(20), starts=began + ms(45))
        story.at(began + ms(60)).backward(ms(30))
        story.at(began + ms(61)).launch("matmul", ms(25), call=us(20), starts=began + ms(62))
        story.at(began + ms(90)).optimizer(ms(10) - us(2))
        return story.at(began + ms(100))

    return TraceBuilder().repeat(steps, step)


def test_columns_have_their_phase_their_load_and_their_gaps() -> None:
    found = step_columns(phased().analysis(), 10)
    assert found is not None
    assert found.step.start == ms(100)
    assert found.phases == (
        *("input_wait",) * 4,
        *("forward",) * 2,
        *("backward",) * 3,
        "optimizer",
    )
    assert found is not None
    (card,) = found.busy
    assert card.device == 0
    busy = [0, 0, 0, 0, 0.5, 0.4, 0.8, 1, 0.7, 0]
    assert card.shares == pytest.approx(busy, abs=0.01)
    assert found is not None
    longest = found.gaps[0]
    assert longest.duration == ms(100) - ms(87) + ms(45)
    assert found.column_of(longest.end) == 4
    assert (found.column_of(0), found.column_of(ms(999))) == (0, 9)
    assert all(gap.end > found.step.start and gap.start < found.step.end for gap in found.gaps)


def test_without_a_gpu_the_training_thread_is_drawn() -> None:
    story = TraceBuilder().repeat(
        2, lambda t: t.step(ms(10)).at(t.now + ms(5)).op("aten::mm", ms(5)).end().pause(ms(1))
    )
    found = step_columns(story.analysis(), 2)
    assert found is not None
    assert [one.device for one in found.busy] == [NONE]
    assert found.gaps == ()


def test_without_steps_there_are_no_columns() -> None:
    assert step_columns(TraceBuilder().op("aten::mm", ms(5)).analysis(), 10) is None
    assert step_columns(phased().analysis(), 0) is None


@given(columns=st.integers(1, 300))
def test_all_columns_together_hold_the_work_of_the_step(columns: int) -> None:
    found = step_columns(ANALYSIS, columns)
    assert found is not None
    (card,) = found.busy
    assert len(card.shares) == len(found.phases) == columns
    assert all(0 <= share <= 1 for share in card.shares)
    whole = sum(card.shares) * found.step.duration / columns
    # Columns are whole nanoseconds wide.
    assert whole == pytest.approx(ms(34), abs=columns)


ANALYSIS = phased().analysis()


def test_steps_and_their_phases_as_a_trace(tmp_path: Path) -> None:
    run = RunReader(write_run(tmp_path, steps=20)).poll()
    steps = run.ranks[0].steps
    found = recorded_steps(run)
    assert found is not None
    trace = found.trace
    assert [step.index for step in found.steps] == steps["index"].tolist()
    assert [step.duration for step in found.steps] == steps["duration"].tolist()
    assert trace.wall_origin == int(steps["start"].min())
    starts = [step.start + trace.wall_origin for step in found.steps]
    assert starts == steps["start"].tolist()
    for step in found.steps:
        inside = np.flatnonzero(trace.parent == step.row)
        assert int(trace.duration[inside].sum()) == step.duration
    known = find_phases(trace)
    for phase in ("input_wait", "forward", "backward", "optimizer"):
        total = int(steps[phase].sum())
        assert (known[phase].total if phase in known else 0) == total
    assert {name for name in trace.names if "::" in name} <= {f"perftui::{p}" for p in PHASES}
    assert [(track.label, track.kind) for track in found.timeline_tracks] == [
        ("steps", "steps"),
        ("phases", "phases"),
    ]
    rows = [row for track in found.timeline_tracks for row in track.index.rows.tolist()]
    assert sorted(rows) == list(range(len(trace)))


def test_those_of_several_ranks_are_distinguished(tmp_path: Path) -> None:
    run = RunReader(write_run_of_ranks(tmp_path, 5, 65, 4, steps=30)).poll()
    found = recorded_steps(run)
    assert found is not None
    assert [track.label for track in found.timeline_tracks] == [
        f"rank {rank} {kind}" for rank in range(3) for kind in ("steps", "phases")
    ]
    for one in run.ranks:
        steps = found.steps_of(one.place)
        assert [step.index for step in steps] == one.steps["index"].tolist()
        assert [step.duration for step in steps] == one.steps["duration"].tolist()


def test_before_the_first_step_there_is_nothing(tmp_path: Path) -> None:
    run = RunReader(write_run(tmp_path, steps=0, torch_version=None)).poll()
    assert recorded_steps(run) is None
