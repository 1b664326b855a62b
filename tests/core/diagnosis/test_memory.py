"""The GPU's memory: pressure, growth, fragments, and kernels of few blocks."""

from typing import Any

import numpy as np
import pytest

from perftui.diagnosis.diagnose import diagnosis
from perftui.diagnosis.model import Diagnosis, Severity
from perftui.facts.fact import Facts
from perftui.run.reader import RunSnapshot
from tests.core.diagnosis.runs import GIB, ON_GPU, card_samples, joined, make_run, step_table
from tests.core.diagnosis.stories import CALL, H100, diagnosed, finding_of, found, severity_of
from tests.traces.builder import TraceBuilder, ms, us

MIB = 1 << 20


def holding(reserved: int, peak: int, **more: Any) -> Diagnosis:
    """A run that holds so many GiB of a card of 100, of which tensors took so many at most."""
    sizes = {"reserved": reserved * GIB, "allocated": GIB}
    usual = {"gpus": ("H200",), "telemetry": card_samples(80), "peak_allocated": peak * GIB}
    return diagnosis(Facts(make_run(**{**usual, **sizes, **more})))


@pytest.mark.parametrize(
    ("reserved", "peak", "severity"), [(40, 20, Severity.WARNING), (90, 20, Severity.CRITICAL)]
)
def test_pieces_are_a_fault_where_allocations_were_tried_again(
    reserved: int, peak: int, severity: Severity
) -> None:
    judged = holding(reserved, peak, alloc_retries=1)
    assert severity_of(found(judged, "fragmentation")) is severity


def with_room(used: float, busy: float, **more: Any) -> RunSnapshot:
    return make_run(**{**ON_GPU, "telemetry": card_samples(used, busy), **more})


def growing(mib: float, noise: float = 0) -> RunSnapshot:
    """Steps at whose ends tensors hold so many MiB more each, and some less or more, from 2 GiB."""
    random = np.random.default_rng(0)
    held = [2 * GIB + round((at * mib + random.normal() * noise) * MIB) for at in range(160)]
    steps = [step_table(1, {"forward": 10}, allocated=one, reserved=8 * GIB) for one in held]
    return make_run(steps=joined(*steps), gpus=("H200",))


def test_growth_of_tensors_is_told_by_the_step() -> None:
    finding = finding_of(growing(0.33), "memory-growth")
    assert finding.cost_ns == 0
    assert "GPU memory in tensors grows by 338 KiB per step" in finding.sentence


@pytest.mark.parametrize(("mib", "noise"), [(0.0, 50), (0.31, 50)])
def test_noise_is_no_growth(mib: float, noise: float) -> None:
    assert found(growing(mib, noise), "memory-growth") is None


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


def test_where_the_host_is_what_the_step_waits_for_it_is_a_hint() -> None:
    finding = found(judged(100), "small-batch")
    assert (finding.severity, finding.cost_ns) == (Severity.INFO, round(us(75) / 8))
