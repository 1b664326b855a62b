"""Idle time that has a cause of its own is no other finding's: work that is queued, first uses."""

from __future__ import annotations

import pytest

from tests.core.diagnosis.stories import CALL, diagnosed, finding_of, found, synchronising, training
from tests.traces.builder import TraceBuilder, ms, us


def queued(steps: int = 4) -> TraceBuilder:
    """The host waits all the time for a kernel that starts late though it was launched at once."""

    def step(t: TraceBuilder) -> None:
        begin = t.now
        t.step().launch("gemm", us(300), call=CALL, starts=begin + us(600))
        t.op("aten::item").sync(begin + us(900) - t.now).close().pause(us(10))
        t.launch("add", us(90), call=CALL).pause(us(88)).end()

    return training().repeat(steps, step)


def test_a_wait_costs_nothing_while_the_gpu_has_work_queued() -> None:
    judged = diagnosed(queued())
    assert found(judged, "sync-bound") is None
    assert judged.top is not None
    assert judged.top.parts == ("queue wait",)


def test_a_wait_costs_what_the_gpu_idles_after_it() -> None:
    assert finding_of(synchronising(300), "sync-bound").cost_ns > us(250)


def test_calls_for_memory_that_set_the_driver_up_are_no_churn() -> None:
    def story(first: int) -> TraceBuilder:
        begun = training().op("aten::empty").call("cudaFree", first, "initialisation")
        begun.malloc(us(200)).close()
        for _ in range(3):
            begun.launch("gemm", ms(20), call=CALL).sync()
            begun.call("cudaFree", ms(10), "allocation").malloc(ms(10))
        return begun.launch("gemm", ms(20), call=CALL).sync()

    churn = finding_of(story(ms(400)), "allocator-churn")
    assert churn.cost_ns == 3 * ms(20)
    assert churn.place is not None
    assert churn.sentence.endswith("3 calls to allocate, 3 to free.")


@pytest.mark.parametrize(
    ("lasting", "asks", "again", "initialises"),
    [
        (us(1000), False, False, True),
        (us(999), False, False, False),
        # The allocator gives back what it keeps, and asks again.
        (us(1000), True, False, False),
        (us(1000), False, True, False),
    ],
)
def test_giving_back_what_nobody_got_starts_a_library(
    lasting: int, asks: bool, again: bool, initialises: bool
) -> None:
    story = training()
    if again:
        story.op("aten::addmm").launch("gemm", us(10)).close()
    story.op("aten::addmm")
    if asks:
        story.malloc(us(1))
    story.call("cudaFree", lasting).malloc(us(200)).launch("gemm", ms(9)).close().sync()
    story.call("cudaFree", us(500)).malloc(us(500)).launch("gemm", us(10))
    freed = finding_of(story, "allocator-churn").facts
    back = next(figure.value for figure in freed if figure.label == "calls that free")
    assert back == (1 if initialises else 2)
