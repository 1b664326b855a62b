"""Starts a training below Nsight Systems, and follows the training rather than nsys."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import msgspec
import psutil

from perftui.recorder import under_nsys
from perftui.recorder.training import Command, StartError, Training, no_start
from perftui.run.layout import PRIVATE_MODE, RunLayout

OLDEST = 2021
"""The oldest supported year of nsys."""

ANSWER_SECONDS = 60.0
"""nsys may take long for its first answer, from a cold disk."""

REPORTS = "steps"
"""Prefix of the reports' names: nsys appends a number for each range, and a suffix."""


class NsysError(StartError):
    """nsys cannot be used; the message says why and what to do."""


class _CommandStatus(msgspec.Struct):
    """Status written by ``under_nsys``: the command's process, or how it ended."""

    pid: int = 0
    returncode: int | None = None
    error: str = ""


def find_nsys() -> tuple[str, str, tuple[str, ...]]:
    """Path and version of the nsys on ``PATH``, and the options of ``nsys profile`` for recording
    ranges of steps, without the output's name. Raises NsysError if there is none, or it is too old
    for that."""
    path = shutil.which("nsys")
    if path is None:
        raise NsysError(
            "nsys not found; install Nsight Systems (part of the CUDA toolkit) and put it on "
            "PATH, or drop --nsys: torch's own profiler records kernels, too"
        )
    version = _ask(path, "--version")
    match = re.search(r"(\d{4})\.\d+[.\w-]*", version)
    if match is None:
        raise NsysError(f"{path} --version says {version.strip()[:80]!r}, which is no nsys version")
    if int(match[1]) < OLDEST:
        raise NsysError(f"nsys {match[0]} is too old for --nsys; {OLDEST} or later is needed")
    return path, match[0], _options(match[0], _ask(path, "profile", "--help"))


def _ask(path: str, *words: str) -> str:
    try:
        done = subprocess.run(
            [path, *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=ANSWER_SECONDS,
            check=False,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise NsysError(f"{path} cannot be run: {error}") from error
    return (done.stdout + done.stderr).decode(errors="replace")


def _options(version: str, usage: str) -> tuple[str, ...]:
    """Options for nsys, by the ``usage`` it prints: their names have changed over the years. Raises
    NsysError if it cannot end a range without ending the script."""
    if "--capture-range-end" not in usage:
        raise NsysError(
            f"nsys {version} cannot record some steps and let the script continue; a later version "
            "is needed"
        )
    end = "repeat" if "repeat" in usage else "stop"
    options = {
        "--trace": "cuda,nvtx,osrt",
        # CPU sampling needs privileges and time; py-spy samples the main thread.
        "--sample": "none",
        "--cpuctxsw": "none",
        "--capture-range": "cudaProfilerApi",
        "--capture-range-end": end,
        # The script alone decides when it ends.
        "--kill": "none",
        "--wait": "primary",
        "--force-overwrite": "true",
    }
    return tuple(f"{name}={value}" for name, value in options.items() if name in usage)


def below_nsys(command: Command, layout: RunLayout, spool: Path) -> Command:
    """``command`` run by nsys, which writes its reports and its messages into ``layout``. Raises
    StartError if nsys cannot be used."""
    path, _, options = find_nsys()
    place = spool / "nsys"
    with no_start("there is no directory for the nsys reports"):
        place.mkdir(mode=PRIVATE_MODE, exist_ok=True)
        layout.nsys.mkdir(mode=PRIVATE_MODE, exist_ok=True)
        log = layout.nsys / "nsys.log"
        log.touch(0o600)
    ours = (sys.executable, "-I", "-S", str(Path(under_nsys.__file__)))
    output = f"--output={layout.nsys / REPORTS}"
    below = (*ours, "run", str(place), *command.arguments)
    around = (*ours, "lead", str(place), str(log))
    return replace(
        command,
        arguments=(*around, path, "profile", *options, output, *below),
        follow=lambda process, shares_group: BelowNsys(process, shares_group, place, log),
    )


class BelowNsys(Training):
    """A command below nsys: signals go to the command, and its end is what counts.

    nsys ends after it, once its last report is written.
    """

    def __init__(
        self, process: subprocess.Popen[bytes], shares_group: bool, place: Path, log: Path
    ) -> None:
        super().__init__(process, shares_group)
        self._place = place
        self._log = log

    def poll(self) -> int | None:
        """How the command ended, once nsys has, too."""
        of_nsys = super().poll()
        if of_nsys is None:
            return None
        ended = self._read(under_nsys.ENDED)
        if ended is not None:
            return ended.returncode if ended.returncode is not None else 2
        return of_nsys if self._script() is None else None

    @property
    def failure(self) -> str:
        """Why nsys, or our process below it, has not started the command."""
        ended = self._read(under_nsys.ENDED)
        if ended is not None:
            return ended.error
        if super().poll() is None or self._read(under_nsys.STARTED) is not None:
            return ""
        return f"nsys ended before it started the script; see {self._log}"

    def signal(self, number: int) -> None:
        """Send ``number`` to the command, or to nsys before the command has started."""
        script = self._script()
        if script is None:
            super().signal(number)
            return
        with suppress(psutil.Error):
            script.send_signal(number)

    def signal_group(self, number: int) -> None:
        """Send ``number`` to the command and its process group."""
        script = self._script()
        if script is None:
            super().signal_group(number)
            return
        with suppress(psutil.Error, OSError):
            group = os.getpgid(script.pid)
            for process in (script, *script.children(recursive=True)):
                with suppress(psutil.Error, OSError):
                    if os.getpgid(process.pid) == group:
                        process.send_signal(number)

    def kill_all(self) -> None:
        """Kill the command, nsys, and all their descendants."""
        script = self._script()
        if script is not None:
            with suppress(psutil.Error):
                for process in (*script.children(recursive=True), script):
                    with suppress(psutil.Error):
                        process.send_signal(signal.SIGKILL)
        super().kill_all()

    def _script(self) -> psutil.Process | None:
        """The command's process while it runs."""
        started = self._read(under_nsys.STARTED)
        if started is None or self._read(under_nsys.ENDED) is not None:
            return None
        try:
            process = psutil.Process(started.pid)
            return None if process.status() == psutil.STATUS_ZOMBIE else process
        except psutil.Error:
            return None

    def _read(self, name: str) -> _CommandStatus | None:
        try:
            return msgspec.json.decode((self._place / name).read_bytes(), type=_CommandStatus)
        except (OSError, msgspec.MsgspecError):
            return None
