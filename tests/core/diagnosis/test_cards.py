"""Cards that heat, power, other processes or a slow link hold back."""

from __future__ import annotations

from typing import Any

import pytest

from perftui.diagnosis.diagnose import diagnosis
from perftui.diagnosis.model import Finding, Severity
from perftui.facts.fact import Facts
from tests.core.diagnosis.runs import ON_GPU, make_run, telemetry_table
from tests.core.diagnosis.stories import busy, found, training
from tests.traces.builder import TraceBuilder, us

GIB = 2.0**30
HOT = {"throttle_reasons": 0x20, "clock_sm": 1000.0, "clock_sm_max": 2000.0}
LINK = {"pcie_generation": 4.0, "pcie_generation_max": 4.0, "pcie_width_max": 16.0}


def judged(
    rule: str,
    story: TraceBuilder | None,
    profile: dict[str, Any] | None = None,
    **card: float,
) -> Finding | None:
    """What ``rule`` says of a training on a card of these samples, 95 % of the time busy.

    Steps of a run of 40 of 1 ms begin at 0, samples come each ms.
    """
    values = {"memory_used": 20 * GIB, "memory_total": 100 * GIB, "utilization": 95.0, **card}
    telemetry = telemetry_table(20, **{f"gpu0.{name}": value for name, value in values.items()})
    run = make_run(phases={"forward": 1}, telemetry=telemetry, profile=profile, **ON_GPU)
    return found(diagnosis(Facts(run, story.analysis() if story else None)), rule)


def said(rule: str, profile: dict[str, Any] | None = None, **card: float) -> Finding | None:
    """Of a training that computes half of the time."""
    return judged(rule, busy(0.5), profile, **card)


def hot(reasons: float, clock: float) -> Finding | None:
    return said("thermal-or-power-cap", **HOT | {"throttle_reasons": reasons, "clock_sm": clock})


def test_heat_that_holds_down_the_clock_costs_computing() -> None:
    finding = hot(0x20, 1500.0)
    assert finding is not None
    assert finding.severity is Severity.WARNING
    assert finding.sentence == (
        "Heat limits the clock of GPU 0 in 100 % of the samples, to 75 % of its maximum on average."
    )
    # A quarter of the half of each step in which the GPU computes.
    assert finding.cost_ns == 125_000
    assert hot(0x20, 1799.0) is not None
    assert hot(0x20, 1800.0) is None


def test_heat_costs_only_what_a_window_shows_the_gpu_to_compute() -> None:
    finding = judged("thermal-or-power-cap", None, **HOT)
    assert finding is not None
    assert (finding.severity, finding.cost_ns) == (Severity.INFO, 0)


@pytest.mark.parametrize("missing", HOT)
def test_without_the_clock_and_what_limits_it_nothing_is_said(missing: str) -> None:
    assert said("thermal-or-power-cap", **HOT | {missing: float("nan")}) is None


def test_the_power_limit_is_only_mentioned() -> None:
    finding = hot(0x04, 1500.0)
    assert finding is not None
    assert (finding.severity, finding.cost_ns) == (Severity.INFO, 0)
    assert hot(0x01, 1500.0) is None


def test_memory_of_other_processes_is_mentioned_and_their_computing_a_warning() -> None:
    finding = said("shared-gpu", process_memory=5 * GIB, utilization=50.0)
    assert finding is not None
    assert finding.severity is Severity.INFO
    assert finding.sentence == ("Other processes hold 15.0 GiB of GPU 0 (14 % of its memory).")
    finding = said("shared-gpu", process_memory=5 * GIB, utilization=95.0)
    assert finding is not None
    assert finding.severity is Severity.WARNING
    assert "busy 45 % of the time besides this training" in finding.sentence
    assert said("shared-gpu", process_memory=15 * GIB) is None
    assert said("shared-gpu") is None


