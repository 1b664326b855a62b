"""Steps that grow, graphs that are kept, and trainings that come to no step."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.diagnosis.model import Finding, Severity
from perftui.facts.step.uneven_steps import trend
from perftui.run.columns import FORWARD, PHASES
from perftui.run.journal import Column
from perftui.run.manifest import Status
from perftui.run.reader import RunSnapshot
from perftui.run.table import Table
from tests.core.diagnosis.runs import (
    MS,
    Seen,
    event_table,
    joined,
    run_of,
    source_of,
    stacks_of,
    step_table,
    with_tables,
)
from tests.core.diagnosis.stories import diagnosed, finding_of, found, reasons
from tests.core.diagnosis.test_cpu import neighbours
from tests.step_rows import table_of


def growing(count: int = 100, **each: float) -> Table:
    """Steps of 50 ms forward and 10 ms else, to which each adds so many ms of the phases."""
    usual = {"forward": 50, "other": 10}
    times = (
        {name: usual.get(name, 0) + at * each.get(name, 0) for name in PHASES}
        for at in range(count)
    )
    return joined(*(step_table(1, phases) for phases in times))


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
    end = int(steps["start"][-1])
    sizes = np.linspace(first, last, 60) * (1 << 20)
    rows = [[at * end / 60, size] for at, size in enumerate(sizes.tolist())]
    return table_of((Column("time"), Column("processes.rss")), rows, floats=True)


def test_one_jump_is_no_growth() -> None:
    """As a neighbour on the machine, or its clock, makes it."""
    others = (10 + at / 50 + 12 * (at >= 60) for at in range(100))
    steps = joined(*(step_table(1, {"forward": 50, "other": other}) for other in others))
    assert found(run_of(steps), "growing-steps") is None
    assert found(run_of(growing(other=0.3)), "growing-steps")


def test_the_part_that_grows_is_named_with_its_line() -> None:
    steps = growing(other=1)
    run = run_of(steps, *seen_in(steps), telemetry=memory(steps, 400, 450))
    finding = finding_of(run, "growing-steps")
    assert finding.sentence.startswith("Steps grow from ")
    assert "the script's own code takes " in finding.sentence
    assert " at train.py:22, and memory grows by " in finding.sentence
    assert source_of(finding) == "/p/train.py:22"
    # It adds 1 ms with each step; of the steps that are no warm-up that is 56 in the mean.
    assert finding.cost_ns == pytest.approx(56 * MS, rel=0.02)


def test_steps_three_times_as_long_have_grown_whichever_parts_do() -> None:
    finding = finding_of(run_of(growing(forward=1.4, other=0.7)), "growing-steps")
    assert "forward takes " in finding.sentence
    # They add 2.1 ms with each step.
    assert finding.cost_ns == pytest.approx(2.1 * 61 * MS, rel=0.02)
    assert {"forward", "other"} <= set(finding.parts)


def test_scatter_of_the_little_that_is_left_hides_no_growth() -> None:
    """Backward is nearly all of a step; the rest scatters, and its parts do not sum as lines."""
    random = np.random.default_rng(0)
    other, scatter = 0.5 + random.exponential(1.0, 200), random.normal(0, 8, 200)
    backward = np.maximum(20 + 0.3 * np.arange(200) + scatter, 1)
    times = zip(backward.tolist(), other.tolist(), strict=True)
    steps = joined(*(step_table(1, {"backward": long, "other": rest}) for long, rest in times))
    finding = finding_of(run_of(steps), "growing-steps")
    assert finding.severity is Severity.CRITICAL
    assert "backward takes " in finding.sentence


def test_a_few_long_steps_are_no_part_of_the_growth() -> None:
    usual, long = growing(90, other=0.2), step_table(1, {"forward": 50, "other": 400})
    steps = joined(*(joined(usual.where(usual["index"] // 9 == at), long) for at in range(10)))
    assert finding_of(run_of(steps), "growing-steps").cost_ns < 20 * MS


def test_the_first_steps_fill_memory_without_growing_for_ever() -> None:
    steps = step_table(19, {"forward": 1000})
    run = run_of(steps, telemetry=memory(steps, 400, 700))
    assert found(run, "memory-growth") is None
    assert reasons(run)["memory-growth"] == "19 of 20 steady steps so far"
    steps = step_table(20, {"forward": 1000})
    assert found(run_of(steps, telemetry=memory(steps, 400, 700)), "memory-growth") is not None


def test_a_buffer_with_an_end_may_be_what_grows(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("seen = deque(maxlen=9)")
    steps, events = step_table(20, {"forward": 1000}), (("process", {"argv0": "train.py"}),)
    told = {"cwd": str(tmp_path), "events": event_table(events=events)}
    finding = finding_of(run_of(steps, telemetry=memory(steps, 400, 700), **told), "memory-growth")
    assert (finding.severity, finding.advice) == (
        Severity.INFO,
        "the deque at train.py:1 may be what grows, until it is full",
    )


@given(st.integers(1, 1000), st.integers(0, 100), st.integers(10, 400))
def test_the_trend_of_a_line_is_that_line(first: int, rise: int, count: int) -> None:
    values = first + rise * np.arange(count)
    found = trend(values)
    assert found.first >= first
    # Ten blocks of unequal length end up to two values late.
    assert found.last <= values[-1] + 2 * rise
    assert found.tau == (1 if rise else 0)


def test_noise_has_no_trend() -> None:
    values = np.random.default_rng(1).normal(100, 10, 500)
    assert abs(trend(values).tau) < 0.6


STORIES = """
for story in stories:
    state = None
    for x, y in story:
        found, state = model(x, state)
        loss = cross_entropy(found, y)
        loss.backward(retain_graph=True)
        optimizer.step()
