"""Waits for the training to end, serves signals and requests, and ends it if asked.

Run as a module it records a training on a terminal of its own, with nobody watching."""

from __future__ import annotations

import math
import signal
import sys
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from perftui.recorder.recorder import RunRecorder
from perftui.recorder.relay import Relay
from perftui.recorder.terminal import Terminal
from perftui.recorder.training import StartError, Training, no_start, start_as_job
from perftui.run.control import ASK, CAPTURE, RESIZE, STOP, Request, take_requests
from perftui.run.layout import RunLayout

POLL = 0.02
"""Seconds between two checks where the system cannot wait for signals with a limit (macOS)."""


class Received(NamedTuple):
    """One signal and whether the kernel sent it (a key at the terminal), not a process."""

    number: int
    by_kernel: bool


class SignalQueue:
    """Takes over ``watched`` and SIGCHLD from here on, in this thread and those it starts.

    ``ignored`` are ignored. ``restore`` undoes both and is meant for the child, too.
    """

    def __init__(self, watched: Iterable[int], ignored: Iterable[int] = ()) -> None:
        self._watched = {*watched, signal.SIGCHLD}
        self._mask = signal.pthread_sigmask(signal.SIG_BLOCK, self._watched)
        self._before = {number: signal.signal(number, signal.SIG_IGN) for number in ignored}

    def wait(self, seconds: float) -> Received | None:
        """The next signal, or None after ``seconds`` without one."""
        if not hasattr(signal, "sigtimedwait"):
            return self._look(seconds)
        info = signal.sigtimedwait(self._watched, seconds)
        # SI_KERNEL is 0x80; kill, sigqueue and tgkill have codes of 0 and below.
        return None if info is None else Received(info.si_signo, info.si_code > 0)

    def restore(self) -> None:
        """Restore the previous disposition and mask of signals."""
        for number, disposition in self._before.items():
            signal.signal(number, disposition)
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)

    def restore_default(self) -> None:
        """Default dispositions and the previous mask: for the script of a detached recorder, which
        must not inherit what the viewer or the recorder ignore."""
        for number in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE, *self._before):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)

    def _look(self, seconds: float) -> Received | None:
        until = time.monotonic() + seconds
        while not (pending := signal.sigpending() & self._watched):
            if time.monotonic() >= until:
                return None
            time.sleep(POLL)
        number = signal.sigwait(pending)
        return Received(number, number in (signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP))


INTERRUPT_GRACE = 30.0
"""Seconds after SIGINT: scripts that catch KeyboardInterrupt save a checkpoint first."""

TERMINATE_GRACE = 10.0
"""Seconds after SIGTERM, as container runtimes give."""


class Stopper:
    """SIGINT to the group, SIGTERM to the leader, SIGKILL to everything; ``clock`` in seconds."""

    def __init__(self, training: Training, clock: Callable[[], float] = time.monotonic) -> None:
        self._training = training
        self._clock = clock
        self._level = 0
        self._next_at = math.inf

    def terminate(self) -> None:
        """Begin with SIGTERM."""
        self._level = max(self._level, 1)
        self.ask()

    def tick(self) -> None:
        """Go on to the next signal once the grace is over; call it often."""
        if self._clock() >= self._next_at:
            self.ask()

    def ask(self) -> None:
        """Begin to stop; if that is under way, go on to the next signal at once."""
        if self._level == 0:
            self._training.signal_group(signal.SIGINT)
        elif self._level == 1:
            self._training.signal(signal.SIGTERM)
        else:
            self._training.kill_all()
        # A stopped process would receive none of these except SIGKILL.
        self._training.signal_group(signal.SIGCONT)
        wait = (INTERRUPT_GRACE, TERMINATE_GRACE, math.inf)[min(self._level, 2)]
        self._next_at = self._clock() + wait
        self._level += 1


def _serve(
    request: Request, recording: RunRecorder, stopper: Stopper, terminal: Terminal | None
) -> None:
    if request.kind == CAPTURE:
        recording.count_capture()
    elif request.kind == ASK:
        recording.ask(request.data.get("evidence"))
    elif request.kind == STOP:
        stopper.ask()
        recording.note_stop(request.data.get("reason"))
    elif terminal is None:
        raise ValueError("this run has no terminal of its own")
    elif request.kind == RESIZE:
        rows, columns = (_cells(request.data.get(name)) for name in ("rows", "columns"))
        terminal.resize(rows, columns)


def _cells(value: Any) -> int:
    cells = int(value)
    if not 0 < cells < 1 << 16:
        raise ValueError(f"a terminal cannot have {cells} rows or columns")
    return cells


POLL_SECONDS = 0.1
"""Seconds between two checks for requests; the end of the training interrupts the wait."""


def supervise(
    recording: RunRecorder,
    training: Training,
    terminal: Terminal | None,
    signals: SignalQueue,
    on_signal: Callable[[Received, Stopper], object],
) -> int:
    """The return code of ``training``, negative for a signal."""
    stopper = Stopper(training)
    while (returncode := training.poll()) is None:
        received = signals.wait(POLL_SECONDS)
        if received is not None:
            on_signal(received, stopper)
        stopper.tick()
        # Here, in the thread that may signal the training.
        requests: list[Request] = []
        try:
            requests = take_requests(recording.layout)
        except OSError as error:
            recording.faults.report("requests", f"{error}; the training goes on")
        for request in requests:
            serve = partial(_serve, request, recording, stopper, terminal)
            recording.attempt(f"request {request.kind}", serve)
    return returncode


def record(root: Path, rows: int, columns: int) -> None:
    """Start and record the run that is prepared in ``root``, to its end.

    The calling process must lead a session without a terminal. It ignores SIGHUP and SIGINT;
    SIGTERM stops the training. It stays until no process of the run holds the terminal, since
    closing it would hang up on them.
    """
    signals = SignalQueue([signal.SIGTERM], ignored=[signal.SIGHUP, signal.SIGINT])
    try:
        recording = RunRecorder(RunLayout(root))
    except StartError:
        # Noted in the manifest, where our caller looks.
        return
    try:
        with no_start("no terminal can be made for the script"):
            terminal = Terminal(rows, columns)
        training = start_as_job(recording.command(signals.restore_default), terminal)
    except StartError as error:
        recording.fail(str(error))
        return
    terminal.forget_script_side()
    relay = Relay(terminal.reader(), recording.output)
    recording.begin(training.pid)
    returncode = supervise(recording, training, terminal, signals, _on_signal)
    relay.settle()
    relay.settled.wait()
    recording.end(returncode, training.failure)
    relay.join()
    recording.output.close()


def _on_signal(received: Received, stopper: Stopper) -> None:
    if received.number == signal.SIGTERM:
        stopper.terminate()


def main() -> None:
    """Record the run in the given directory, on a terminal of the given rows and columns."""
    root, rows, columns = sys.argv[1:]
    record(Path(root), int(rows), int(columns))


if __name__ == "__main__":
    main()
