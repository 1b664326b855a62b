"""What is said of a trace alone where it tells little: no steps, no phases, no samples."""

import re

import pytest

from perftui.analysis.analyse import analyse
from perftui.diagnosis.diagnose import diagnosis
from perftui.diagnosis.model import Severity
from perftui.facts.fact import Facts
from tests.core.diagnosis.stories import (
    CALL,
    diagnosed,
    finding_of,
    found,
    product,
    reasons,
    top_of,
    training,
)
from tests.traces.builder import TraceBuilder, ms, us
from tests.traces.events import cpu, mark, memory, trace_of


@pytest.mark.parametrize(("share", "rule"), [(0.95, "compute-bound"), (0.5, "largest-part")])
def test_operators_without_steps_are_no_health(share: float, rule: str) -> None:
    story = training()
    story.repeat(9, lambda t: t.op("aten::mm", round(ms(1) * share)).pause(ms(1 - share)))
    judged = diagnosed(story.op("aten::mm", us(1)))
    assert judged.top.rule == rule
    if rule == "compute-bound":
        assert reasons(judged)["healthy"].startswith("operators that run all the time")
    else:
        assert judged.top.sentence == (
            "The program spends 4.5 ms of the recorded 9.0 ms (50 %) outside operators, in Python "
            "or calls not recorded."
        )


def test_steps_with_nothing_but_collectives_wait_for_other_ranks() -> None:
    """Gloo's threads tell, though no operator was recorded."""
    events = [mark(f"ProfilerStep#{at}", at * 1000, 1000) for at in range(4)]
    events += [mark("gloo:all_reduce", at * 1000 + 100, 800, tid=2) for at in range(4)]
    found = diagnosis(Facts(None, analyse(trace_of(*events, cpu("aten::empty", 4000, 1))))).top
    assert (found.rule, found.cost_ns) == ("communication-exposed", us(800))


