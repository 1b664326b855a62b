"""Starting a recorded run again, with a change."""

from __future__ import annotations

import time
from dataclasses import fields
from pathlib import Path

from perftui.recorder.launch import Launch, start
from perftui.recorder.options import AgentOptions
from perftui.run.control import request
from perftui.run.layout import RunLayout
from perftui.run.manifest import Manifest, Override, read_manifest
from perftui.run.reader import RunReader

STOP_SECONDS = 30.0
"""How long a training may take to stop: it may be saving a checkpoint."""


class StillRunningError(RuntimeError):
    """The training did not stop when asked to."""


def launch_of(root: Path, manifest: Manifest, override: Override | None) -> Launch:
    """The launch of the run at ``root``, with ``override`` on top of those it had."""
    kept = tuple(
        one for one in manifest.overrides if override is None or not _replaces(override, one)
    )
    return Launch(
        command=manifest.command,
        cwd=Path(manifest.cwd),
        runs=root.parent,
        overrides=kept if override is None else (*kept, override),
        parent=manifest.run_id,
        options=_options(manifest),
    )


def run_again(root: Path, override: Override | None) -> Path:
    """Stop the run at ``root`` if it runs, start it again, and return the new run directory.

    Raises:
        StillRunningError: the training did not stop within ``STOP_SECONDS``.
        ManifestError: ``root`` is not a readable run.
        OSError: the new run cannot be started.
    """
    manifest = read_manifest(RunLayout(root).manifest)
    _stop(root)
    return start(launch_of(root, manifest, override))


def _replaces(new: Override, old: Override) -> bool:
    return (new.target, new.file, new.line) == (old.target, old.file, old.line)


def _options(manifest: Manifest) -> AgentOptions:
    """The agent's options as recorded; those this version does not know are left out."""
    known = {field.name for field in fields(AgentOptions)}
    return AgentOptions(**{k: v for k, v in manifest.profile.items() if k in known})


def _stop(root: Path) -> None:
    reader = RunReader(root)
    if reader.poll().manifest.status.is_over:
        return
    request(RunLayout(root), "stop")
    deadline = time.monotonic() + STOP_SECONDS
    while not reader.poll().manifest.status.is_over:
        if time.monotonic() > deadline:
            raise StillRunningError(
                "the training has not stopped; stop it yourself, then press r again"
            )
        time.sleep(0.2)
