"""Samples the stacks of a training and its data-loader workers by py-spy, from outside."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import psutil

from perftui.recorder.pyspy_stacks import (
    StackError,
    StackInterval,
    main_place,
    read_threads,
    stays,
    worker_place,
)
from perftui.recorder.sink import DownsamplingSink, FaultLog, stack_journal
from perftui.run.columns import LOCK_COLUMNS, STACK_COLUMNS, WORKER_STACK_COLUMNS
from perftui.run.journal import Column
from perftui.run.layout import RankLayout
from perftui.telemetry.contention import cpu_times
from perftui.telemetry.files import PROC

GRACE = 10.0
"""Seconds after the requested end until py-spy counts as hung: samples come at random moments."""

REFUSED = "Permission Denied"
"""Beginning of its message where the system does not let it read a process."""

LONGEST = 300
"""Most characters of its message that are kept."""

_BEGUN = re.compile(
    rb"\[(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?Z\s+INFO\s+py_spy::config\]"
)
"""py-spy prints its configuration right before its clock begins (``record_samples`` in its
``main.rs``): that anchors its times to ours."""


def find_pyspy() -> str | None:
    """py-spy's command: the one installed beside us, else the one on the path."""
    beside = Path(sys.executable).parent / "py-spy"
    return str(beside) if os.access(beside, os.X_OK) else shutil.which("py-spy")


@dataclass(frozen=True)
class Target:
    """A process to sample for ``seconds``."""

    pid: int
    layout: RankLayout
    seconds: int
    loader: int = -1
    """The data loader, if the process is a worker."""
    of_lock: bool = False
    """Sample only the thread that holds Python's lock."""
    is_first: bool = False
    """The process was not sampled before: it is sampled more often, see ``FIRST_TIMES``."""


@dataclass(frozen=True)
class Seen:
    """Samples of one process."""

    main: list[StackInterval]
    others: list[list[StackInterval]]
    """Intervals of each other thread of Python."""
    observed: int
    """Duration of the sampling, ns."""
    idle: int
    """For how long its main thread neither ran nor waited for a core meanwhile, ns; -1 where the
    kernel does not report it."""
    every: int
    """Mean time between samples, ns."""


class Absent(Exception):  # noqa: N818 - it is an answer, not a mistake
    """py-spy is not installed."""


class Failed(Exception):  # noqa: N818 - as above
    """py-spy failed; the message is its own, at times empty."""


@dataclass(frozen=True)
class _Clock:
    """When the main thread of a process was sampled, and how long it had run or waited for a core
    until then, ns."""

    at: int
    busy: int | None

    @classmethod
    def of(cls, pid: int) -> _Clock:
        times = cpu_times(f"{PROC}/{pid}/task/{pid}")
        return cls(time.monotonic_ns(), None if times is None else sum(times))

    def idle(self, pid: int) -> float:
        """Share of the time since then in which it was idle, -1 if unknown."""
        now = _Clock.of(pid)
        if self.busy is None or now.busy is None or now.at <= self.at:
            return -1.0
        return min(max(1 - (now.busy - self.busy) / (now.at - self.at), 0.0), 1.0)


