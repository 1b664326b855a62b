"""Backward passes that go through more and more earlier steps, and begin anew."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from perftui.run.columns import PHASES, STEP_COLUMNS
from perftui.run.reader import RunSnapshot
from perftui.run.table import GrowingTable
from tests.core.diagnosis.runs import MS, event_table
from tests.core.diagnosis.script_runs import reason, run_of, said, told
from tests.step_rows import step_row

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
    table = GrowingTable(STEP_COLUMNS, floats=False, text=("kind",))
    start = 0
    for at, kept in enumerate(before.tolist()):
        times = {"forward": 10 + kept * forward, "backward": 10 + kept * each}
        parts = [round(times.get(phase, 0) * MS) for phase in PHASES]
        table.extend([step_row(at, parts, start=start)])
        start += sum(parts)
    events = event_table(events=(("process", {"argv0": "train.py"}),))
    return run_of(table.freeze(), events=events, cwd=str(tmp_path))


def test_a_state_that_keeps_its_graph_through_a_story_is_reported_with_its_line(
    tmp_path: Path,
) -> None:
    finding = told(stories(tmp_path), "kept-graph")
    assert finding.sentence == (
        "Backward grows from 10 ms to 80 ms and starts over, because train.py:5 keeps the graphs "
        "of earlier steps: 35 ms of each 55 ms step (64 %)."
    )
    assert finding.cost_ns == pytest.approx(35 * MS, rel=0.02)
    assert said(stories(tmp_path), "growing-steps") is None


def test_a_story_of_three_chunks_is_the_shortest(tmp_path: Path) -> None:
    assert said(stories(tmp_path, chunks=3), "kept-graph") is not None
    assert said(stories(tmp_path, chunks=2), "kept-graph") is None


def test_half_as_long_again_is_the_least(tmp_path: Path) -> None:
    assert said(stories(tmp_path, each=0.72), "kept-graph") is not None
    assert said(stories(tmp_path, each=0.71), "kept-graph") is None


def test_documents_of_different_lengths_keep_nothing(tmp_path: Path) -> None:
    assert said(stories(tmp_path, shuffled=True), "kept-graph") is None
    assert said(stories(tmp_path, forward=10), "kept-graph") is None


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
    assert said(stories(tmp_path, text), "kept-graph") is None


def test_graphs_that_are_kept_for_ever_are_growing_steps(tmp_path: Path) -> None:
    run = stories(tmp_path, chunks=96)
    assert said(run, "growing-steps") is not None
    assert said(run, "kept-graph") is None


def test_few_steps_do_not_tell(tmp_path: Path) -> None:
    why = reason(stories(tmp_path, count=24), "kept-graph")
    assert why.endswith(" of 30 steady steps so far")
