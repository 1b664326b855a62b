"""Kernels with few blocks on a card whose memory is mostly free."""

from __future__ import annotations

from typing import Any

import pytest

from perftui.diagnosis.model import Diagnosis, Severity
from perftui.run.reader import RunSnapshot
from tests.core.diagnosis.kernel_stories import H100
from tests.core.diagnosis.runs import ON_GPU, make_run, telemetry_table
from tests.core.diagnosis.stories import CALL, diagnosed, found, reasons
from tests.traces.builder import TraceBuilder, ms, us

GIB = 1 << 30


def story(few: int, blocks: int = 33, full: int = 0, **args: Any) -> TraceBuilder:
    """Steps of 1 ms with so many us in a kernel of so many blocks, and in one that fills the
    card."""

    def step(t: TraceBuilder) -> None:
        begin = t.now
        t.step().forward().op("aten::mm")
        for length, grid in ((few, [blocks, 1, 1]), (full, [64, 8, 1])):
            if length:
                shape = args or {"grid": grid}
                t.launch("gemm", us(length), call=CALL, starts=max(t.now, begin + CALL), **shape)
                t.at(begin + CALL + us(length))
        t.at(begin + ms(1)).end()

    return TraceBuilder(fields={"deviceProperties": [H100]}).repeat(20, step)


def run(used: float = 20, **more: Any) -> RunSnapshot:
    """A run of 1 ms steps on a card of which so many of 100 GiB are in use."""
    values = {"utilization": 20.0, "memory_used": used * GIB, "memory_total": 100.0 * GIB}
    telemetry = telemetry_table(**{f"gpu0.{name}": value for name, value in values.items()})
    return make_run(**{**ON_GPU, "phases": {"forward": 1}, "telemetry": telemetry, **more})


def judged(few: int, full: int = 0, blocks: int = 33, used: float = 20, **args: Any) -> Diagnosis:
    return diagnosed(story(few, blocks, full, **args), run(used))


def test_kernels_of_few_blocks_are_reported_with_what_they_leave_empty() -> None:
    finding = found(judged(400, 400), "small-batch")
    assert finding is not None
    assert finding.sentence == (
        "Kernels that leave at least half of the GPU empty take 50 % of its time, and 20 % of "
        "its memory is in use: a larger batch takes less time per sample, but changes the "
        "training."
    )
    # Three quarters of the card are empty for 400 us, and it is busy four fifths of the step.
    assert (finding.severity, finding.cost_ns) == (Severity.WARNING, us(300))
    assert finding.place is not None
    assert finding.place.operator == "aten::mm"


def test_where_the_host_is_what_the_step_waits_for_it_is_a_hint() -> None:
    one = judged(100)
    finding = found(one, "small-batch")
    assert finding is not None
    assert (finding.severity, finding.cost_ns) == (Severity.INFO, round(us(75) / 8))
    assert found(one, "memory-headroom") is None, "it would say the same"


@pytest.mark.parametrize(
    ("few", "full", "blocks", "used", "has_finding"),
    [
        (240, 560, 66, 50, True),
        (239, 561, 66, 50, False),
        (240, 560, 67, 50, False),
        (240, 560, 66, 51, False),
    ],
)
def test_its_limits(few: int, full: int, blocks: int, used: float, has_finding: bool) -> None:
    one = judged(few, full, blocks, used)
    assert (found(one, "small-batch") is not None) is has_finding


def test_a_card_half_empty_that_idles_keeps_its_own_word() -> None:
    one = judged(0, 100)
    assert found(one, "small-batch") is None
    assert found(one, "memory-headroom") is not None


def test_without_launches_or_memory_it_is_not_judged() -> None:
    one = judged(400, 400, block=[1, 1, 1])
    assert found(one, "small-batch") is None
    why = "the trace does not record the number of blocks per kernel launch"
    assert reasons(one)["small-batch"] == why
    alone = diagnosed(story(400))
    assert found(alone, "small-batch") is None
    why = "how much of the GPU's memory a larger batch could take is not known"
    assert reasons(alone)["small-batch"] == why