@pytest.mark.parametrize(
    ("others", "utilization", "severity"),
    [
        (10.9, 95, None),
        (11, 70, Severity.INFO),
        (11, 71, Severity.WARNING),
    ],
)
def test_others_count_from_a_tenth_of_the_memory_and_a_fifth_of_the_time_on(
    others: float, utilization: float, severity: Severity | None
) -> None:
    """The driver itself may hold a GiB."""
    card = {"process_memory": (20 - others) * GIB, "utilization": utilization}
    finding = said("shared-gpu", **card)
    assert (finding.severity if finding else None) is severity


SERVING = {"pid": 4123, "program": "python serve.py", "user": "ada", "memory": 12 * 2**30}
GONE = {"pid": 4200, "program": None, "user": None, "memory": 2 * 2**30}


def test_other_processes_are_named_the_largest_in_the_sentence() -> None:
    profile = {"gpu_processes": {"box": {"gpu0": [SERVING, GONE], "gpu1": [GONE]}}}
    finding = said("shared-gpu", profile, process_memory=5 * GIB, utilization=50.0)
    assert finding is not None
    assert finding.sentence == (
        "Other processes hold 15.0 GiB of GPU 0 (14 % of its memory); "
        "the largest is pid 4123 python serve.py (ada)."
    )
    named = [(one.label, one.value) for one in finding.facts if one.unit == "B"]
    assert named == [("pid 4123 python serve.py (ada)", 12 * 2**30), ("pid 4200", 2 * 2**30)]


@pytest.mark.parametrize(
    "noted",
    [{"box": {"gpu0": "none"}}, {"box": {"gpu0": [{"program": "x"}, 3, {"pid": "?"}]}}, "none", {}],
)
def test_what_another_version_notes_of_processes_names_nobody(noted: Any) -> None:
    finding = said("shared-gpu", {"gpu_processes": noted}, process_memory=5 * GIB, utilization=50)
    assert finding is not None
    assert finding.sentence.endswith("(14 % of its memory).")


def test_waiting_for_other_ranks_is_no_computing_of_others() -> None:
    """The kernel of a collective keeps the card busy as well."""

    def step(t: TraceBuilder) -> None:
        begin = t.now
        t.step().launch("gemm", us(500), call=us(2), starts=begin)
        t.all_reduce(us(450), starts=begin + us(500)).at(begin + us(1000)).end()

    finding = judged("shared-gpu", training().repeat(3, step), process_memory=5 * GIB)
    assert finding is not None
    assert finding.severity is Severity.INFO


@pytest.mark.parametrize(
    ("width", "generation", "speed"),
    [(16.0, 4.0, None), (8.0, 4.0, "50 %"), (16.0, 3.0, "50 %"), (8.0, 3.0, "25 %")],
)
def test_a_slow_link_is_mentioned(width: float, generation: float, speed: str | None) -> None:
    finding = said("pcie-degraded", **LINK | {"pcie_width": width, "pcie_generation": generation})
    assert (finding is None) == (speed is None)
    if finding is not None:
        assert f"runs at {speed} of what the card supports" in finding.sentence
        assert (finding.severity, finding.cost_ns) == (Severity.INFO, 0)


def test_a_slow_link_costs_its_part_of_exposed_copies() -> None:
    def step(t: TraceBuilder) -> None:
        begin = t.now
        t.step().copy("HtoD", us(200), 1 << 20, call=us(2), starts=begin)
        t.launch("gemm", us(800), call=us(2), starts=begin + us(200)).at(begin + us(1000)).end()

    story = training().repeat(20, step)
    finding = judged("pcie-degraded", story, **LINK, pcie_width=8.0)
    assert finding is not None
    assert (finding.severity, finding.cost_ns) == (Severity.WARNING, us(100))
    assert finding.parts == ("exposed copies",)


@pytest.mark.parametrize("missing", LINK)
def test_where_what_the_link_can_do_is_not_known_nothing_is_said(missing: str) -> None:
    assert said("pcie-degraded", **LINK | {missing: float("nan"), "pcie_width": 8.0}) is None
