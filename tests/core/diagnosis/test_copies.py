"""Copies between the host and the GPU, and tensors made on the CPU; steps of 1 ms."""

from __future__ import annotations

import pytest

from perftui.diagnosis.model import Severity
from perftui.diagnosis.symptoms.gpu_idle.copies import FASTEST_WRITE
from tests.core.diagnosis.stories import CALL, diagnosed, finding_of, found, training
from tests.traces.builder import TraceBuilder, us

LINE = "train.py(12): main"


def copied(way: str, copying: int, size: int, *, pinned: bool = False) -> TraceBuilder:
    """A copy of so many us, which the host waits for; the GPU computes the rest of each step."""

    def step(t: TraceBuilder) -> None:
        begin = t.now
        t.step().frame(LINE).op("aten::to").op("aten::copy_")
        t.copy(way, us(copying), size, pinned=pinned, call=us(copying), starts=begin)
        t.close().close().close()
        t.launch("gemm", us(1000 - copying), call=CALL, starts=begin + us(copying))
        t.at(begin + us(1000)).end()

    return training().repeat(4, step)


def made(
    *makers: str, lasting: int = 100, fetched: bool = False, size: int = 1 << 20
) -> TraceBuilder:
    """Operators of so many us each, then the copy of what they made; then the GPU computes."""

    def step(t: TraceBuilder) -> None:
        begin = t.now
        t.step()
        if fetched:
            t.range("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__")
        t.frame(LINE)
        for maker in makers:
            t.op(maker, us(lasting))
        if fetched:
            t.close().close().frame(LINE)
        t.op("aten::to")
        t.copy("HtoD", us(10), size, pinned=False, call=us(10), starts=t.now).close().close()
        t.launch("gemm", begin + us(1000) - t.now, call=CALL, starts=t.now)
        t.at(begin + us(1000)).end()

    return training().repeat(4, step)


def test_pageable_batches_are_named_with_the_line() -> None:
    finding = finding_of(copied("HtoD", 200, 1 << 20), "pageable-copies")
    assert finding.severity is Severity.WARNING
    assert finding.sentence == (
        "Batches are copied to the GPU from pageable memory at train.py:12: 1.0 MiB a step, for "
        "which the step waits 158 µs of each 1.0 ms step (16 %)."
    )
    assert finding.place is not None
    assert finding.place.source == "train.py:12"
    # Pinned, the copy itself takes 42 us.
    assert finding.cost_ns == 200_000 - (1 << 20) // 25
    assert "exposed copies" in finding.parts


def test_a_little_pageable_copy_is_only_mentioned() -> None:
    finding = finding_of(copied("HtoD", 30, 4096), "pageable-copies")
    assert finding.severity is Severity.INFO
    assert found(diagnosed(copied("HtoD", 9, 64)), "pageable-copies") is None


@pytest.mark.parametrize(("waiting", "severity"), [(80, Severity.WARNING), (9, None)])
def test_memory_got_within_the_operator_that_copies_is_no_wait_for_the_copy(
    waiting, severity
) -> None:
    def step(t: TraceBuilder) -> None:
        begin = t.now
        t.step().op("aten::to").op("aten::empty_strided").malloc(us(500)).close()
        t.copy("HtoD", us(1), 64, pinned=False, call=us(waiting), starts=t.now).close()
        t.launch("gemm", us(400), call=CALL, starts=begin + us(600)).at(begin + us(1000)).end()

    finding = found(diagnosed(training().repeat(4, step)), "pageable-copies")
    assert (finding.severity if finding else None) is severity
    assert finding is None or finding.cost_ns == us(waiting)


@pytest.mark.parametrize(
    ("waiting", "expected"),
    [
        (100, ["pageable-copies", "launch-bound"]),
        (99, ["launch-bound", "pageable-copies"]),
        (0, ["launch-bound"]),
    ],
)
def test_a_cause_that_delays_launches_stands_first_from_a_third_of_launching_on(
    waiting, expected
) -> None:
    """Launching costs 300 us of each step, the copy less."""

    def step(t: TraceBuilder) -> None:
        begin = t.now
        t.step()
        if waiting:
            t.op("aten::to").copy("HtoD", us(1), 64, pinned=False, call=us(waiting), starts=begin)
            t.close()
        t.at(begin + us(waiting)).op("aten::add", us(300)).at(t.now - CALL)
        t.launch("gemm", us(700 - waiting), call=CALL, starts=t.now).at(begin + us(1000)).end()

    judged = diagnosed(training().repeat(4, step))
    assert [each.rule for each in judged.findings if each.rule in expected] == expected


def test_pinned_batches_that_nothing_hides_are_exposed_copies() -> None:
    judged = diagnosed(copied("HtoD", 200, 1 << 20, pinned=True))
    assert found(judged, "pageable-copies") is None
    finding = found(judged, "copies-exposed")
    assert finding is not None
    assert (finding.severity, finding.cost_ns) == (Severity.CRITICAL, 200_000)
    assert "mostly 1.0 MiB to the GPU" in finding.sentence