@pytest.mark.parametrize(
    ("product_us", "said"),
    [
        (500, "aten::bmm, 50 % of a recorded step, 2 calls in it"),
        (280, None),  # less than what the finding explains
        (60, None),
    ],
)
def test_the_largest_operator_stands_beside_a_finding_that_explains_less(
    product_us: int, said: str | None
) -> None:
    def step(t: TraceBuilder) -> None:
        begin, lasting = t.now, us(product_us // 2)
        t.step()
        for starts in (begin, begin + lasting):
            t.op("aten::bmm").launch("gemm", lasting, call=CALL, starts=starts).close()
        t.at(begin + 2 * lasting).frame("train.py(7): load", us(300))
        t.launch("fill", us(700 - product_us), call=CALL, starts=t.now).at(begin + ms(1)).end()

    top = top_of(training().repeat(24, step))
    told = {figure.label: figure.value for figure in top.facts}
    assert told.get("largest operator") == said


def test_memory_is_judged_by_the_totals_beside_the_allocations_of_a_trace() -> None:
    card = {"id": 0, "name": "H100", "totalGlobalMem": 80 << 30}
    for reserved, is_full in ((76 << 30, True), (70 << 30, False)):
        story = TraceBuilder(fields={"deviceProperties": [card]}).step().launch("gemm", ms(1)).end()
        held = memory(5, 512, 1 << 30, **{"Total Reserved": reserved})
        facts = Facts(None, analyse(trace_of(*story.events(), held, **story.fields)))
        assert "memory-pressure" not in reasons(facts)
        finding = found(facts, "memory-pressure")
        assert (finding is not None) is is_full
        if finding is not None:
            assert finding.severity is Severity.INFO
            assert finding.sentence == (
                "PyTorch on GPU 0 has used 76.0 GiB of its 80.0 GiB (95 %): a larger batch or a "
                "longer sample may not fit."
            )


def test_copies_that_nothing_explains_are_told_in_every_direction() -> None:
    def step(t: TraceBuilder) -> None:
        t.step().launch("gemm", us(500), call=CALL, starts=t.now).copy("HtoD", us(300), 1 << 20)
        t.copy("DtoH", us(100), 1 << 18).sync().end()

    story = training().repeat(24, step)
    within = [
        {**event, "name": "Memcpy DtoD (Device -> Device)"} if "HtoD" in event["name"] else event
        for event in story.events()
    ]
    said = finding_of(Facts(None, analyse(trace_of(*within, **story.fields))), "largest-part")
    told = {one.label: one.value for one in said.facts}
    assert (told["of all copies, to the host"], told["of all copies, within GPUs"]) == (25, 75)


def loading(t: TraceBuilder) -> None:
    """The GPU idles 800 us while two functions of the script run."""
    t.step().frame("train.py(7): load", us(600))
    t.frame("train.py(9): scale").frame("numpy/core.py(3): sum", us(200)).close()
    t.launch("gemm", us(200), call=CALL).pause(us(200) - CALL).end()


def test_stacks_of_the_trace_tell_the_line_while_the_gpu_idles() -> None:
    found = top_of(training().repeat(4, loading))
    assert (found.rule, found.parts) == ("largest-part", ("python",))
    assert found.place.source == "train.py:7"
    told = re.search(r"with nothing queued, (\d+) % of it at train.py:7 in load\.$", found.sentence)
    assert told is not None
    assert int(told[1]) == pytest.approx(75, abs=2)
    story = training().repeat(4, lambda t: t.step().pause(us(800)).launch("gemm", us(200)).end())
    assert top_of(story).place is None


def test_the_operator_that_computes_on_the_cpu_is_named() -> None:
    def step(t: TraceBuilder) -> None:
        t.step().op("aten::normal_", us(800)).launch("gemm", us(200), call=CALL)
        t.pause(us(200) - CALL).end()

    found = top_of(training().repeat(4, step))
    assert found.sentence.endswith("while an operator works on the CPU, mainly in aten::normal_.")
    assert found.place.operator == "aten::normal_"


def test_idle_time_in_python_is_not_claimed_by_the_waits_before_it() -> None:
    def step(t: TraceBuilder) -> None:
        t.step().frame("train.py(7): load", us(700)).launch("gemm", us(300), call=CALL)
        t.op("aten::item").sync(us(297)).close().end()

    judged = diagnosed(training().repeat(8, step).launch("gemm", us(1)))
    assert [one.rule for one in judged.findings] == ["largest-part"]
    assert judged.findings[0].place.source == "train.py:7"


def test_copies_of_a_trace_without_steps_are_not_reported_by_step() -> None:
    def part(t: TraceBuilder) -> None:
        t.op("aten::to").copy("HtoD", us(300), 1 << 20, pinned=False, call=us(300)).close()
        t.launch("gemm", us(700), call=CALL).sync()

    found = finding_of(training().repeat(9, part).launch("gemm", us(1)), "pageable-copies")
    assert found.severity > Severity.INFO
    assert "9.0 MiB, for which the training waits" in found.sentence


def plain(*parts: tuple[str, str, float]) -> TraceBuilder:
    """A trace without steps of 10 times 10 ms: in each some ms of operators and what they call, and
    products for the rest."""

    def part(t: TraceBuilder) -> None:
        for caller, called, lasting in parts:
            t.op(caller).op(called, ms(lasting)).close()
        t.op("aten::linear").op("aten::mm", ms(10 - sum(one[2] for one in parts))).close()

    return training().repeat(10, part)


def test_what_computes_on_the_cpu_is_named_with_its_shares() -> None:
    found = top_of(plain(("aten::conv2d", "aten::mkldnn_convolution", 3)))
    assert found.sentence == (
        "The CPU is the limit: operators take 100 ms of the recorded 100 ms (100 %). "
        "Of their time: aten::mm 70 %, aten::mkldnn_convolution 30 %."
    )


SLOW = ("aten::conv2d", "aten::_slow_conv2d_forward")
FAST = ("aten::conv2d", "aten::mkldnn_convolution", 5)


@pytest.mark.parametrize(("python", "rule"), [(40, "healthy"), (60, "compute-bound")])
def test_a_tenth_that_idles_is_no_health_without_steps(python: int, rule: str) -> None:
    """Half of the idle time in Python and half of it behind a wait, a few percent each."""

    def part(t: TraceBuilder) -> None:
        t.frame("train.py(3): main", us(python)).op("aten::mm", **product(1000))
        t.launch("gemm", us(1000), call=CALL).close()
        t.at(t.now + us(997)).sync(us(python))

    assert top_of(training().repeat(9, part)).rule == rule


@pytest.mark.parametrize(("read", "rule"), [(us(300), "largest-part"), (us(1), "compute-bound")])
def test_values_that_are_long_in_coming_are_waited_for(read: int, rule: str) -> None:
    """A device of which nothing was recorded: its values come late."""

    def part(t: TraceBuilder) -> None:
        t.op("aten::mm", us(700)).op("aten::item").op("aten::_local_scalar_dense", read).close()

    found = top_of(training().repeat(9, part))
    assert found.rule == rule
    if rule == "largest-part":
        assert found.parts == ("reading values",)
        assert found.sentence == (
            "The program waits 2.7 ms of the recorded 9.0 ms (30 %) to read single values, as "
            "item() does."
        )
