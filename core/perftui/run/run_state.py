"""How a recorded run stands, from its manifest alone: no journal is read."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from perftui.run.layout import RunLayout
from perftui.run.liveness import with_liveness
from perftui.run.manifest import Manifest, read_manifest

POLL_SECONDS = 0.1


def run_state(root: Path) -> Manifest:
    """The manifest of the run at ``root``, ``LOST`` where its recorder is gone.

    Raises:
        ManifestError: there is no readable manifest.
    """
    return with_liveness(read_manifest(RunLayout(root).manifest))


def wait_until_over(root: Path, seconds: float, give_up: threading.Event | None = None) -> Manifest:
    """The manifest of the run at ``root`` once it is over.

    The one as it is then after ``seconds``, or once ``give_up`` is set.

    Raises:
        ManifestError: there is no readable manifest.
    """
    give_up = give_up or threading.Event()
    deadline = time.monotonic() + seconds
    while True:
        manifest = run_state(root)
        if manifest.status.is_over or time.monotonic() >= deadline or give_up.is_set():
            return manifest
        give_up.wait(POLL_SECONDS)
