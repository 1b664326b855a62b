"""Starts a recorder, which starts the training in the user's environment with our additions; both
outlive whoever asked.

Several recorders may make one run together: on several hosts, or on one, over a shared directory.
The first of them makes the run directory; each of the others records into a directory of its own
inside it, ``hosts/<host>-<number>``, so that nobody writes into a file of somebody else's. Who is
first is settled by a file that only one can make, on a network disk, too."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
import psutil

import perftui
from perftui.run.columns import STACK_RATE_KEY
from perftui.run.control import SILENT_SECONDS, STOP, request, silent_seconds
from perftui.run.files import read_regular, replace_file
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
from perftui.wire.spool import OPTIONS_VARIABLE, OVERRIDES_VARIABLE, SPOOL_VARIABLE, AgentOptions

INJECT = Path(perftui.__file__).parent / "agent" / "inject"
"""Holds only the ``sitecustomize`` that loads the agent into every Python of the run."""

LINKED = "inject"
"""Directory in the spool with a link to that file. Python writes the compiled file beside the link,
even where perftui is installed read-only or without compiled files."""

SOURCE = "source"
"""Target of the overrides that run a patched copy in place of a file."""

PATCHED_MAIN = Path(perftui.__file__).parent / "agent" / "startup" / "patched_main.py"
"""Script that runs in place of the training's, with the patched copy."""


def training_environment(
    base: Mapping[str, str], spool: Path, options: AgentOptions, overrides: Sequence[Override] = ()
) -> dict[str, str]:
    """``base`` with the agent first on PYTHONPATH, its own variables, and the overrides.

    An override of a variable with None removes it. Raises OSError if the spool cannot be written.
    """
    environment = dict(base)
    path = environment.get("PYTHONPATH")
    # An empty part of PYTHONPATH would mean the current directory.
    environment["PYTHONPATH"] = os.pathsep.join([_link(spool), *([path] if path else [])])
    environment[SPOOL_VARIABLE] = str(spool)
    environment[OPTIONS_VARIABLE] = msgspec.json.encode(options).decode()
    # All overrides: the agent notes the outcome of each.
    environment[OVERRIDES_VARIABLE] = msgspec.json.encode(overrides).decode()
    for override in overrides:
        for name, value in override.arguments.items() if override.target == "environment" else ():
            if value is None:
                environment.pop(name, None)
            else:
                environment[name] = str(value)
    return environment


def patched_command(command: Sequence[str], overrides: Sequence[Override]) -> tuple[str, ...]:
    """``command`` with its script replaced by the runner of the patched copy, if there is one."""
    words = {override.arguments["word"] for override in overrides if override.target == SOURCE}
    return tuple(str(PATCHED_MAIN) if at in words else word for at, word in enumerate(command))


def _link(spool: Path) -> str:
    directory = spool / LINKED
    directory.mkdir(exist_ok=True)
    for file in INJECT.glob("*.py"):
        link = directory / file.name
        if not link.is_symlink():
            link.symlink_to(file)
    return str(directory)


def our_module(name: str) -> list[str]:
    """Our interpreter running ``name``, without imports from the current directory or, where
    perftui is installed for us, from the training's PYTHONPATH."""
    safe = ["-P"] if sys.version_info >= (3, 11) else []
    return [sys.executable, *safe, "-m", "perftui.own_path", name]


def start_in_run(
    layout: RunLayout, name: str, *words: str, close_fds: bool
) -> subprocess.Popen[bytes]:
    """Start our module ``name`` for the run, in a session of its own; its output is logged there.
    Raises OSError if no process can be started, or the run directory is gone."""
    layout.recorder_log.touch(0o600)
    with layout.recorder_log.open("ab") as log:
        return subprocess.Popen(
            [*our_module(name), str(layout.root.resolve()), *words],
            cwd=layout.root,
            # Without changes by C libraries behind Python's back: readline sets LINES and COLUMNS.
            env=dict(os.environ),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            close_fds=close_fds,
        )


