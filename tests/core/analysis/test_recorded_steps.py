from __future__ import annotations

from pathlib import Path

import numpy as np

from perftui.analysis.recorded_steps import recorded_steps
from perftui.analysis.steps import find_phases
from perftui.run.columns import PHASES
from perftui.run.reader import RunReader
from tests.tui.recorded import write_run
from tests.tui.test_ranks_screen import write_ranks


def test_steps_and_their_phases_as_a_trace(tmp_path: Path) -> None:
    run = RunReader(write_run(tmp_path, steps=20)).poll()
    steps = run.ranks[0].steps
    found = recorded_steps(run)
    assert found is not None
    trace = found.trace
    assert [step.index for step in found.steps] == steps["index"].tolist()
    assert [step.duration for step in found.steps] == steps["duration"].tolist()
    assert trace.wall_origin == int(steps["start"].min())
    starts = [step.start + trace.wall_origin for step in found.steps]
    assert starts == steps["start"].tolist()
    for step in found.steps:
        inside = np.flatnonzero(trace.parent == step.row)
        assert int(trace.duration[inside].sum()) == step.duration
    known = find_phases(trace)
    for phase in ("input_wait", "forward", "backward", "optimizer"):
        total = int(steps[phase].sum())
        assert (known[phase].total if phase in known else 0) == total
    assert {name for name in trace.names if "::" in name} <= {f"perftui::{p}" for p in PHASES}
    assert [(track.label, track.kind) for track in found.timeline_tracks] == [
        ("steps", "steps"),
        ("phases", "phases"),
    ]
    rows = [row for track in found.timeline_tracks for row in track.index.rows.tolist()]
    assert sorted(rows) == list(range(len(trace)))


def test_those_of_several_ranks_are_distinguished(tmp_path: Path) -> None:
    run = RunReader(write_ranks(tmp_path, 5, 65, 4, steps=30)).poll()
    found = recorded_steps(run)
    assert found is not None
    assert [track.label for track in found.timeline_tracks] == [
        f"rank {rank} {kind}" for rank in range(3) for kind in ("steps", "phases")
    ]
    for one in run.ranks:
        steps = found.steps_of(one.place)
        assert [step.index for step in steps] == one.steps["index"].tolist()
        assert [step.duration for step in steps] == one.steps["duration"].tolist()


def test_before_the_first_step_there_is_nothing(tmp_path: Path) -> None:
    run = RunReader(write_run(tmp_path, steps=0, torch_version=None)).poll()
    assert recorded_steps(run) is None
