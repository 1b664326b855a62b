"""The run that a new one is held against where none is named."""

from __future__ import annotations

from pathlib import Path

from perftui.run.history import list_runs
from perftui.run.manifest import Manifest

NEWEST = "newest"
"""Named in place of a baseline."""


def newest_earlier(root: Path, manifest: Manifest) -> Path | None:
    """The newest run beside ``root`` that started before it and ran the same command to the same
    end; None where there is none.

    The same are the words after the interpreter, the directory, what fixes changed and the exit
    code. Machine, versions and source may differ.
    """
    for entry in list_runs(root.parent):
        other = entry.manifest
        if other is None or entry.root.name == root.name or not other.status.is_over:
            continue
        if other.started_ns < manifest.started_ns and _what(other) == _what(manifest):
            return entry.root
    return None


def _what(manifest: Manifest) -> tuple[object, ...]:
    changed = manifest.overrides, manifest.patched
    return manifest.command[1:], manifest.cwd, manifest.exit_code, *changed
