"""The manifest of a run: command, host, outcome, and whether its recorder is alive."""

from __future__ import annotations

import enum
import json
import math
import os
import socket
import threading
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
import psutil

from perftui.run.files import (
    UnreadableError,
    decode_versioned,
    open_regular,
    read_regular,
    replace_file,
)
from perftui.run.layout import RunLayout

SCHEMA = 1

OTHER_PROGRAMS = "other_programs"
"""Entry of ``profile``: by host, for how many ``seconds`` programs beside the run were watched, and
the mean ``cores`` of the busiest and their ``pids``, by name."""

GPU_DEVICES = "gpu_devices"
"""Entry of ``profile``: by host the sampled GPUs, in the driver's order, each with the ``prefix``
of its columns, ``name`` and ``uuid``."""

GPU_PROCESSES = "gpu_processes"
"""Entry of ``profile``: by host, by prefix of a GPU's columns, the processes beside the run with
memory on it when that last changed, the largest first: ``pid``, ``program``, ``user`` and
``memory`` in bytes, each of the last three None if unknown."""

NOT_SAMPLED = "not_sampled"
"""Entry of ``profile``: by host, reasons why a metric, a group of them or all of a GPU is not
sampled, by name."""

DATA_DISK = "data_disk"
"""Entry of ``profile``: by host, the ``disk`` that holds the data set (None if the kernel counts
none), its mount point (``place``), its ``file_system``, and how it was ``found_by``."""

BY_HOST = (OTHER_PROGRAMS, GPU_DEVICES, GPU_PROCESSES, NOT_SAMPLED, DATA_DISK)
"""Entries of ``profile`` to which each host of a run adds its own."""


class Status(str, enum.Enum):
    """The state of a run."""

    STARTING = "starting"
    RUNNING = "running"
    EXITED = "exited"
    """The script ended by itself; ``exit_code`` says how."""
    KILLED = "killed"
    """A signal ended the script; ``exit_code`` is 128 plus its number."""
    LOST = "lost"
    """The recorder died before the script ended. Never written: readers conclude it."""

    @property
    def is_over(self) -> bool:
        """Whether nothing more will be written."""
        return self in (Status.EXITED, Status.KILLED, Status.LOST)


class StopReason(str, enum.Enum):
    """Why somebody asked perftui to stop a training."""

    USER = "user"
    """On leaving the app, or to end a command."""
    TRIAL = "trial"
    """A trial runs the training itself."""
    TUNING = "tuning"
    RERUN = "rerun"
    """It is run again with a change."""

    @property
    def text(self) -> str:
        """The end of a run that was stopped for this reason, in words."""
        return _STOPPED[self]


_STOPPED = {
    StopReason.USER: "stopped by you",
    StopReason.TRIAL: "stopped for a trial",
    StopReason.TUNING: "stopped for a tuning",
    StopReason.RERUN: "stopped to run again",
}


@dataclass(frozen=True)
class Blocks:
    """Steps of training in which a switch is changed and in which it is not, in turn: one way,
    then two blocks the other way, then two again, and so on, as ABBA."""

    first: int
    """Steps before the first block, in the way that it begins with."""
    steps: int
    """Steps of each block."""
    begins_changed: bool = False


@dataclass(frozen=True)
class Override:
    """A change made at run time, for one run, without touching the source.

    ``target`` is ``"DataLoader"`` or ``"optimizer"``, any of ``torch.optim`` (``arguments`` are
    constructor arguments, applied at the call site ``file:line`` where given, else at every call),
    ``"environment"`` (``arguments`` are variables set for the script), ``"switch"`` (switches of
    torch), or ``"source"``: the copy at ``arguments["source"]`` is run in place of ``file``, and
    the word of the command at ``arguments["word"]`` names its script, ``arguments["script"]``."""

    target: str
    arguments: dict[str, Any]
    file: str | None = None
    line: int | None = None
    fix: str | None = None
    """Identifier of the fix that this tries."""
    blocks: Blocks | None = None
    """Steps in which a switch is changed or not, to compare them."""


