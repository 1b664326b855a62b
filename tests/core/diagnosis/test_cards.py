"""Cards that heat, power, other processes or a slow link hold back."""

from __future__ import annotations

from typing import Any

import pytest

from perftui.diagnosis.diagnose import diagnosis
from perftui.diagnosis.model import Finding, Severity
from perftui.facts.fact import Facts
from tests.core.diagnosis.runs import ON_GPU, make_run, telemetry_table
from tests.core.diagnosis.stories import busy, found

GIB = 2.0**30


def judged(rule: str, **card: Any) -> Finding | None:
    """What ``rule`` says of a training that computes 95 % of the time on a card of these samples.

    Steps of a run of 40 of 10 ms begin at 0, samples come each ms.
    """
    values = {"memory_used": 20 * GIB, "memory_total": 100 * GIB, "utilization": 95.0, **card}
    telemetry = telemetry_table(20, **{f"gpu0.{name}": value for name, value in values.items()})
    run = make_run(phases={"forward": 1}, telemetry=telemetry, **ON_GPU)
    return found(diagnosis(Facts(run, busy(0.5).analysis())), rule)


def hot(reasons: float, clock: float) -> Finding | None:
    return judged(
        "thermal-or-power-cap", throttle_reasons=reasons, clock_sm=clock, clock_sm_max=2000.0
    )


def test_heat_that_holds_down_the_clock_costs_computing() -> None:
    finding = hot(0x20, 1500.0)
    assert finding is not None
    assert finding.severity is Severity.WARNING
    assert finding.sentence == (
        "Heat holds down the clock of GPU 0 in 100 % of the samples: 75 % of its highest, in the "
        "mean."
    )
    # A quarter of the half of each step in which the GPU computes.
    assert finding.cost_ns == 125_000
    assert hot(0x20, 1900.0) is None


def test_the_power_limit_is_only_mentioned() -> None:
    finding = hot(0x04, 1500.0)
    assert finding is not None
    assert (finding.severity, finding.cost_ns) == (Severity.INFO, 0)
    assert hot(0x01, 1500.0) is None


def test_memory_of_other_processes_is_mentioned_and_their_computing_a_warning() -> None:
    finding = judged("shared-gpu", process_memory=5 * GIB, utilization=50.0)
    assert finding is not None
    assert finding.severity is Severity.INFO
    assert finding.sentence == ("Other processes hold 15.0 GiB of GPU 0 (14 % of its memory).")
    finding = judged("shared-gpu", process_memory=5 * GIB, utilization=95.0)
    assert finding is not None
    assert finding.severity is Severity.WARNING
    assert "busy 45 % of the time beside this training" in finding.sentence
    assert judged("shared-gpu", process_memory=15 * GIB) is None
    assert judged("shared-gpu") is None


@pytest.mark.parametrize(("width", "speed"), [(16.0, None), (8.0, "50 %")])
def test_a_link_of_too_few_lanes_is_mentioned(width: float, speed: str | None) -> None:
    link = {"pcie_generation": 4.0, "pcie_generation_max": 4.0, "pcie_width_max": 16.0}
    finding = judged("pcie-degraded", pcie_width=width, **link)
    assert (finding is None) == (speed is None)
    if finding is not None:
        assert f"runs at {speed} of what the card can do" in finding.sentence
        assert finding.severity is Severity.INFO
    assert judged("pcie-degraded", pcie_generation=4.0, pcie_width=8.0) is None
