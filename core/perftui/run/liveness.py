"""Whether the recorder of a run still lives."""

from __future__ import annotations

import os
import socket
from dataclasses import replace

from perftui.run.manifest import Manifest, Status


def with_liveness(manifest: Manifest) -> Manifest:
    """A run whose recorder is gone without writing an end is lost; only its own host can tell."""
    if manifest.status.is_over or manifest.host != socket.gethostname():
        return manifest
    if manifest.recorder_pid is None or _is_alive(manifest.recorder_pid):
        return manifest
    return replace(manifest, status=Status.LOST)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
