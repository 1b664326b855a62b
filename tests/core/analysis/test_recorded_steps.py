from __future__ import annotations

from pathlib import Path

import numpy as np

from perftui.analysis.host import Host
from perftui.analysis.lanes import build_lanes
from perftui.analysis.phases import find_phases
from perftui.analysis.recorded_steps import recorded_steps
from perftui.run.columns import PHASES
from perftui.run.reader import RunReader
from tests.tui.recorded import write_run


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
    known = find_phases(trace, Host(trace))
    for phase in ("input_wait", "forward", "backward", "optimizer"):
        total = int(steps[phase].sum())
        assert (known[phase].total if phase in known else 0) == total
    assert {name for name in trace.names if "::" in name} <= {f"perftui::{p}" for p in PHASES}
    assert [lane.label for lane in build_lanes(trace)] == ["steps"] * 2


def test_before_the_first_step_there_is_nothing(tmp_path: Path) -> None:
    run = RunReader(write_run(tmp_path, steps=0, torch_version=None)).poll()
    assert recorded_steps(run) is None