@dataclass(frozen=True)
class Expected:
    """Arguments that a fix wrote into the source, at the call of ``target`` in ``file:line``.

    ``target`` is that of an ``Override``, or the name of an optimizer's class."""

    target: str
    arguments: dict[str, Any]
    file: str | None = None
    line: int | None = None


@dataclass(frozen=True)
class Manifest:
    """Contents of ``run.json``. Never an environment dump, never a secret."""

    run_id: str
    command: tuple[str, ...]
    """The full command of the training process, its interpreter first."""
    cwd: str
    started_ns: int
    """Wall-clock nanoseconds since the epoch, as are all times in a run directory."""
    host: str
    schema: int = SCHEMA
    name: str | None = None
    """The user's name for this run."""
    interpreter: str = ""
    python_version: str | None = None
    torch_version: str | None = None
    cpu_count: int = 0
    """Cores the training may use."""
    cpu_name: str = ""
    """The model of the processor, empty where the system does not name it."""
    cpu_governor: str = ""
    """The kernel's policy for its clocks, empty where the system names none."""
    memory_bytes: int = 0
    gpus: tuple[str, ...] = ()
    gpu_driver: str | None = None
    """Version of NVIDIA's driver; None if it is not loaded."""
    git_commit: str | None = None
    git_dirty: bool | None = None
    overrides: tuple[Override, ...] = ()
    patched: tuple[Expected, ...] = ()
    """Arguments that fixes wrote into the source for this run."""
    parent: str | None = None
    """The run this one repeats with a change."""
    profile: dict[str, Any] = field(default_factory=dict)
    """Options of the profiler in force (windows, NVTX), for the reader's eyes."""
    status: Status = Status.STARTING
    pid: int | None = None
    recorder_pid: int | None = None
    recorder_created: float | None = None
    """Start of that process, seconds since the epoch: its number may be reused."""
    ended_ns: int | None = None
    exit_code: int | None = None
    stop_reason: StopReason | None = None
    """Why perftui was asked to stop it; None if it was not."""
    message: str | None = None
    """Why the script could not be started; empty if it was."""
    notes: tuple[str, ...] = ()
    """Notes for readers of the run, such as why it records nothing."""
    perftui_version: str = ""

    @property
    def state(self) -> str:
        """The status in a word or two: ``running``, ``exited 0``, ``stopped``."""
        if self.stopped:
            return "stopped"
        code = "" if self.exit_code is None else f" {self.exit_code}"
        return f"{self.status.value}{code}"

    @property
    def stopped(self) -> str:
        """Why perftui was asked to stop it, ``stopped for a trial``; empty if it was not."""
        ended = self.status in (Status.EXITED, Status.KILLED) and self.exit_code != 0
        return self.stop_reason.text if ended and self.stop_reason is not None else ""

    @property
    def script(self) -> str:
        """The part of the command a person recognises: the script, or ``-m module``.

        Launchers and interpreters come before it with options of their own: it is the first word
        that ends in ``.py``, or the first ``-m``. Without either it is the word after the command,
        or the command itself if that word is an option. Empty if a damaged manifest has no command.
        """
        if not self.command:
            return ""
        rest = self.command[1:]
        for number, word in enumerate(rest):
            if word == "-m" and number + 1 < len(rest):
                return f"-m {rest[number + 1]}"
            if word.endswith(".py"):
                return Path(word).name
        program = rest[0] if rest and not rest[0].startswith("-") else self.command[0]
        return Path(program).name


def data_place(manifest: Manifest) -> str | None:
    """Mount point of the data set's file system on the run's host; None if unknown."""
    by_host = manifest.profile.get(DATA_DISK)
    disk = by_host.get(manifest.host) if isinstance(by_host, dict) else None
    place = disk.get("place") if isinstance(disk, dict) else None
    return place if isinstance(place, str) else None


class ManifestError(ValueError):
    """The file is not a manifest this version can read; the message says why."""


def write_manifest(path: Path, manifest: Manifest) -> None:
    """Replace the manifest at ``path`` atomically."""
    replace_file(path, _encode(manifest))


def overwrite_manifest(path: Path, manifest: Manifest) -> None:
    """Write over the manifest at ``path``, for a disk too full to replace it.

    A file that keeps its number of blocks needs no space. A concurrent reader may see a damaged
    manifest. Raises OSError if there is no manifest, or it does not fit."""
    content = _encode(manifest)
    with path.open("r+b", buffering=0) as file:
        file.write(content)
        file.truncate(len(content))


