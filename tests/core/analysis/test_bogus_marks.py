"""Marks of steps around next to nothing of what was recorded are not believed."""

from __future__ import annotations

from perftui.facts.step.trace_steps import trace_steps
from tests.core.diagnosis.stories import CALL, finding_of, training
from tests.traces.builder import TraceBuilder, ms, us


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
