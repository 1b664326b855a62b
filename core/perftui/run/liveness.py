"""Whether the recorder of a run still lives."""

from __future__ import annotations

import os
import socket
from dataclasses import replace

import psutil

from perftui.run.manifest import Manifest, Status

CLOCK_TOLERANCE = 60.0
"""Seconds by which the start of one process may seem to move when the clock is set."""


def recorded_by_this_process(manifest: Manifest) -> Manifest:
    """``manifest`` with this process as its recorder."""
    created = psutil.Process().create_time()
    return replace(manifest, recorder_pid=os.getpid(), recorder_created=created)


def with_liveness(manifest: Manifest) -> Manifest:
    """A run whose recorder is gone without writing an end is lost; only its own host can tell."""
    if manifest.status.is_over or manifest.host != socket.gethostname():
        return manifest
    pid = manifest.recorder_pid
    if pid is None or _is_alive(pid, manifest.recorder_created):
        return manifest
    return replace(manifest, status=Status.LOST)


def has_ended(pid: int) -> bool:
    """Whether no process of this host has the number ``pid``, or one that waits to be reaped."""
    return not _is_alive(pid, None)


def _is_alive(pid: int, created: float | None) -> bool:
    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return False
        return created is None or abs(process.create_time() - created) < CLOCK_TOLERANCE
    except psutil.NoSuchProcess:
        return False
    except psutil.AccessDenied:
        return True
