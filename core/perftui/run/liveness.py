"""Whether the recorder of a run still lives."""

from __future__ import annotations

import math
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
    """A run whose recorder is gone without writing an end is lost; only its own host can know."""
    if manifest.status.is_over or manifest.host != socket.gethostname():
        return manifest
    pid, created = manifest.recorder_pid, manifest.recorder_created
    before = math.inf if created is None else created + CLOCK_TOLERANCE
    if pid is None or is_alive(pid, before):
        return manifest
    return replace(manifest, status=Status.LOST)


def is_alive(pid: int, begun_before: float = math.inf) -> bool:
    """Whether a process of this host has the number ``pid`` and does not wait to be reaped.

    One that was not ``begun_before`` that time (seconds since the epoch) is another one, which was
    given the number later.
    """
    try:
        process = psutil.Process(pid)
        is_zombie = process.status() == psutil.STATUS_ZOMBIE
        return not is_zombie and bool(process.create_time() < begun_before)
    except psutil.NoSuchProcess:
        return False
    except psutil.AccessDenied:
        return True