"""


def stories(
    tmp_path: Path,
    text: str = STORIES,
    *,
    count: int = 96,
    each: float = 10,
    chunks: int = 8,
    forward: float = 0,
    shuffled: bool = False,
) -> RunSnapshot:
    """Steps of 10 ms of forward and 10 of backward; for each chunk of a story that came before
    ``each`` ms more of backward, and ``forward`` of forward."""
    (tmp_path / "train.py").write_text(text)
    before = np.arange(count) % chunks
    if shuffled:
        np.random.default_rng(0).shuffle(before)
    steps = (
        step_table(1, {"forward": 10 + kept * forward, "backward": 10 + kept * each})
        for kept in before.tolist()
    )
    events = event_table(events=(("process", {"argv0": "train.py"}),))
    return run_of(joined(*steps), events=events, cwd=str(tmp_path))


def test_a_state_that_keeps_its_graph_through_a_story_is_reported_with_its_line(
    tmp_path: Path,
) -> None:
    finding = finding_of(stories(tmp_path), "kept-graph")
    assert finding.sentence == (
        "Backward grows from 10 ms to 80 ms and starts over, because train.py:5 keeps the graphs "
        "of earlier steps: 35 ms of each 55 ms step (64 %)."
    )
    assert finding.cost_ns == pytest.approx(35 * MS, rel=0.02)
    assert found(stories(tmp_path), "growing-steps") is None


def test_stories_of_three_chunks_that_grow_in_turn_keep_a_graph(tmp_path: Path) -> None:
    assert found(stories(tmp_path, chunks=3), "kept-graph") is not None
    assert found(stories(tmp_path, chunks=2), "kept-graph") is None
    assert found(stories(tmp_path, each=0.72), "kept-graph") is not None
    assert found(stories(tmp_path, each=0.71), "kept-graph") is None
    assert found(stories(tmp_path, shuffled=True), "kept-graph") is None
    assert found(stories(tmp_path, forward=10), "kept-graph") is None


@pytest.mark.parametrize(
    "text",
    [
        STORIES.replace("(x, state)", "(x, state.detach())"),
        STORIES.replace("retain_graph=True", ""),
        STORIES.replace("retain_graph=True", "retain_graph=False"),
    ],
    ids=["detached", "not retained", "let go"],
)
def test_without_a_line_that_keeps_a_graph_nothing_is_said(tmp_path: Path, text: str) -> None:
    assert found(stories(tmp_path, text), "kept-graph") is None


def test_graphs_kept_for_ever_are_growing_steps_and_few_steps_do_not_tell(tmp_path: Path) -> None:
    run = stories(tmp_path, chunks=96)
    assert found(run, "growing-steps") is not None
    assert found(run, "kept-graph") is None
    why = reasons(stories(tmp_path, count=24))["kept-graph"]
    assert why.endswith(" of 30 steady steps so far")


SECOND = 1000


def until(ms: float) -> Table:
    """Samples of the machine, the last at that time."""
    columns = (Column("time", "ns"), Column("cpu.cores"))
    return table_of(columns, [[0.0, 8.0], [ms * MS, 8.0]], floats=True)


def waiting(seconds: float, *seen: Seen, step: float = 100, **run: Any) -> RunSnapshot:
    """40 steps, and so many seconds since the last."""
    usual = {"status": Status.RUNNING, "telemetry": until(40 * step + seconds * SECOND)}
    return run_of(step_table(40, {"forward": step}), *seen, **{**usual, **run})


HUNG = Seen(4050, 30_000, 31, function="reduce", via="torch/distributed all_reduce")


def test_a_training_that_hangs_is_not_healthy() -> None:
    run = waiting(45, Seen(3000, 900, 12), HUNG)
    assert "healthy" not in [one.rule for one in diagnosed(run).findings]


def test_ranks_are_reported_by_where_they_wait() -> None:
    run = waiting(45, HUNG)
    others = [
        replace(run.ranks[0], rank=number, stacks=stacks_of(seen))
        for number, seen in ((1, HUNG), (2, Seen(4100, 20_000, 7, function="load")))
    ]
    finding = found(replace(run, ranks=(*run.ranks, *others)), "no-progress")
    assert finding.sentence.endswith(
        "Main threads were last seen: rank 0, 1 at train.py:31 in reduce; rank 2 at train.py:7 in "
        "load."
    )


def test_without_samples_it_says_so() -> None:
    finding = found(waiting(45), "no-progress")
    assert finding.sentence.endswith("No stack sample shows where its main thread is.")
    assert finding.place is None


def test_a_pause_as_long_as_one_before_is_none() -> None:
    steps = step_table(40, {"forward": 100})
    start = steps["start"].copy()
    start[20:] += 20 * SECOND * MS
    steps = Table(steps.columns, {**steps.values, "start": start})

    def after(seconds: float) -> Finding | None:
        samples = until(24 * SECOND + seconds * SECOND)
        return found(run_of(steps, status=Status.RUNNING, telemetry=samples), "no-progress")

    assert after(40) is None
    assert after(41) is not None


@pytest.mark.parametrize("status", [Status.EXITED, Status.KILLED, Status.LOST])
def test_a_run_that_is_over_does_not_wait(status: Status) -> None:
    assert found(waiting(45, HUNG, status=status), "no-progress") is None


@pytest.mark.parametrize(("delayed", "is_doubted"), [(5, False), (60, True)])
def test_steps_that_grow_no_more_than_they_wait_for_cores_are_in_doubt(
    delayed: float, is_doubted: bool
) -> None:
    busy = neighbours(delayed=delayed).run
    assert busy is not None
    run = with_tables(busy, steps=growing(other=1))
    assert (found(run, "growing-steps") is None) is is_doubted
    assert ("growing-steps" in reasons(run)) is is_doubted
