"""The GPU's memory: pressure, growth, fragments, and kernels of few blocks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from perftui.diagnosis.diagnose import diagnosis
from perftui.diagnosis.model import Diagnosis, Finding, Severity
from perftui.facts.fact import Facts
from perftui.run.reader import RunSnapshot
from tests.core.diagnosis.runs import GIB, ON_GPU, card_samples, joined, make_run, step_table
from tests.core.diagnosis.stories import CALL, H100, diagnosed, found, reasons, severity_of
from tests.traces.builder import TraceBuilder, ms, us

MIB = 1 << 20


def holding(reserved: int, peak: int, **more: Any) -> Diagnosis:
    """A run that holds so many GiB of a card of 100, of which tensors took so many at most."""
    sizes = {"reserved": reserved * GIB, "allocated": GIB}
    usual = {"gpus": ("H200",), "telemetry": card_samples(80), "peak_allocated": peak * GIB}
    return diagnosis(Facts(make_run(**{**usual, **sizes, **more})))


def in_pieces(reserved: int = 40, peak: int = 20, **more: Any) -> Finding | None:
    return found(holding(reserved, peak, **more), "fragmentation")


def test_memory_that_tensors_never_took_is_in_pieces() -> None:
    finding = in_pieces()
    assert (finding.severity, finding.cost_ns) == (Severity.INFO, 0)
    assert finding.sentence == (
        "PyTorch reserves 40.0 GiB of GPU memory, though tensors never took more than 20.0 GiB: "
        "the rest is in pieces too small to use."
    )


@pytest.mark.parametrize(
    ("reserved", "peak", "retries", "severity"),
    [
        (40, 20, 1, Severity.WARNING),
        (90, 20, 1, Severity.CRITICAL),
        (30, 15, 0, Severity.INFO),
        (29, 14, 1, None),
        (40, 21, 1, None),
    ],
)
def test_it_is_a_fault_only_where_allocations_were_tried_again(
    reserved: int, peak: int, retries: int, severity: Severity | None
) -> None:
    assert severity_of(in_pieces(reserved, peak, alloc_retries=retries)) is severity


def test_without_a_card_or_peaks_nothing_is_said_of_pieces() -> None:
    """Most of what a step takes is given back before it ends."""
    judged = holding(40, 0, peak_allocated=-1)
    assert found(judged, "fragmentation") is None
    why = "how much memory tensors took within steps was not recorded"
    assert reasons(judged)["fragmentation"] == why
    assert in_pieces(telemetry=None) is None
    assert in_pieces(gpus=(), reserved=-1, allocated=-1) is None


def headroom(used: float, busy: float, **more: Any) -> Finding | None:
    run = make_run(**{**ON_GPU, "telemetry": card_samples(used, busy), **more})
    return found(diagnosis(Facts(run)), "memory-headroom")


def test_a_card_half_empty_that_often_idles_has_room_for_a_larger_batch() -> None:
    finding = headroom(50, 69)
    assert (finding.severity, finding.cost_ns) == (Severity.INFO, 0)
    assert finding.sentence == (
        "GPU 0 is busy 69 % of the time and has used 50 % of its memory: a larger batch would fit."
    )


def test_a_card_that_is_busy_or_fuller_or_not_sampled_has_none() -> None:
    assert headroom(50, 70) is None
    assert headroom(51, 69) is None
    assert headroom(50, float("nan")) is None
    assert headroom(50, 69, telemetry=None) is None
    assert headroom(50, 69, reserved=-1) is None


def growing(mib: float, noise: float = 0) -> Finding | None:
    """Steps at whose ends tensors hold so many MiB more each, and some less or more, from 2 GiB."""
    random = np.random.default_rng(0)
    held = [2 * GIB + round((at * mib + random.normal() * noise) * MIB) for at in range(160)]
    steps = [step_table(1, {"forward": 10}, allocated=one, reserved=8 * GIB) for one in held]
    run = make_run(steps=joined(*steps), gpus=("H200",))
    return found(diagnosis(Facts(run)), "memory-growth")


@pytest.mark.parametrize(("mib", "severity"), [(0.31, None), (0.33, Severity.WARNING)])
def test_growth_counts_from_one_and_a_half_percent_in_a_hundred_steps_on(
    mib: float, severity: Severity | None
) -> None:
    finding = growing(mib)
    assert severity_of(finding) is severity
    assert finding is None or finding.cost_ns == 0
    assert finding is None or "GPU memory in tensors grows by 338 KiB per step" in finding.sentence


@pytest.mark.parametrize(("mib", "noise"), [(0.0, 50), (0.31, 50)])
def test_noise_is_no_growth(mib: float, noise: float) -> None:
    assert growing(mib, noise) is None


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
    usual = {**ON_GPU, "phases": {"forward": 1}, "telemetry": card_samples(used, busy=20)}
    return make_run(**{**usual, **more})


def judged(few: int, full: int = 0, blocks: int = 33, used: float = 20, **args: Any) -> Diagnosis:
    return diagnosed(story(few, blocks, full, **args), run(used))


def test_kernels_of_few_blocks_are_reported_with_what_they_leave_empty() -> None:
    finding = found(judged(400, 400), "small-batch")
    assert finding.sentence == (
        "Kernels that leave at least half of the GPU empty take 50 % of its time, and 20 % of "
        "its memory is in use: a larger batch takes less time per sample, but changes the "
        "training."
    )
    # Three quarters of the card are empty for 400 us, and it is busy four fifths of the step.
    assert (finding.severity, finding.cost_ns) == (Severity.WARNING, us(300))
    assert finding.place.operator == "aten::mm"


def test_where_the_host_is_what_the_step_waits_for_it_is_a_hint() -> None:
    one = judged(100)
    finding = found(one, "small-batch")
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
