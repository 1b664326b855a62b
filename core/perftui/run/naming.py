"""What the user calls a run, kept beside its manifest: while it lives, that is the recorder's."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from perftui.run.atomic import replace_file
from perftui.run.layout import RunLayout
from perftui.run.manifest import Manifest

LONGEST = 80
"""Letters of a name: it stands in a column."""


def rename_run(root: Path, name: str) -> None:
    """Call the run at ``root`` so from now on; an empty name takes the one given before away.

    Raises:
        OSError: it cannot be written; the old name is then kept.
    """
    path = RunLayout(root).name
    kept = " ".join(name.split())[:LONGEST]
    if kept:
        replace_file(path, kept.encode() + b"\n")
    else:
        path.unlink(missing_ok=True)


def named(manifest: Manifest, root: Path) -> Manifest:
    """``manifest`` with the name that the user gave the run at ``root``, where there is one."""
    try:
        with RunLayout(root).name.open("rb") as file:
            text = file.read(4 * LONGEST)
    except OSError:
        return manifest
    name = " ".join(text.decode("utf-8", "replace").split())[:LONGEST]
    return replace(manifest, name=name) if name else manifest
