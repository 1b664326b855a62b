"""Where each rule of a wait for data begins to speak, and what it says without its evidence."""

from __future__ import annotations

from typing import Any

import pytest

from perftui.diagnosis.model import Severity
from tests.core.diagnosis.runs import MS, step_table
from tests.core.diagnosis.stories import diagnosed, reasons, waiting
from tests.core.diagnosis.test_input_rules import STEPS, bursts, judged, run_of, worker
from tests.traces.builder import WORKERS

Rows = list[dict[str, int]]


def crowded(delayed: float = 0.4) -> Rows:
    """Four workers with four threads each: with the training they ask for 14.6 cores."""
    threads = 6 * 1000 * MS
    return [worker(at, cpu=0.5, delayed=delayed, others=1.0, threads=threads) for at in range(4)]


def pair(one: float, other: float | None = None, **use: float) -> Rows:
    """Two workers that are busy for those shares of their time."""
    return [worker(0, busy=one, **use), worker(1, busy=one if other is None else other, **use)]


def packing(others: float) -> Rows:
    return [worker(at, busy=0.3, others=others) for at in range(4)]


def long_batches(root: int) -> Rows:
    """Ten batches of 50 ms in the mean, whose root of the mean square is so many us."""
    return [{**worker(0, busy=0.5), "squares": 10 * root**2}]


OF_FOUR = {"num_workers": 4}

NEAR: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("workers-oversubscribed",
     {"rows": crowded(), "cores": 12, **OF_FOUR}, {"rows": crowded(), "cores": 13, **OF_FOUR}),
    ("workers-oversubscribed",
     {"rows": crowded(0.2), "cores": 2, **OF_FOUR}, {"rows": crowded(0.19), "cores": 2, **OF_FOUR}),
    ("input-handover", {"rows": pair(0.19)}, {"rows": pair(0.2)}),
    ("input-handover",
     {"rows": pair(1), "steps": step_table(100, STEPS, input_cpu=40 * MS)},
     {"rows": pair(1), "steps": step_table(100, STEPS, input_cpu=39 * MS)}),
    ("input-handover", {"rows": packing(1.0)}, {"rows": packing(0.99)}),
    ("input-uneven", {"rows": pair(0.3, 0.6)}, {"rows": pair(0.3, 0.59)}),
    ("input-uneven", {"rows": long_batches(86_700)}, {"rows": long_batches(86_500)}),
    ("input-bursty",
     {"rows": pair(0.79, cpu=0.5), "steps": bursts(4)},
     {"rows": pair(0.8, cpu=0.5), "steps": bursts(4)}),
    ("input-bursty",
     {"rows": pair(0.6, cpu=0.5), "steps": bursts(4, wait=9)},
     {"rows": pair(0.6, cpu=0.5), "steps": bursts(4, wait=8)}),
    ("input-worker-bound", {"rows": pair(1, cpu=0.85)}, {"rows": pair(1, cpu=0.84)}),
    ("input-worker-bound", {"rows": pair(0.5)}, {"rows": pair(0.49)}),
    ("input-disk-bound", {"rows": pair(1, cpu=0.5)}, {"rows": pair(1, cpu=0.51)}),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "enough", "less"), NEAR)
def test_a_cause_is_named_from_its_limit_on(
    rule: str, enough: dict[str, Any], less: dict[str, Any]
) -> None:
    def said(given: dict[str, Any]) -> list[str]:
        known = dict(given)
        return [one.rule for one in judged(run_of(*known.pop("rows"), **known)).findings]

    assert said(enough)[0] == rule
    assert rule not in said(less)


CAUSES: dict[str, dict[str, Any]] = {
    "workers-oversubscribed": {"rows": crowded(), "cores": 2, **OF_FOUR},
    "input-uneven": {"rows": pair(0.3, 0.6)},
    "input-worker-bound": {"rows": pair(1)},
    "input-disk-bound": {"rows": pair(1, cpu=0.1)},
    "input-bound": {"rows": pair(1, cpu=0.7)},
}


@pytest.mark.parametrize("rule", CAUSES)
def test_a_tenth_of_the_step_is_a_warning_and_less_is_not_said(rule: str) -> None:
    known = dict(CAUSES[rule])
    rows = known.pop("rows")
    for wait, severity in (
        (20, Severity.CRITICAL),
        (19.9, Severity.WARNING),
        (10, Severity.WARNING),
    ):
        steps = step_table(100, {"forward": 100 - wait, "input_wait": wait})
        (found,) = judged(run_of(*rows, steps=steps, **known)).findings
        assert (found.rule, found.severity, found.cost_ns) == (rule, severity, round(wait * MS))
        assert found.place is not None
        assert found.place.source == "train.py:4"
    steps = step_table(100, {"forward": 90.1, "input_wait": 9.9})
    assert judged(run_of(*rows, steps=steps, **known)).findings == ()


@pytest.mark.parametrize("rule", sorted({rule for rule, *_ in NEAR}))
def test_without_rows_of_workers_no_cause_is_named(rule: str) -> None:
    steps = bursts(4) if rule == "input-bursty" else None
    assert [one.rule for one in judged(run_of(steps=steps)).findings] == ["input-bound"]
    untold = [{**row, "watched": 0, "threads": 0, "cpu": 0} for row in pair(0.6)]
    found = judged(run_of(*untold))
    assert [one.rule for one in found.findings] == ["input-bound"]
    if rule in ("workers-oversubscribed", "input-worker-bound", "input-disk-bound"):
        assert reasons(found)[rule] == "too little is known about what the workers use"


def test_a_trace_alone_tells_no_cause_of_workers() -> None:
    found = diagnosed(waiting(300, loader=WORKERS))
    assert [one.rule for one in found.findings] == ["input-bound"]


def test_starts_of_the_loader_count_from_a_twentieth_of_the_step_on() -> None:
    """The first of a hundred could not be saved."""

    def started(each: float) -> list[tuple[str, Severity, int]]:
        steps = step_table(100, {"loader_start": each, "forward": 100 - each})
        found = judged(run_of(worker(0, busy=0.3), steps=steps)).findings
        return [(one.rule, one.severity, one.cost_ns) for one in found]

    ((rule, severity, cost),) = started(5.1)
    assert (rule, severity) == ("loader-start", Severity.WARNING)
    assert 5 * MS < cost < 5.1 * MS
    assert started(20.3)[0][1] is Severity.CRITICAL
    assert started(5) == []
