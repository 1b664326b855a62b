"""Steps of traces that mark none or nothing, and which steps are slow."""

from __future__ import annotations

import pytest

from perftui.analysis.model import Step, TraceAnalysis
from perftui.analysis.steps import median_duration, slow_steps, step_source
from perftui.diagnosis.diagnose import diagnosis
from perftui.facts.fact import Facts
from perftui.facts.step.trace_steps import trace_steps
from tests.core.diagnosis.stories import CALL, finding_of, training
from tests.traces.builder import AUTOGRAD, TraceBuilder, ms, us


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


def test_two_steps_of_the_optimizer_are_no_rhythm() -> None:
    found = TraceBuilder().repeat(2, iteration).analysis()
    assert found.steps == ()
    assert [each.step.index for each in found.step_parts] == [-1]


def test_marks_go_first() -> None:
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


def test_without_an_optimizer_batches_tell() -> None:
    found = TraceBuilder().repeat(4, lambda t: t.data_wait(us(50)).op("aten::mm", us(200)))
    assert spans(found.analysis()) == [(us(at), us(at + 250)) for at in (0, 250, 500)]


def test_the_thread_with_most_of_it_counts() -> None:
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
    for _ in range(80):
        at = t.now
        t.op("aten::add", us(50)).at(at + us(40)).launch("add", us(3), call=CALL).at(at + us(50))
    return t.end()


def test_a_mark_behind_the_work_is_no_step() -> None:
    found = unmarked(us(14)).analysis()
    assert found.steps == ()
    finding = finding_of(unmarked(us(14)), "input-in-main-thread")
    assert (finding.steps, round(finding.share, 2)) == (0, 0.6)


def test_a_mark_of_some_of_the_time_is_believed() -> None:
    assert len(unmarked(ms(2)).analysis().steps) == 1


def test_a_last_step_of_next_to_nothing_is_left_out() -> None:
    story = launching(training()).pause(us(30)).step(us(30))
    judged = trace_steps(story.analysis())
    assert judged is not None
    assert [one.step.index for one in judged.each] == [0]
    assert finding_of(story, "launch-bound").steps == 1


def test_a_last_step_of_some_work_is_kept() -> None:
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
