"""Whether the training of a run still goes on."""

from __future__ import annotations

from pathlib import Path


def running_script(root: Path) -> str | None:
    """The script of the run at ``root``, None where it is over or ``root`` is no run."""
    from perftui.run.manifest import ManifestError, run_state

    try:
        manifest = run_state(root)
    except ManifestError:
        return None
    return None if manifest.status.is_over else manifest.script
