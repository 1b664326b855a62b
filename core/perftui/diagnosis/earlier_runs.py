"""Earlier runs of the same command beside a run, by what their directories say at a glance."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from perftui.diagnosis.model import Diagnosis
from perftui.diagnosis.store import read_findings
from perftui.facts.step.steps import MANY_STEPS
from perftui.run.files import UnreadableError
from perftui.run.layout import RunLayout
from perftui.run.manifest import Manifest, ManifestError, read_manifest

MOST_READ = 50
"""Directories before this one that are looked at, the newest first: 0.2 ms each."""


@dataclass(frozen=True)
class EarlierRun:
    """A run of the same command on the same machine."""

    manifest: Manifest
    step_ns: int
    """Its mean steady step."""


def earlier_runs(root: Path, manifest: Manifest) -> tuple[EarlierRun, ...]:
    """Runs beside ``root`` that ended before it began, newest first, as far as they were judged on
    enough steps; without those that were made differently for a trial."""
    found = _ended_before(root, manifest.started_ns, manifest.command, manifest.cwd, manifest.host)
    made = (manifest.overrides, manifest.patched)
    return tuple(one for one in found if (one.manifest.overrides, one.manifest.patched) == made)


@lru_cache(maxsize=8)
def _ended_before(
    root: Path, started_ns: int, command: tuple[str, ...], cwd: str, host: str
) -> tuple[EarlierRun, ...]:
    """Asked for once for each run: what ended before it does not change."""
    return tuple(_read(root, started_ns, (command, cwd, host)))


def _read(
    root: Path, started_ns: int, ran: tuple[tuple[str, ...], str, str]
) -> Iterator[EarlierRun]:
    try:
        beside = sorted(
            (one for one in root.parent.iterdir() if one.name < root.name), reverse=True
        )
    except OSError:
        return
    for path in beside[:MOST_READ]:
        layout = RunLayout(path)
        try:
            found = read_manifest(layout.manifest)
            if (found.command, found.cwd, found.host) != ran:
                continue
            step = _step_of(read_findings(layout.findings))
        except (ManifestError, UnreadableError, OSError):
            continue
        if step and found.ended_ns is not None and found.ended_ns <= started_ns:
            yield EarlierRun(found, step)


def _step_of(diagnosis: Diagnosis) -> int:
    """The mean step that findings of the whole run were measured against; 0 where none was."""
    if diagnosis.steady_steps < MANY_STEPS:
        return 0
    whole = (one for one in diagnosis.findings if one.steps == diagnosis.steady_steps)
    return next((one.step_ns for one in whole if one.step_ns), 0)