class PySpy:
    """Samples ``target``, ``rate`` times a second, and writes to ``output``.

    It never stops the process (``--nonblocking``), and samples while it waits, too (``--idle``):
    the place where a main thread waits is the question. Its own session keeps the terminal's Ctrl-C
    away. It ends by itself even if we are killed. Raises OSError if it cannot be started."""

    def __init__(self, command: str, target: Target, rate: int, output: Path) -> None:
        self.target = target
        self._output = output
        self._every = 1_000_000_000 // rate
        arguments = [
            *("record", "--nonblocking", "--gil" if target.of_lock else "--idle"),
            *("--format", "chrometrace", "--rate", str(rate), "--duration", str(target.seconds)),
            *("--output", str(output), "--pid", str(target.pid)),
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
        self._due = time.monotonic() + target.seconds + GRACE
        self._clock = _Clock.of(target.pid)

    @property
    def is_running(self) -> bool:
        """Whether py-spy still samples and is not overdue."""
        return self._process.poll() is None and time.monotonic() <= self._due

    def interrupt(self) -> None:
        """Have py-spy write its samples; it does so at its next sample."""
        self._process.send_signal(signal.SIGINT)

    def collect(self, patience: float = 0.0) -> Seen:
        """py-spy's samples; it is killed if it does not end within ``patience`` seconds. Raises
        Failed if it failed, or its output cannot be read."""
        idle = self._clock.idle(self.target.pid)
        try:
            errors = self._process.communicate(timeout=patience or None)[1]
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
            self._output.unlink(missing_ok=True)
            raise Failed("it did not exit, and was killed") from None
        if self._process.returncode:
            raise Failed(_last_line(errors))
        try:
            content = self._output.read_bytes()
        except OSError:
            # py-spy's own message says why it could not write.
            raise Failed(_last_line(errors)) from None
        finally:
            self._output.unlink(missing_ok=True)
        start = _start_time(errors)
        if start is None or not self._before_ns <= start <= time.time_ns():
            start = self._after_ns
        try:
            main, others = read_threads(content, self.target.pid, start)
        except StackError as error:
            raise Failed(str(error)) from error
        observed = max(min(self.target.seconds * 1_000_000_000, time.time_ns() - start), 1)
        idle_ns = round(idle * observed) if idle >= 0 else -1
        return Seen(main, others, observed, idle_ns, self._every)


def _start_time(errors: bytes) -> int | None:
    match = _BEGUN.search(errors)
    if match is None:
        return None
    second = datetime.fromisoformat(match[1].decode()).replace(tzinfo=timezone.utc)
    return int(second.timestamp()) * 1_000_000_000 + int((match[2] or b"").decode().ljust(9, "0"))


def _last_line(errors: bytes) -> str:
    """py-spy's message in ``errors``, without lines of its log and the chain of causes."""
    lines = [line.strip() for line in errors.decode("utf-8", "replace").splitlines()]
    message = [line for line in lines if line.startswith(("Error:", REFUSED))]
    causes = [line[3:] for line in lines if line.startswith("0: ") and " (os error" in line]
    return " ".join([*message, *causes])[:LONGEST]


SCOPE = Path("/proc/sys/kernel/yama/ptrace_scope")
"""Linux' Yama, as Ubuntu sets it up: 1 lets a process be read by its ancestors alone, and by the
descendants of a process that it declares (``PR_SET_PTRACER``). py-spy is neither of itself. From 2
on only administrators may, whatever is declared."""


def tracer(samples_per_second: int) -> int:
    """The process to declare as tracer: this one, which starts py-spy; 0 where it has no effect."""
    scope = ""
    # There is no such file in a kernel without Yama.
    with suppress(OSError):
        scope = SCOPE.read_text().strip()
    return os.getpid() if samples_per_second and scope == "1" and find_pyspy() is not None else 0


MOST_FAILURES = 3
"""Failures in a row after which a process is left alone: an unknown Python stays unknown."""

END_SECONDS = 1.0
"""Seconds for py-spy to write its samples at the end: a wait for the exit code waits, too."""

SPACING = 5.0
"""Seconds from the start of sampling a process to the next start. Starting takes py-spy some 40 ms
of a core, and workers may live for less than a second."""

FIRST_TIMES, MOST_RATE = 4, 100
"""A first profile of a training takes so many times the usual samples, though no more than that a
second: who tries a few seconds of it wants to see lines. It costs 1 % of a core meanwhile."""


@dataclass
class Sampler:
    """Samples the targets of ``choose`` ``rate`` times a second, one process at a time.

    ``keep`` is called with the target and its samples. The output of py-spy goes to ``directory``.
    """

    name: str
    rate: int
    choose: Callable[[], Target | None]
    keep: Callable[[Target, Seen], object]
    directory: Path
    _failures: int = 0
    _is_ending: bool = False
    _not_before: float = 0.0
    _running: PySpy | None = None

    def advance(self) -> None:
        """Take complete samples, and begin the next.

        Raises:
            Absent: there is no py-spy.
            Failed: it cannot handle these processes, or may not read them.
        """
        if self._running is not None and self._running.is_running:
            return
        self._take()
        if not self._is_ending and time.monotonic() >= self._not_before:
            self._begin()

    def interrupt(self) -> None:
        """Have py-spy write its samples so far; ``finish`` waits for them."""
        self._is_ending = True
        if self._running is not None:
            self._running.interrupt()

    def finish(self) -> None:
        """Take the last samples."""
        self.interrupt()
        self._take()

    def _begin(self) -> None:
        target = self.choose()
        if target is None:
            return
        command = find_pyspy()
        if command is None:
            raise Absent
        output = self.directory / f"stacks-{self.name}-{target.pid}.json"
        try:
            rate = self.rate
            if target.is_first:
                rate = max(rate, min(rate * FIRST_TIMES, MOST_RATE))
            self._running = PySpy(command, target, rate, output)
        except OSError as error:
            raise Failed(str(error)) from error
        self._not_before = time.monotonic() + min(SPACING, target.seconds)

    def _take(self) -> None:
        if self._running is None:
            return
        pyspy, self._running = self._running, None
        try:
            samples = pyspy.collect(END_SECONDS)
        except Failed as error:
            if psutil.pid_exists(pyspy.target.pid) and not self._is_ending:
                self._failures += 1
                if REFUSED in str(error) or self._failures >= MOST_FAILURES:
                    raise
                self._not_before = 0.0
            return
        self._failures = 0
        self.keep(pyspy.target, samples)


CHECK_SECONDS = 0.5
"""Seconds between checks whether samples are complete."""

WORKERS_PART = 2
"""Workers are sampled so many times less often than main threads: they run for longer, and their
expensive lines show all the same."""

INSTEAD = "so source lines are known in profiled windows only (--stack-rate 0 turns sampling off)"

ABSENT = f"py-spy is not installed (pip install py-spy), {INSTEAD}"
NOT_ALLOWED = (
    "the system does not let py-spy read the training (kernel.yama.ptrace_scope above 1, or a "
    f"container without SYS_PTRACE), {INSTEAD}"
)
FAILED = "py-spy failed, "


FIRST_SECONDS = 5
"""Length of a training's first sampling: viewers of a run soon see its first lines."""

ROUND_SECONDS = 2
"""Length of the first sampling of each of several processes: differences are seen early."""

ALONE_SECONDS = 30
"""Length of later samplings where one process trains: py-spy writes only at the end."""

SHARED_SECONDS = 10
"""Length of later samplings if several processes take turns."""


LOCK_SECONDS = 5
LOCK_EVERY = 8
"""One in so many turns of a process with several Python threads samples the holder of its lock."""


class TrainingOrder:
    """Every second time the lowest rank, whose diagnosis is shown; else the others, in order.

    Processes that are in ``several`` have more threads of Python than the main one. ``processes``
    gives the directory of each training process, by its number.
    """

    def __init__(self, processes: Callable[[], Mapping[int, RankLayout]]) -> None:
        self._processes = processes
        self._count = 0
        self._until_lock = 0
        self.several: set[int] = set()

    def __call__(self) -> Target | None:
        """The next process to sample; None if nothing trains now."""
        living = [item for item in self._processes().items() if psutil.pid_exists(item[0])]
        if not living:
            return None
        first, *others = sorted(living, key=lambda item: _rank(item[1]))
        number = self._count
        self._count += 1
        if first[0] in self.several and not self._until_lock:
            self._until_lock = LOCK_EVERY
            return Target(*first, LOCK_SECONDS, of_lock=True)
        self._until_lock = max(self._until_lock - 1, 0)
        if not others:
            seconds = ALONE_SECONDS if number else FIRST_SECONDS
            return Target(*first, seconds, is_first=not number)
        pid, layout = others[number // 2 % len(others)] if number % 2 else first
        is_first = number < 2 * len(others)
        seconds = ROUND_SECONDS if is_first else SHARED_SECONDS
        return Target(pid, layout, seconds, is_first=is_first)


class WorkerOrder:
    """The workers of all ranks, one after the other: those of a loader do the same work.

    ``workers`` gives the rank directory and loader number of each process.
    """

    def __init__(self, workers: Callable[[], Mapping[int, tuple[RankLayout, int]]]) -> None:
        self._workers = workers
        self._last = (-1, -1)

    def __call__(self) -> Target | None:
        """The next worker to sample; None if none is known now."""
        living = {
            (_rank(layout), pid): (layout, loader)
            for pid, (layout, loader) in self._workers().items()
            if psutil.pid_exists(pid)
        }
        if not living:
            return None
        self._last = min((key for key in living if key > self._last), default=min(living))
        layout, loader = living[self._last]
        return Target(self._last[1], layout, SHARED_SECONDS, loader)


def _rank(layout: RankLayout) -> int:
    return int(layout.root.name.removeprefix("rank-"))


class StackSampling:
    """Samples trainings and their workers, while py-spy is installed and permitted.

    ``processes`` and ``workers`` are those of ``TrainingOrder`` and ``WorkerOrder``. ``give_up`` is
    called, once, with the reason if there will be no more samples.
    """

    def __init__(
        self,
        rate: int,
        processes: Callable[[], Mapping[int, RankLayout]],
        workers: Callable[[], Mapping[int, tuple[RankLayout, int]]],
        directory: Path,
        faults: FaultLog,
        give_up: Callable[[str], object],
    ) -> None:
        slower = max(rate // WORKERS_PART, 1)
        self._faults = faults
        self._give_up = give_up
        self._has_ended = False
        self._journals: dict[Path, DownsamplingSink] = {}
        self._order = TrainingOrder(processes)
        self._training = Sampler("training", rate, self._order, self._keep_main, directory)
        self._workers = Sampler(
            "worker", slower, WorkerOrder(workers), self._keep_worker, directory
        )
        self._samples_workers = True

    def advance(self) -> None:
        """Take complete samples and begin those that are due."""
        if self._has_ended:
            return
        try:
            self._training.advance()
            if self._samples_workers:
                # A failure with workers does not end the samples of the training.
                try:
                    self._workers.advance()
                except Failed as error:
                    self._samples_workers = False
                    self._faults.report("stack samples of workers", f"{error}; they end")
        except Absent:
            self._end(ABSENT)
        except Failed as error:
            refused = REFUSED in str(error)
            failed = f"{FAILED}{INSTEAD}: {str(error) or 'no reason given'}"
            self._end(NOT_ALLOWED if refused else failed)

    def interrupt(self) -> None:
        """The training has ended: have py-spy write its samples; ``finish`` waits for them."""
        self._training.interrupt()
        self._workers.interrupt()

    def finish(self) -> None:
        """Take the last samples and close the journals."""
        self.interrupt()
        self._training.finish()
        self._workers.finish()
        for journal in self._journals.values():
            journal.close()

    def _end(self, why: str) -> None:
        self._has_ended = True
        self.interrupt()
        self._give_up(why)

    def _keep_main(self, target: Target, seen: Seen) -> None:
        if target.of_lock:
            lock_stays = [stay for thread in seen.others for stay in stays(thread, main_place)]
            rows = [[*stay.row(seen.every), seen.observed, seen.idle] for stay in lock_stays]
            self._append(target.layout.lock_stacks, LOCK_COLUMNS, rows)
            return
        if seen.others:
            self._order.several.add(target.pid)
        rows = [stay.row(seen.every) for stay in stays(seen.main, main_place)]
        self._append(target.layout.stacks, STACK_COLUMNS, rows)

    def _keep_worker(self, target: Target, seen: Seen) -> None:
        whose = [target.pid, target.loader]
        rows = [[*stay.row(seen.every), *whose] for stay in stays(seen.main, worker_place)]
        self._append(target.layout.worker_stacks, WORKER_STACK_COLUMNS, rows)

    def _append(self, path: Path, columns: Sequence[Column], rows: list[list[Any]]) -> None:
        if path not in self._journals:
            self._journals[path] = stack_journal(path, columns, self._faults)
        self._journals[path].append(rows)
