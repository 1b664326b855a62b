"""Steps on the clock of a device whose host runs ahead."""

from __future__ import annotations

from tests.traces.builder import TraceBuilder, ms, us


def ahead(steps: int, *, lasting: int = ms(40), host: int = ms(4)) -> TraceBuilder:
    """Steps that the host gets through ten times as fast as the device, and a wait behind them."""
    story = TraceBuilder()
    for _ in range(steps):
        story.step().launch("gemm", lasting).pause(host - us(5)).end()
    return story.sync()


def spans(story: TraceBuilder) -> list[tuple[int, int]]:
    return [(one.step.start, one.step.end) for one in story.analysis().step_parts]


def test_a_step_lasts_until_the_device_has_done_its_work() -> None:
    story = ahead(3)
    began = us(5)
    assert spans(story) == [
        (0, began + ms(40)),
        (began + ms(40), began + ms(80)),
        (began + ms(80), began + ms(120)),
    ]
    assert [step.duration for step in story.analysis().steps] == [ms(4)] * 3
    assert [dict(one.parts)["gpu compute"] for one in story.analysis().step_parts] == [ms(40)] * 3


def test_work_from_before_the_window_is_no_part_of_its_only_step() -> None:
    story = TraceBuilder().kernel("earlier", ms(30), starts=0)
    story.step().launch("gemm", ms(40)).pause(ms(4)).end().sync()
    ((start, end),) = spans(story)
    assert (start, end) == (ms(30), ms(70))


def test_a_host_that_the_device_waits_for_keeps_the_time() -> None:
    story = TraceBuilder()
    for _ in range(2):
        story.step().data_wait(ms(20)).launch("gemm", ms(2)).pause(ms(3)).end()
    steps = [(step.start, step.end) for step in story.analysis().steps]
    assert spans(story) == steps
    assert [dict(one.parts)["data loader wait"] for one in story.analysis().step_parts] == [
        ms(20),
        ms(20),
    ]


def test_copies_on_a_stream_of_their_own_do_not_move_the_steps() -> None:
    story = TraceBuilder()
    for _ in range(2):
        story.step().copy("HtoD", ms(1), 4096, stream=9).launch("gemm", ms(40))
        story.all_reduce(ms(90)).end()
    assert [end - start for start, end in spans(story.sync())] == [us(10) + ms(40), ms(40)]


def test_without_most_of_the_launches_the_steps_are_the_hosts() -> None:
    story = TraceBuilder().step().launch("gemm", ms(1)).end()
    for _ in range(3):
        story.kernel("lost", ms(10))
    assert spans(story) == [(step.start, step.end) for step in story.analysis().steps]
