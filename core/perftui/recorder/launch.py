"""Starts a recorder, which starts the training; both outlive whoever asked.

Several recorders may make one run together: on several hosts, or on one, over a shared directory.
The first of them makes the run directory; each of the others records into a directory of its own
inside it, ``hosts/<host>-<number>``, so that nobody writes into a file of somebody else's. Who is
first is settled by a file that only one can make, on a network disk, too."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import psutil

import perftui
from perftui.recorder.environment import reap, start_in_run
from perftui.run.columns import STACK_RATE_KEY
from perftui.run.control import SILENT_SECONDS, STOP, request, silent_seconds
from perftui.run.layout import PRIVATE_MODE, RunLayout, create_run_directory
from perftui.run.manifest import (
    Expected,
    Manifest,
    ManifestError,
    Override,
    Status,
    StopReason,
    read_manifest,
    wait_until_over,
    write_manifest,
)
from perftui.run.origin import sign_run
from perftui.telemetry.cpu import cpu_governor, cpu_name
from perftui.telemetry.gpu.nvml_library import driver_version
from perftui.telemetry.limits import usable_cores, usable_memory
from perftui.wire.spool import AgentOptions

JOIN_VARIABLE = "PERFTUI_JOIN"
"""Any word that is the same for all recorders of a run: the name of the job, say."""

CLAIM_PATIENCE = 5.0
"""Seconds to wait for another recorder's directory: that takes milliseconds, or it died."""


def merge_key(environment: Mapping[str, str], command: Sequence[str]) -> str | None:
    """What all recorders of one run share; None where there is only one recorder.

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

    A run takes no more recorders once it has ended, or once its recorder has been silent for
    minutes: the same key may be used again, even after a host has died.

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
    """The run directory that the owner of ``claim`` has made."""
    until = time.monotonic() + CLAIM_PATIENCE
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


PATIENCE = 30.0
"""Seconds a recorder may take to start: it imports numpy, perhaps from a cold network disk."""


@dataclass(frozen=True)
class Launch:
    """What to run, where to record it, and how to profile it."""

    command: tuple[str, ...]
    """The full command, its interpreter first."""
    cwd: Path
    runs: Path
    """Directory of runs; made if missing."""
    overrides: tuple[Override, ...] = ()
    expected: tuple[Expected, ...] = ()
    """Arguments that a fix wrote into the source before this run."""
    parent: str | None = None
    """Id of the run that this one repeats with a change."""
    name: str | None = None
    options: AgentOptions = field(default_factory=AgentOptions)
    rows: int = 24
    columns: int = 80
    joins: bool = False
    """Whether recorders of the same job (see ``merge_key``) make one run together."""
    stack_samples_per_second: int = 0
    """Stack samples of the training's main thread, where py-spy is installed; 0 for none."""


def start(launch: Launch) -> Path:
    """Start ``launch`` under a recorder of its own and return the run directory.

    Returns once the training runs or could not be started; the manifest says which, and its
    ``message`` why.

    Raises:
        OSError: the run directory cannot be made.
    """
    layout = prepare(launch)
    size = (str(launch.rows), str(launch.columns))
    # The training inherits the user's descriptors through the recorder.
    recorder = start_in_run(layout, "perftui.recorder.supervise", *size, close_fds=False)
    try:
        _wait(layout, recorder)
    except KeyboardInterrupt:
        # The caller does not know the run yet, and could not stop it.
        request(layout, STOP, reason=StopReason.USER)
        wait_until_over(layout.root, PATIENCE)
        raise
    finally:
        reap(recorder)
    return layout.root


def prepare(launch: Launch) -> RunLayout:
    """Make the run directory of ``launch`` with its first manifest, or a part of a run to join.

    Raises:
        OSError: it cannot be made.
    """
    started_ns = time.time_ns()
    manifest = Manifest(
        run_id="",
        command=launch.command,
        cwd=str(launch.cwd.resolve()),
        started_ns=started_ns,
        host=socket.gethostname(),
        name=launch.name,
        interpreter=launch.command[0],
        cpu_count=usable_cores(),
        cpu_name=cpu_name(),
        cpu_governor=cpu_governor(),
        memory_bytes=usable_memory(),
        gpu_driver=driver_version(),
        overrides=launch.overrides,
        expected=launch.expected,
        parent=launch.parent,
        profile={**asdict(launch.options), STACK_RATE_KEY: launch.stack_samples_per_second},
        perftui_version=perftui.__version__,
    )
    run_id = new_run_id(manifest.script, started_ns)

    def make() -> RunLayout:
        layout = create_run_directory(launch.runs, run_id)
        prepared = replace(manifest, run_id=run_id)
        sign_run(layout, prepared)
        write_manifest(layout.manifest, prepared)
        return layout

    key = merge_key(os.environ, launch.command) if launch.joins else None
    if key is None:
        return make()
    layout = make_or_merge(launch.runs, key, manifest.host, make)
    if layout.root.name != run_id:
        write_manifest(layout.manifest, replace(manifest, run_id=layout.root.name))
    return layout


def new_run_id(script: str, started_ns: int) -> str:
    """An id that sorts by local time of the start, such as ``20261121-143015-train-7f3a``."""
    stamp = time.strftime("%Y%m%d-%H%M%S", time.localtime(started_ns // 1_000_000_000))
    stem = Path(script.removeprefix("-m ")).name.removesuffix(".py")
    slug = re.sub(r"[^a-z0-9]+", "-", stem.lower()).strip("-")[:24] or "run"
    return f"{stamp}-{slug}-{secrets.token_hex(2)}"


def _wait(layout: RunLayout, recorder: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + PATIENCE
    while read_manifest(layout.manifest).status is Status.STARTING:
        ended = recorder.poll() is not None
        if ended or (time.monotonic() > until and _end(layout, recorder)):
            manifest = read_manifest(layout.manifest)
            if manifest.status is Status.STARTING:
                reason = f"the recorder {'ended' if ended else 'did not answer'} before it started"
                message = f"{reason} the training, see {layout.recorder_log}"
                now = time.time_ns()
                failed = replace(manifest, status=Status.EXITED, ended_ns=now, message=message)
                write_manifest(layout.manifest, failed)
            break
        time.sleep(0.01)


def _end(layout: RunLayout, recorder: subprocess.Popen[bytes]) -> bool:
    """Kill a recorder that has not started the training, with everything below it, so that it never
    will; if it has started it meanwhile, leave it. Returns whether it was killed."""
    # It is stopped first, so that its state cannot change any more.
    recorder.send_signal(signal.SIGSTOP)
    if read_manifest(layout.manifest).status is not Status.STARTING:
        recorder.send_signal(signal.SIGCONT)
        return False
    with suppress(psutil.Error):
        for process in psutil.Process(recorder.pid).children(recursive=True):
            with suppress(psutil.Error):
                process.kill()
    recorder.kill()
    return True