def _encode(manifest: Manifest) -> bytes:
    try:
        return msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n"
    except UnicodeEncodeError:
        # A word of the command or a directory that is not UTF-8: Python has halves of surrogate
        # pairs for its bytes, which only the standard library writes, as escapes.
        return json.dumps(msgspec.to_builtins(manifest), indent=2).encode() + b"\n"


def read_manifest(path: Path) -> Manifest:
    """Read the manifest at ``path``; unknown fields of a newer version are ignored. Raises
    ManifestError if it is missing, damaged, or of a schema newer than this version's."""
    try:
        return decode_versioned(read_regular(path), Manifest, SCHEMA, "a run manifest")
    except OSError as error:
        raise ManifestError(f"{path}: {error.strerror}") from error
    except UnreadableError as error:
        raise ManifestError(f"{path}: {error}") from error


LONGEST = 80
"""Letters of a name: it is shown in a column."""


def rename_run(root: Path, name: str) -> None:
    """Name the run at ``root``; an empty name removes the one given before. Raises OSError if it
    cannot be written; the old name is then kept."""
    path = RunLayout(root).name
    text = " ".join(name.split())[:LONGEST]
    if text:
        replace_file(path, text.encode() + b"\n")
    else:
        path.unlink(missing_ok=True)


def named(manifest: Manifest, root: Path) -> Manifest:
    """``manifest`` with the user's name for the run at ``root``, if there is one."""
    try:
        with open_regular(RunLayout(root).name) as file:
            text = file.read(4 * LONGEST)
    except OSError:
        return manifest
    name = " ".join(text.decode("utf-8", "replace").split())[:LONGEST]
    return replace(manifest, name=name) if name else manifest


CLOCK_TOLERANCE = 60.0
"""Seconds by which the start of one process may seem to move when the clock is set."""


def recorded_by_this_process(manifest: Manifest) -> Manifest:
    """``manifest`` with this process as its recorder."""
    created = psutil.Process().create_time()
    return replace(manifest, recorder_pid=os.getpid(), recorder_created=created)


def with_liveness(manifest: Manifest) -> Manifest:
    """``manifest``, lost if its recorder died without writing an end; only its own host knows."""
    if manifest.status.is_over or manifest.host != socket.gethostname():
        return manifest
    pid, created = manifest.recorder_pid, manifest.recorder_created
    before = math.inf if created is None else created + CLOCK_TOLERANCE
    if pid is None or is_alive(pid, before):
        return manifest
    return replace(manifest, status=Status.LOST)


def is_alive(pid: int, begun_before: float = math.inf) -> bool:
    """Whether a process of this host has the number ``pid`` and is not a zombie.

    One that was not ``begun_before`` that time (seconds since the epoch) is another process with
    the same number."""
    try:
        process = psutil.Process(pid)
        is_zombie = process.status() == psutil.STATUS_ZOMBIE
        return not is_zombie and bool(process.create_time() < begun_before)
    except psutil.NoSuchProcess:
        return False
    except psutil.AccessDenied:
        return True


POLL_SECONDS = 0.1


def run_state(root: Path) -> Manifest:
    """The manifest of the run at ``root``, ``LOST`` if its recorder is gone. Raises ManifestError
    if there is no readable manifest."""
    path = RunLayout(root).manifest
    manifest = with_liveness(read_manifest(path))
    # It may have ended since it was read.
    return with_liveness(read_manifest(path)) if manifest.status is Status.LOST else manifest


def wait_until_over(root: Path, seconds: float, give_up: threading.Event | None = None) -> Manifest:
    """The manifest of the run at ``root`` once it is over.

    After ``seconds``, or once ``give_up`` is set, the current one. Raises ManifestError if there is
    no readable manifest."""
    give_up = give_up or threading.Event()
    deadline = time.monotonic() + seconds
    while True:
        manifest = run_state(root)
        if manifest.status.is_over or time.monotonic() >= deadline or give_up.is_set():
            return manifest
        give_up.wait(POLL_SECONDS)
