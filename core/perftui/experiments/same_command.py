"""Runs of one command: which they are among those of a directory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from perftui.run.history import RunEntry, list_runs
from perftui.run.manifest import Manifest


def earlier_runs_of(root: Path, manifest: Manifest) -> Iterator[RunEntry]:
    """Those of ``runs_of`` that started before the run."""
    for entry in runs_of(root, manifest):
        if entry.manifest is not None and entry.manifest.started_ns < manifest.started_ns:
            yield entry


def runs_of(root: Path, manifest: Manifest) -> Iterator[RunEntry]:
    """The runs beside ``root`` that have ended and ran the same command to the same end, newest
    first. Machine, versions and source may differ."""
    ran = what_ran(manifest)
    for entry in list_runs(root.parent):
        other = entry.manifest
        if other is None or entry.root.name == root.name or not other.status.is_over:
            continue
        if what_ran(other) == ran:
            yield entry


def what_ran(manifest: Manifest) -> tuple[object, ...]:
    """The same of two runs of one command: the words after the interpreter, the directory, the exit
    code and what fixes changed."""
    changed = manifest.overrides, manifest.patched
    return manifest.command[1:], manifest.cwd, manifest.exit_code, *changed
