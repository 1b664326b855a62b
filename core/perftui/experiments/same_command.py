"""Runs of one command: which they are among those of a directory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from perftui.run.history import RunEntry, list_runs
from perftui.run.manifest import Manifest


def earlier_runs_of(root: Path, manifest: Manifest) -> Iterator[RunEntry]:
    """The runs beside ``root`` that started before it and ran the same command to the same end,
    newest first. Machine, versions and source may differ."""
    for entry in list_runs(root.parent):
        other = entry.manifest
        if other is None or entry.root.name == root.name or not other.status.is_over:
            continue
        if other.started_ns < manifest.started_ns and what_ran(other) == what_ran(manifest):
            yield entry


def what_ran(manifest: Manifest) -> tuple[object, ...]:
    """The same of two runs of one command: the words after the interpreter, the directory, the exit
    code and what fixes changed."""
    changed = manifest.overrides, manifest.patched
    return manifest.command[1:], manifest.cwd, manifest.exit_code, *changed
