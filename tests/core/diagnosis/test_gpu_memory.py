"""Memory of a GPU: held in pieces, growing from step to step, or left."""

from __future__ import annotations

from typing import Any

import pytest

from perftui.diagnosis.diagnose import diagnosis
from perftui.diagnosis.model import Diagnosis, Finding, Severity
from perftui.facts.fact import Facts
from perftui.run.table import Table
from tests.core.diagnosis.runs import ON_GPU, joined, make_run, step_table, telemetry_table
from tests.core.diagnosis.stories import found, reasons

GIB, MIB = 1 << 30, 1 << 20


def card(used: float = 80, busy: float = 95) -> Table:
    values = {"utilization": busy, "memory_used": used * GIB, "memory_total": 100.0 * GIB}
    return telemetry_table(**{f"gpu0.{name}": value for name, value in values.items()})


def holding(reserved: int, peak: int, **more: Any) -> Diagnosis:
    """A run that holds so many GiB of a card of 100, of which tensors took so many at most."""
    sizes = {"reserved": reserved * GIB, "allocated": GIB}
    usual = {"gpus": ("H200",), "telemetry": card(), "peak_allocated": peak * GIB}
    return diagnosis(Facts(make_run(**{**usual, **sizes, **more})))


def in_pieces(reserved: int = 40, peak: int = 20, **more: Any) -> Finding | None:
    return found(holding(reserved, peak, **more), "fragmentation")


def test_memory_that_tensors_never_took_is_in_pieces() -> None:
    finding = in_pieces()
    assert finding is not None
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
    finding = in_pieces(reserved, peak, alloc_retries=retries)
    assert (finding.severity if finding else None) is severity


def test_what_tensors_hold_between_steps_says_nothing_of_pieces() -> None:
    """Most of what a step takes is given back before it ends."""
    judged = holding(40, 0, peak_allocated=-1)
    assert found(judged, "fragmentation") is None
    why = "how much memory tensors took within steps was not recorded"
    assert reasons(judged)["fragmentation"] == why


def test_without_a_card_there_are_no_pieces() -> None:
    assert in_pieces(telemetry=None) is None
    assert in_pieces(gpus=(), reserved=-1, allocated=-1) is None


def headroom(used: float, busy: float, **more: Any) -> Finding | None:
    run = make_run(**{**ON_GPU, "telemetry": card(used, busy), **more})
    return found(diagnosis(Facts(run)), "memory-headroom")


def test_a_card_half_empty_that_often_idles_has_room_for_a_larger_batch() -> None:
    finding = headroom(50, 69)
    assert finding is not None
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


def growing(mib: float, **more: Any) -> Finding | None:
    """Steps at whose ends tensors hold so many MiB more each, from 2 GiB on."""
    steps = [
        step_table(1, {"forward": 10}, allocated=2 * GIB + round(at * mib * MIB), reserved=8 * GIB)
        for at in range(160)
    ]
    return found(diagnosis(Facts(make_run(steps=joined(*steps), **more))), "memory-growth")


@pytest.mark.parametrize(("mib", "severity"), [(0.31, None), (0.33, Severity.WARNING)])
def test_growth_counts_from_one_and_a_half_percent_in_a_hundred_steps_on(
    mib: float, severity: Severity | None
) -> None:
    finding = growing(mib, gpus=("H200",))
    assert (finding.severity if finding else None) is severity
    assert finding is None or finding.cost_ns == 0