def start_diagnosis(layout: RunLayout) -> None:
    """Start a process that writes the diagnosis of an ended run to ``findings.json``, or asks a run
    that goes on for what its diagnosis lacks.

    The diagnosis stands above the recorder and needs more memory; the recorder stays small while
    the training lives, and nobody waits for the diagnosis at its end. Raises OSError if no process
    can be started, or the run directory is gone."""
    reap(start_in_run(layout, "perftui.report", close_fds=True))


def reap(process: subprocess.Popen[bytes]) -> None:
    """Wait for ``process`` in a thread: otherwise it would stay a zombie, which looks alive, and
    Python would warn of it on stderr."""
    threading.Thread(target=process.wait, name="reap", daemon=True).start()


TIMEOUT = 5.0
"""Seconds for each git call; a status of a huge tree on a network disk may not answer."""

POLL_SECONDS = 0.05
"""Seconds between two checks whether the answer is still needed."""


def git_state(cwd: Path, cancelled: threading.Event) -> tuple[str | None, bool | None]:
    """The commit checked out around ``cwd``, and whether tracked files differ from it.

    The commit is None outside a repository, the difference where git did not answer. Setting
    ``cancelled`` ends git, and what it has not answered yet stays None.
    """
    git = shutil.which("git")
    commit = _ask(git, cwd, cancelled, "rev-parse", "HEAD") if git else None
    if git is None or not commit:
        return None, None
    changes = _ask(git, cwd, cancelled, "status", "--porcelain", "--untracked-files=no")
    return commit, None if changes is None else bool(changes)


def _ask(git: str, cwd: Path, cancelled: threading.Event, *arguments: str) -> str | None:
    until = time.monotonic() + TIMEOUT
    try:
        process = subprocess.Popen(
            (git, "-C", str(cwd), *arguments),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            # Otherwise status takes the index lock, which a commit of the user may need.
            env={**os.environ, "GIT_OPTIONAL_LOCKS": "0"},
        )
    except OSError:
        return None
    while (answer := _answer(process)) is None:
        if cancelled.is_set() or time.monotonic() > until:
            process.kill()
    return answer.decode(errors="replace").strip() if process.returncode == 0 else None


def _answer(process: subprocess.Popen[bytes]) -> bytes | None:
    try:
        return process.communicate(timeout=POLL_SECONDS)[0]
    except subprocess.TimeoutExpired:
        return None


def options_of(profile: Mapping[str, Any]) -> AgentOptions:
    """The options among the ``profile`` facts of a manifest; missing ones have their defaults.

    All have their defaults where another version wrote them in another form.
    """
    try:
        return msgspec.convert(profile, AgentOptions)
    except msgspec.ValidationError:
        return AgentOptions()


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
    minutes: the same key may be used again, even after a host has died. Raises OSError if no
    directory can be made."""
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
    ``message`` why. Raises OSError if the run directory cannot be made."""
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
    Raises OSError if it cannot be made."""
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
        patched=launch.expected,
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
        _keep_sources(launch, layout.sources)
        return layout

    key = merge_key(os.environ, launch.command) if launch.joins else None
    if key is None:
        return make()
    layout = make_or_merge(launch.runs, key, manifest.host, make)
    if layout.root.name != run_id:
        write_manifest(layout.manifest, replace(manifest, run_id=layout.root.name))
    return layout


MOST_SOURCES, LARGEST_SOURCE = 32, 1 << 18
"""Most files that are kept of the source, and the most bytes of each: 32 of 12 KB took 14 to 110 ms
on a busy disk, before the training starts."""


def _keep_sources(launch: Launch, directory: Path) -> None:
    """Copy the script and the modules beside it, to hold a later edit against them; what cannot be
    copied is left out."""
    word = next((word for word in launch.command[1:] if word.endswith(".py")), None)
    if word is None:
        return
    script = launch.cwd / word
    beside = [path for path in sorted(script.parent.glob("*.py")) if path.name != script.name]
    with suppress(OSError):
        directory.mkdir(mode=PRIVATE_MODE)
    for path in (script, *beside[: MOST_SOURCES - 1]):
        with suppress(OSError):
            replace_file(directory / path.name, read_regular(path, LARGEST_SOURCE))


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
