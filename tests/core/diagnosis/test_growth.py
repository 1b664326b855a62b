"""Steps and memory that grow in the course of a run."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.diagnosis.model import Severity
from perftui.facts.step.uneven_steps import trend
from perftui.run.columns import FORWARD, PHASES, STEP_COLUMNS
from perftui.run.journal import Column
from perftui.run.table import GrowingTable, Table
from tests.core.diagnosis.runs import MS, step_table
from tests.core.diagnosis.script_runs import Seen, reason, run_of, said, source_of, told
from tests.step_rows import step_row


def growing(count: int = 100, **each: float) -> Table:
    """Steps of 50 ms forward and 10 ms else, to which each adds so many ms of the phases."""
    table = GrowingTable(STEP_COLUMNS, floats=False, text=("kind",))
    start, rows = 0, []
    for at in range(count):
        usual = {"forward": 50, "other": 10}
        parts = [round((usual.get(name, 0) + at * each.get(name, 0)) * MS) for name in PHASES]
        rows.append(step_row(at, parts, start=start))
        start += sum(parts)
    table.extend(rows)
    return table.freeze()


def seen_in(steps: Table) -> list[Seen]:
    """Samples of all of it: forward at line 12, the rest at line 22."""
    seen = []
    for start, forward, other in zip(
        *(steps[name].tolist() for name in ("start", "forward", "other")), strict=True
    ):
        seen.append(Seen(start / MS, forward / MS, 12, FORWARD))
        seen.append(Seen((start + forward) / MS, other / MS, 22))
    return seen


def memory(steps: Table, first: int, last: int) -> Table:
    """Memory of the processes over the steps, MiB."""
    table = GrowingTable((Column("time"), Column("processes.rss")), floats=True)
    end = int(steps["start"][-1])
    sizes = np.linspace(first, last, 60) * (1 << 20)
    table.extend([[at * end / 60, size] for at, size in enumerate(sizes.tolist())])
    return table.freeze()


def test_the_part_that_grows_is_named_with_its_line() -> None:
    steps = growing(other=1)
    run = run_of(steps, *seen_in(steps), telemetry=memory(steps, 400, 450))
    finding = told(run, "growing-steps")
    assert finding.sentence.startswith("Steps grow from ")
    assert "the script's own code takes " in finding.sentence
    assert " at train.py:22, and memory grows by " in finding.sentence
    assert source_of(finding) == "/p/train.py:22"
    # It adds 1 ms with each step; of the steps that are no warm-up that is 56 in the mean.
    assert finding.cost_ns == pytest.approx(56 * MS, rel=0.02)


def test_a_tenth_over_the_run_is_the_least() -> None:
    assert told(run_of(growing(other=0.08)), "growing-steps").severity is Severity.WARNING
    assert told(run_of(growing(other=0.05)), "growing-steps").severity is Severity.INFO
    assert told(run_of(growing(other=0.032)), "growing-steps").severity is Severity.INFO
    assert said(run_of(growing(other=0.031)), "growing-steps") is None


@pytest.mark.parametrize(("each", "grows"), [(0.19, False), (0.3, True)])
def test_what_is_most_of_the_step_has_to_grow_by_more_than_machines_sway(
    each: float, grows: bool
) -> None:
    found = said(run_of(growing(forward=each)), "growing-steps")
    assert (found is not None) is grows


def test_steps_of_a_machine_that_becomes_busier_do_not_grow() -> None:
    assert said(run_of(growing(forward=0.5, other=0.1)), "growing-steps") is None


def test_steps_three_times_as_long_have_grown_whichever_parts_do() -> None:
    finding = told(run_of(growing(forward=1.4, other=0.7)), "growing-steps")
    assert "forward takes " in finding.sentence
    # They add 2.1 ms with each step.
    assert finding.cost_ns == pytest.approx(2.1 * 61 * MS, rel=0.02)
    assert {"forward", "other"} <= set(finding.parts)
    assert said(run_of(growing(forward=0.8, other=0.4)), "growing-steps") is None


def test_scatter_of_the_little_that_is_left_hides_no_growth() -> None:
    """Backward is nearly all of a step; the rest scatters, and its parts do not sum as lines."""
    random = np.random.default_rng(0)
    other, scatter = 0.5 + random.exponential(1.0, 200), random.normal(0, 8, 200)
    backward = np.maximum(20 + 0.3 * np.arange(200) + scatter, 1)
    table = GrowingTable(STEP_COLUMNS, floats=False, text=("kind",))
    parts = {"backward": backward, "other": other}
    rows = [
        [round(float(parts[name][at]) * MS) if name in parts else 0 for name in PHASES]
        for at in range(200)
    ]
    starts = np.cumsum([0, *(sum(row) for row in rows)]).tolist()
    table.extend([step_row(at, row, start=starts[at]) for at, row in enumerate(rows)])
    finding = told(run_of(table.freeze()), "growing-steps")
    assert finding.severity is Severity.CRITICAL
    assert "backward takes " in finding.sentence


def test_fifty_steps_are_the_fewest() -> None:
    assert reason(run_of(step_table(49, {"forward": 5})), "growing-steps") == (
        "49 of 50 steady steps so far"
    )


def test_memory_that_grows_is_reported_though_it_costs_no_time() -> None:
    steps = step_table(100, {"forward": 100})
    finding = told(run_of(steps, telemetry=memory(steps, 400, 700)), "memory-growth")
    assert (finding.severity, finding.cost_ns) == (Severity.WARNING, 0)
    assert finding.sentence == (
        "Memory of the training grows from 415 MiB to 690 MiB in 100 steps, 2.7 MiB per step."
    )
    for first, last, severity in (
        (400, 470, Severity.INFO),
        (400, 450, None),
        (4000, 4440, Severity.INFO),
        (4000, 4400, None),
    ):
        found = said(run_of(steps, telemetry=memory(steps, first, last)), "memory-growth")
        assert (found.severity if found else None) is severity
    assert reason(run_of(steps), "memory-growth") == "memory of the processes was not sampled"


def test_the_first_steps_fill_memory_without_growing_for_ever() -> None:
    steps = step_table(19, {"forward": 1000})
    run = run_of(steps, telemetry=memory(steps, 400, 700))
    assert said(run, "memory-growth") is None
    assert reason(run, "memory-growth") == "19 of 20 steady steps so far"
    steps = step_table(20, {"forward": 1000})
    assert said(run_of(steps, telemetry=memory(steps, 400, 700)), "memory-growth") is not None


@given(st.integers(1, 1000), st.integers(0, 100), st.integers(10, 400))
def test_the_trend_of_a_line_is_that_line(first: int, rise: int, count: int) -> None:
    values = first + rise * np.arange(count)
    found = trend(values)
    assert found.first >= first
    assert found.last <= values[-1]
    assert found.tau == (1 if rise else 0)


def test_noise_has_no_trend() -> None:
    values = np.random.default_rng(1).normal(100, 10, 500)
    assert abs(trend(values).tau) < 0.6
