"""py-spy, which reads the stacks of a process from outside: one run of it, and who may."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

GRACE = 10.0
"""Seconds beyond what was asked for after which it hangs: samples come at random moments."""

REFUSED = "Permission Denied"
"""How its message begins where the system does not let it read a process."""

LONGEST = 300
"""Characters of its message that are kept."""

_BEGUN = re.compile(
    rb"\[(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?Z\s+INFO\s+py_spy::config\]"
)
"""py-spy prints its configuration right before its clock begins (``record_samples`` in its
``main.rs``): that anchors its times to ours."""


def find_pyspy() -> str | None:
    """The command: the one installed beside us, else that on the path."""
    beside = Path(sys.executable).parent / "py-spy"
    return str(beside) if os.access(beside, os.X_OK) else shutil.which("py-spy")


@dataclass(frozen=True)
class Outcome:
    """What a run of py-spy left; ``content`` is None where it failed, ``message`` is why."""

    begun_ns: int
    content: bytes | None
    message: str


class PySpy:
    """Samples ``pid`` for ``seconds``, ``rate`` times in each, and writes to ``output``.

    It never stops the process (``--nonblocking``), and samples while it waits, too (``--idle``):
    where a main thread waits is what is asked. With ``of_lock`` it samples only the thread that
    holds Python's lock. Its own session keeps the terminal's Ctrl-C from it. It ends by itself even
    where we are killed.

    Raises:
        OSError: it cannot be started.
    """

    def __init__(
        self,
        command: str,
        pid: int,
        rate: int,
        seconds: int,
        output: Path,
        *,
        of_lock: bool = False,
    ) -> None:
        self._output = output
        arguments = [
            *(
                "record",
                "--nonblocking",
                "--gil" if of_lock else "--idle",
                "--format",
                "chrometrace",
            ),
            *("--rate", str(rate), "--duration", str(seconds)),
            *("--output", str(output), "--pid", str(pid)),
        ]
        self._before_ns = time.time_ns()
        self._process = subprocess.Popen(
            [command, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={**os.environ, "RUST_LOG": "py_spy::config=info", "RUST_LOG_STYLE": "never"},
            start_new_session=True,
        )
        self._after_ns = time.time_ns()
        self._due = time.monotonic() + seconds + GRACE

    @property
    def is_running(self) -> bool:
        """Whether py-spy still samples, and should not long have ended."""
        return self._process.poll() is None and time.monotonic() <= self._due

    def interrupt(self) -> None:
        """Have py-spy write what it has; it does so at its next sample."""
        self._process.send_signal(signal.SIGINT)

    def collect(self, patience: float = 0.0) -> Outcome:
        """What py-spy left; it is killed where it does not end within ``patience`` seconds."""
        try:
            errors = self._process.communicate(timeout=patience or None)[1]
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
            self._remove()
            return self._outcome(None, "it did not exit, and was killed")
        content = self._read() if self._process.returncode == 0 else None
        return self._outcome(content, _last_line(errors), _begun(errors))

    def _outcome(self, content: bytes | None, message: str, begun_ns: int | None = None) -> Outcome:
        known = begun_ns is not None and self._before_ns <= begun_ns <= time.time_ns()
        begun = begun_ns if known and begun_ns is not None else self._after_ns
        return Outcome(begun, content, message)

    def _read(self) -> bytes | None:
        try:
            return self._output.read_bytes()
        except OSError:
            # Its own message names why it could not write.
            return None
        finally:
            self._remove()

    def _remove(self) -> None:
        self._output.unlink(missing_ok=True)


def _begun(errors: bytes) -> int | None:
    found = _BEGUN.search(errors)
    if found is None:
        return None
    second = datetime.fromisoformat(found[1].decode()).replace(tzinfo=timezone.utc)
    fraction = (found[2] or b"").decode().ljust(9, "0")
    return int(second.timestamp()) * 1_000_000_000 + int(fraction)


def _last_line(errors: bytes) -> str:
    """py-spy's message in ``errors``, without the lines of its log and the way it came to it."""
    lines = [line.strip() for line in errors.decode("utf-8", "replace").splitlines()]
    message = [line for line in lines if line.startswith(("Error:", REFUSED))]
    causes = [line[3:] for line in lines if line.startswith("0: ") and " (os error" in line]
    return " ".join([*message, *causes])[:LONGEST]


SCOPE = Path("/proc/sys/kernel/yama/ptrace_scope")
"""Linux' Yama, as Ubuntu sets it up: 1 lets a process be read by its ancestors alone, and by the
descendants of a process that it declares (``PR_SET_PTRACER``). py-spy is neither of itself. From 2
on only administrators may, whatever is declared."""

BY_DECLARATION = "1"


def tracer(samples_per_second: int) -> int:
    """The process to declare, which starts py-spy: this one; 0 where that changes nothing."""
    if not samples_per_second or _scope() != BY_DECLARATION or find_pyspy() is None:
        return 0
    return os.getpid()


def _scope() -> str:
    try:
        return SCOPE.read_text().strip()
    except OSError:
        # A kernel without Yama.
        return ""
