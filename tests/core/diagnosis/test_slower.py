"""Steps that take longer than in earlier runs of the same command."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from perftui.diagnosis.diagnose import diagnosis
from perftui.diagnosis.model import Finding, Severity
from perftui.diagnosis.store import write_findings
from perftui.diagnosis.symptoms.step.slow_steps import _ended_before
from perftui.facts.fact import Facts
from perftui.run.layout import RunLayout
from perftui.run.manifest import Override, Status, write_manifest
from perftui.run.reader import RunSnapshot
from tests.core.diagnosis.runs import make_run
from tests.core.diagnosis.stories import found

HOUR = 3_600_000_000_000


def run(root: Path, step: float = 10, **manifest: Any) -> RunSnapshot:
    """A run of 40 steps of so many ms, half of them waiting, at the hour that its name tells."""
    begun = int(root.name) * HOUR
    made = make_run(phases={"input_wait": step / 2, "forward": step / 2}, root=root)
    told = {"started_ns": begun, "ended_ns": begun + HOUR // 2, "torch_version": "2.12.0"}
    return replace(made, manifest=replace(made.manifest, **{**told, **manifest}))


def keep(root: Path, step: float = 10, **manifest: Any) -> None:
    """The run as it is kept."""
    root.mkdir()
    ended = run(root, step, **manifest)
    write_manifest(RunLayout(root).manifest, ended.manifest)
    write_findings(RunLayout(root).findings, diagnosis(Facts(ended)))


def slower(root: Path, step: float, **manifest: Any) -> Finding | None:
    _ended_before.cache_clear()
    return found(diagnosis(Facts(run(root, step, **manifest))), "slower-than-before")


def test_it_is_reported_with_what_has_changed(tmp_path: Path) -> None:
    for hour, step in ((1, 9.0), (2, 10.0), (3, 14.0)):
        keep(tmp_path / str(hour), step)
    finding = slower(tmp_path / "5", 12, torch_version="2.13.0", cpu_count=4)
    assert finding is not None
    assert finding.sentence == (
        "The mean step takes 12 ms, against 10 ms in 3 earlier runs of the same command: changed "
        "since the last of them: PyTorch's version and the usable cores."
    )
    assert (finding.rule, finding.severity, finding.cost_ns) == (
        "slower-than-before",
        Severity.INFO,
        0,
    )
    assert [figure.value for figure in finding.facts[2:]] == ["2.12.0", "8"]


def test_where_nothing_has_changed_it_says_so(tmp_path: Path) -> None:
    keep(tmp_path / "1")
    keep(tmp_path / "2")
    finding = slower(tmp_path / "3", 30)
    assert finding is not None
    assert finding.severity is Severity.INFO
    assert "nothing on record has changed" in finding.sentence


@pytest.mark.parametrize(("step", "has_finding"), [(11, True), (10.9, False), (5, False)])
def test_from_a_tenth_above_on(tmp_path: Path, step: float, has_finding: bool) -> None:
    keep(tmp_path / "1")
    keep(tmp_path / "2")
    assert (slower(tmp_path / "3", step) is not None) is has_finding


@pytest.mark.parametrize(
    "other",
    [
        {"command": ("python", "train.py", "--batch=64")},
        {"host": "elsewhere"},
        {"overrides": (Override("DataLoader", {"num_workers": 4}),)},
        {"ended_ns": 9 * HOUR},
        {"ended_ns": None},
    ],
    ids=["command", "host", "overrides", "overlapping", "not ended"],
)
def test_other_runs_are_not_compared(tmp_path: Path, other: dict[str, Any]) -> None:
    keep(tmp_path / "1")
    keep(tmp_path / "2", **other)
    assert slower(tmp_path / "3", 20) is None


def test_a_live_run_and_damaged_ones_are_left_alone(tmp_path: Path) -> None:
    keep(tmp_path / "1")
    keep(tmp_path / "2")
    assert slower(tmp_path / "3", 20, status=Status.RUNNING) is None
    (tmp_path / "2" / "findings.json").write_text("{")
    assert slower(tmp_path / "3", 20) is None
    assert slower(tmp_path / "gone" / "3", 20) is None
