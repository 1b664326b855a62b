"""Deleting a recorded run, never one that may still live."""

from __future__ import annotations

import shutil
from pathlib import Path

from perftui.run.layout import RunLayout
from perftui.run.liveness import with_liveness
from perftui.run.manifest import Manifest, ManifestError, read_manifest

GOING = ".deleted-"
"""Begins the name of a directory that is being removed; no run is called so."""


class NotRemovableError(ValueError):
    """The run must be kept, and the message says why."""


def delete_run(root: Path) -> None:
    """Remove the run at ``root`` with everything in it.

    It is renamed first, so that nobody lists half of it.

    Raises:
        NotRemovableError: it lives, or it cannot be told whether it does.
        OSError: it cannot be removed.
    """
    reason = why_kept(root)
    if reason:
        raise NotRemovableError(reason)
    going = root.with_name(f"{GOING}{root.name}")
    root.rename(going)
    shutil.rmtree(going)


def why_kept(root: Path) -> str:
    """Why the run at ``root`` cannot be deleted, empty where it can."""
    if root.is_symlink():
        return "it is a link to a directory elsewhere"
    layout = RunLayout(root)
    for one in (layout, *layout.parts()):
        try:
            manifest = with_liveness(read_manifest(one.manifest))
        except ManifestError as error:
            return f"whether it still runs cannot be told: {error}"
        if not manifest.status.is_over:
            return _living(manifest)
    return ""


def _living(manifest: Manifest) -> str:
    return f"it still runs on {manifest.host}, or its recorder there died; delete it there"
