"""Merges several recorders into one run: on several hosts, or on one, over a shared directory.

The first of them makes the run directory; each of the others records into a directory of its own
inside it, ``hosts/<host>-<number>``, so that nobody writes into a file of somebody else's. Who is
first is settled by a file that only one can make, on a network disk, too.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from perftui.run.heartbeat import SILENT_SECONDS, silent_seconds
from perftui.run.layout import PRIVATE_MODE, RunLayout
from perftui.run.manifest import ManifestError, read_manifest

JOIN_VARIABLE = "PERFTUI_JOIN"
"""Any word that is the same for all recorders of a run: the name of the job, say."""

PATIENCE = 5.0
"""Seconds to wait for the directory that another is making: it takes milliseconds, or it died."""


def merge_key(environment: Mapping[str, str], command: Sequence[str]) -> str | None:
    """What all recorders of one run have in common; None where there is but one.

    A Slurm step of several tasks is one run if its command is known to train on several hosts:
    eight tasks may as well be eight trainings.
    """
    word = environment.get(JOIN_VARIABLE)
    if word:
        return word
    job, step = environment.get("SLURM_JOB_ID"), environment.get("SLURM_STEP_ID")
    tasks = _number(environment.get("SLURM_STEP_NUM_TASKS") or environment.get("SLURM_NTASKS"))
    several = _number(environment.get("WORLD_SIZE")) > 1 or any(
        word.split("=")[0] in ("--nnodes", "--num_machines", "--num_nodes") for word in command
    )
    if not (job and step and tasks > 1 and several):
        return None
    return f"slurm {job}.{step}.{environment.get('SLURM_RESTART_COUNT', '0')}"


def make_or_merge(runs: Path, key: str, host: str, make: Callable[[], RunLayout]) -> RunLayout:
    """The directory to record into: a new run's by ``make``, or one inside the run of ``key``.

    A run that is over takes no more recorders, nor does one whose recorder has been silent for
    minutes: the same key may be used again, after a host has died, too.

    Raises:
        OSError: no directory can be made.
    """
    runs.mkdir(mode=PRIVATE_MODE, parents=True, exist_ok=True)
    name = hashlib.sha256(key.encode()).hexdigest()[:16]
    number = 0
    while True:
        claim = runs / f".join-{name}-{number}"
        try:
            file = os.open(claim, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except FileExistsError:
            root = _root_of(claim)
            if root is not None and not _is_over(root):
                return _part(root, host)
            number += 1
            continue
        with os.fdopen(file, "w") as claimed:
            layout = make()
            claimed.write(layout.root.name)
        return layout


def _root_of(claim: Path) -> Path | None:
    """The run that the one who made ``claim`` has made."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        run_id = claim.read_text()
        if run_id:
            return claim.parent / Path(run_id).name
        time.sleep(0.02)
    return None


def _is_over(root: Path) -> bool:
    layout = RunLayout(root)
    silent = silent_seconds(layout.heartbeat, time.time_ns())
    if silent is not None and silent > SILENT_SECONDS:
        return True
    try:
        return read_manifest(layout.manifest).status.is_over
    except ManifestError:
        return True


def _part(root: Path, host: str) -> RunLayout:
    hosts = RunLayout(root).hosts
    hosts.mkdir(PRIVATE_MODE, exist_ok=True)
    layout = RunLayout(hosts / f"{host}-{os.getpid()}-{secrets.token_hex(2)}")
    layout.root.mkdir(PRIVATE_MODE)
    layout.control.mkdir(PRIVATE_MODE)
    return layout


def _number(word: str | None) -> int:
    return int(word) if word and word.isdecimal() else 1
