"""py-spy, which reads the stacks of a process from outside: one run of it, and who may."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

import psutil

from perftui.recorder.stacks.places import StackError, StackInterval, read_threads
from perftui.run.layout import RankLayout

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


MOST_FAILURES = 3
"""Failures in a row after which a process is left alone: an unknown Python stays unknown."""

END_SECONDS = 1.0
"""Time for py-spy to write at the end what it has: whoever waits for the exit code waits, too."""

SPACING = 5.0
"""Seconds from the start of sampling a process to the next start. Starting takes py-spy some 40 ms
of a core, and workers may live for less than a second."""

FIRST_TIMES, MOST_RATE = 4, 100
"""A first profile of a training takes so many times the usual samples, though no more than that a
second: who tries a few seconds of it wants to see lines. It costs 1 % of a core meanwhile."""


def first_rate(rate: int) -> int:
    """Samples a second of a first profile, where ``rate`` is usual."""
    return max(rate, min(rate * FIRST_TIMES, MOST_RATE))


@dataclass(frozen=True)
class Target:
    """A process to sample for ``seconds``."""

    pid: int
    layout: RankLayout
    seconds: int
    loader: int = -1
    """The data loader that it serves, of a worker."""
    of_lock: bool = False
    """Sample only the thread that holds Python's lock."""
    is_first: bool = False
    """The process was not sampled before: ``first_rate`` is for it."""


@dataclass(frozen=True)
class Seen:
    """What was seen of one process."""

    main: list[StackInterval]
    others: list[list[StackInterval]]
    """Intervals of each other thread of Python."""
    observed: int
    """For how long it was sampled, ns."""
    idle: int
    """For how long its main thread neither ran nor waited for a core meanwhile, ns; -1 where the
    kernel does not report it."""


class Absent(Exception):  # noqa: N818 - it is an answer, not a mistake
    """There is no py-spy."""


class Failed(Exception):  # noqa: N818 - as above
    """py-spy failed too often; the message is its own."""


class Sampler:
    """Samples what ``choose`` returns ``rate`` times a second, one process at a time.

    ``keep`` is called with the target and its samples. The output of py-spy goes to ``directory``.
    """

    def __init__(
        self,
        name: str,
        rate: int,
        choose: Callable[[], Target | None],
        keep: Callable[[Target, Seen], object],
        directory: Path,
    ) -> None:
        self._name = name
        self._rate = rate
        self._choose = choose
        self._keep = keep
        self._directory = directory
        self._failures = 0
        self._is_ending = False
        self._not_before = 0.0
        self._running: tuple[PySpy, Target, _Clock] | None = None

    def advance(self) -> None:
        """Take samples that are complete, and begin the next.

        Raises:
            Absent: there is no py-spy.
            Failed: it does not get on with these processes, or may not read them.
        """
        if self._running is not None and self._running[0].is_running:
            return
        self._take()
        if not self._is_ending and time.monotonic() >= self._not_before:
            self._begin()

    def interrupt(self) -> None:
        """Have what was seen so far written; ``finish`` waits for it."""
        self._is_ending = True
        if self._running is not None:
            self._running[0].interrupt()

    def finish(self) -> None:
        """Take the last samples."""
        self.interrupt()
        self._take()

    def _begin(self) -> None:
        target = self._choose()
        if target is None:
            return
        command = find_pyspy()
        if command is None:
            raise Absent
        output = self._directory / f"stacks-{self._name}-{target.pid}.json"
        try:
            rate = first_rate(self._rate) if target.is_first else self._rate
            pyspy = PySpy(command, target.pid, rate, target.seconds, output, of_lock=target.of_lock)
        except OSError as error:
            raise Failed(str(error)) from error
        self._not_before = time.monotonic() + min(SPACING, target.seconds)
        self._running = pyspy, target, _Clock.of(target.pid)

    def _take(self) -> None:
        if self._running is None:
            return
        (pyspy, target, clock), self._running = self._running, None
        idle = clock.idle(target.pid)
        outcome = pyspy.collect(END_SECONDS)
        problem = outcome.message if outcome.content is None else self._read(target, outcome, idle)
        if problem is None:
            self._failures = 0
        elif psutil.pid_exists(target.pid) and not self._is_ending:
            self._failures += 1
            if REFUSED in problem or self._failures >= MOST_FAILURES:
                raise Failed(problem)
            self._not_before = 0.0

    def _read(self, target: Target, outcome: Outcome, idle: float) -> str | None:
        """Hand on what was seen; None, or why it cannot be read. ``idle`` is a share, 0 to 1."""
        try:
            main, others = read_threads(outcome.content or b"", target.pid, outcome.begun_ns)
        except StackError as error:
            return str(error)
        observed = min(target.seconds * 1_000_000_000, time.time_ns() - outcome.begun_ns)
        observed = max(observed, 1)
        still = round(idle * observed) if idle >= 0 else -1
        self._keep(target, Seen(main, others, observed, still))
        return None


@dataclass(frozen=True)
class _Clock:
    """When the main thread of a process was sampled, and how long it had run or waited for a core
    by then, ns."""

    at: int
    busy: int | None

    @classmethod
    def of(cls, pid: int) -> _Clock:
        try:
            words = Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split()
            busy = int(words[0]) + int(words[1])
        except (OSError, IndexError, ValueError):
            busy = None
        return cls(time.monotonic_ns(), busy)

    def idle(self, pid: int) -> float:
        """Share of the time since then, -1 where it is not known."""
        now = _Clock.of(pid)
        if self.busy is None or now.busy is None or now.at <= self.at:
            return -1.0
        return min(max(1 - (now.busy - self.busy) / (now.at - self.at), 0.0), 1.0)