@pytest.mark.parametrize(("copying", "severity"), [(50, Severity.WARNING), (49, None)])
def test_outputs_that_go_to_the_host_are_named_with_the_line(copying, severity) -> None:
    finding = found(diagnosed(copied("DtoH", copying, 1 << 20)), "copies-exposed")
    assert (finding.severity if finding else None) is severity
    if finding is not None:
        assert finding.sentence == (
            "The GPU copies for 50 µs of each 1.0 ms step (5.0 %) without computing, mostly 1.0 "
            "MiB to the host at train.py:12."
        )


def test_copies_both_ways_at_the_same_time_are_counted_once() -> None:
    def step(t: TraceBuilder) -> None:
        begin = t.now
        t.step()
        for stream, way in enumerate(("HtoD", "DtoH"), start=20):
            t.copy(way, us(400), 1 << 20, call=CALL, starts=begin + us(50), stream=stream)
        t.launch("gemm", us(550), call=CALL, starts=begin + us(450)).at(begin + us(1000)).end()

    finding = finding_of(training().repeat(4, step), "copies-exposed")
    assert finding.cost_ns == us(400)
    assert "400 µs of each 1.0 ms step (40 %)" in finding.sentence


def test_a_value_that_is_read_is_no_copy_of_data() -> None:
    assert found(diagnosed(copied("DtoH", 200, 4)), "copies-exposed") is None


def test_a_tensor_made_on_the_cpu_is_named_with_its_operator_and_line() -> None:
    finding = finding_of(made("aten::full", "aten::triu"), "created-on-cpu")
    assert finding.sentence == (
        "1 tensor of each step is created on the CPU and then copied to the GPU (aten::full at "
        "train.py:12): this takes 200 µs of each 1.0 ms step (20 %)."
    )
    assert finding.place is not None
    assert (finding.place.operator, finding.place.source) == ("aten::full", "train.py:12")
    assert found(diagnosed(made("aten::full", "aten::triu")), "pageable-copies") is None


def test_data_that_is_fetched_or_only_sliced_is_not_made() -> None:
    assert found(diagnosed(made("aten::normal_", fetched=True)), "created-on-cpu") is None
    assert found(diagnosed(made("aten::slice", "aten::index")), "created-on-cpu") is None


def test_what_no_operator_had_the_time_to_write_is_not_made() -> None:
    most = us(100) * FASTEST_WRITE
    assert finding_of(made("aten::zeros", size=most), "created-on-cpu").cost_ns == us(100)
    data = diagnosed(made("aten::zeros", size=most + 1))
    assert found(data, "created-on-cpu") is None
    assert found(data, "pageable-copies") is not None
    # What is made may be repeated before it is copied.
    repeated = made("aten::arange", "aten::repeat", size=most + 1)
    assert finding_of(repeated, "created-on-cpu").cost_ns == us(200)


def test_what_takes_little_to_make_is_only_mentioned() -> None:
    finding = finding_of(made("aten::arange", lasting=20), "created-on-cpu")
    assert finding.severity is Severity.INFO
    assert finding_of(made("aten::arange", lasting=10), "created-on-cpu").cost_ns == us(10)
    assert found(diagnosed(made("aten::arange", lasting=9)), "created-on-cpu") is None


def test_the_time_in_which_tensors_are_made_is_reported_once() -> None:
    rules = {each.rule for each in diagnosed(made("aten::normal_", lasting=600)).findings}
    assert "created-on-cpu" in rules
    assert "largest-part" not in rules

    def computing(t: TraceBuilder) -> None:
        begin = t.now
        t.step().op("aten::normal_", us(600)).launch("gemm", us(300), call=CALL, starts=t.now)
        t.at(begin + us(1000)).end()

    largest = finding_of(training().repeat(4, computing), "largest-part")
    assert largest.parts == ("cpu operators",)


def test_many_small_copies_are_counted() -> None:
    def step(t: TraceBuilder, copies: int) -> None:
        begin = t.now
        t.step()
        for _ in range(copies):
            t.op("aten::to").copy("HtoD", us(5), 512, call=us(5), starts=t.now).close().pause(us(5))
        t.launch("gemm", us(1000) - (t.now - begin), call=CALL, starts=t.now)
        t.at(begin + us(1000)).end()

    many = finding_of(training().repeat(4, lambda t: step(t, 50)), "many-small-copies")
    assert many.sentence.startswith("50 copies of less than 64.0 KiB in each step")
    assert many.severity is Severity.CRITICAL
    few = diagnosed(training().repeat(4, lambda t: step(t, 49)))
    assert found(few, "many-small-copies") is None


def test_a_trace_of_the_cpu_alone_has_no_copies() -> None:
    judged = diagnosed(training().repeat(4, lambda t: t.step().op("aten::to", us(900)).end()))
    assert not {"pageable-copies", "copies-exposed"} & {each.rule for each in judged.findings}
