"""Records a training in the foreground, as if it had been started without us.

Everything that reaches us reaches the script: signals, window sizes, keys, and also a closed pipe.
A reader of our stdout that goes away (``| head``) closes the script's stdout as it would without
us; a terminal that hangs up sends it SIGHUP. To outlive its terminal it must be started detached.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
from contextlib import suppress
from typing import NoReturn, TypeAlias

from perftui.recorder.launch import Launch, prepare
from perftui.recorder.recorder import RunRecorder
from perftui.recorder.relay import OutputLog, Relay, hand_over
from perftui.recorder.supervise import POLL_SECONDS, Received, SignalQueue, supervise
from perftui.recorder.terminal import (
    KEYBOARD,
    SCREEN,
    KeyboardRelay,
    RawKeyboard,
    Terminal,
    is_foreground_job,
    window_size,
)
from perftui.recorder.training import Command, StartError, no_start, start_beside, start_in_session
from perftui.run.layout import RunLayout

ERRORS = 2


def attach(command: Command, log: OutputLog) -> Attachment:
    """Start ``command`` on a terminal of its own where we have one for keys and screen, else with
    our stdin and a pipe (or an output-only terminal) for each of stdout and stderr. Raises
    StartError if it cannot be started."""
    if os.isatty(KEYBOARD) and os.isatty(SCREEN) and is_foreground_job():
        return OnTerminal(command, log)
    return InPlace(command, log)


class OnTerminal:
    """The training leads a session on a terminal that mirrors ours; all keys go to it."""

    def __init__(self, command: Command, log: OutputLog) -> None:
        with no_start("no terminal can be made for the script"):
            terminal = Terminal(*window_size(SCREEN))
            terminal.copy_settings(KEYBOARD)
            errors = None if os.isatty(ERRORS) else os.pipe()
        self.training = start_in_session(command, terminal, errors[1] if errors else None)
        terminal.forget_script_side()
        self.terminal = terminal
        self.relays = [Relay(terminal.reader(), log, SCREEN)]
        if errors:
            os.close(errors[1])
            self.relays.append(Relay(errors[0], log, ERRORS, pass_broken=True))
        self._raw = RawKeyboard()
        self._raw.enter()
        self._keyboard = KeyboardRelay(terminal)

    def resize(self) -> None:
        """Give the script's terminal the size of ours."""
        with suppress(OSError):
            self.terminal.resize(*window_size(SCREEN))

    def suspend(self, by_kernel: bool) -> None:  # noqa: ARG002 - its session is not ours
        """SIGSTOP: the kernel ignores SIGTSTP in a session without a shell."""
        self.training.signal_group(signal.SIGSTOP)
        self._keyboard.listen(False)
        self._raw.leave()

    def resume(self) -> None:
        """Continue, with the keys if they are ours again: in the background (``bg``) they are the
        shell's until it brings us to the foreground, which calls this again."""
        if is_foreground_job():
            self._raw.enter()
            self._keyboard.listen(True)
        self.resize()
        self.training.signal_group(signal.SIGCONT)

    def close(self) -> None:
        """Read no more keys and give the terminal back."""
        self._keyboard.stop()
        self._raw.leave()
        self.terminal.close()


class InPlace:
    """The training has our stdin and our session.

    It is in our process group where keys of a terminal reach that (so that it, we and the rest of a
    pipeline get them alike), else in a group of its own (so that it gets a signal sent to our group
    once, through us). A stream that is a terminal for us is one for the script, too.
    """

    terminal = None

    def __init__(self, command: Command, log: OutputLog) -> None:
        with no_start("no stream can be made for the script"):
            self._screens = {n: Terminal(*window_size(n)) for n in (SCREEN, ERRORS) if os.isatty(n)}
            for screen in self._screens.values():
                # Our terminal adds the carriage returns.
                screen.leave_output_untouched()
            pipes = {n: os.pipe() for n in (SCREEN, ERRORS) if n not in self._screens}
        theirs = {n: screen.script_side for n, screen in self._screens.items()}
        theirs |= {n: pipe[1] for n, pipe in pipes.items()}
        ours = {n: screen.reader() for n, screen in self._screens.items()}
        ours |= {n: pipe[0] for n, pipe in pipes.items()}
        own_group = not is_foreground_job()
        self.training = start_beside(command, theirs[SCREEN], theirs[ERRORS], own_group)
        for file in theirs.values():
            os.close(file)
        self.relays = [Relay(ours[n], log, n, pass_broken=n in pipes) for n in (SCREEN, ERRORS)]

    def resize(self) -> None:
        """Give each output terminal the size of ours."""
        for number, screen in self._screens.items():
            with suppress(OSError):
                screen.resize(*window_size(number))

    def suspend(self, by_kernel: bool) -> None:
        """SIGTSTP, unless the key reached our whole process group and the training with it."""
        if not (by_kernel and self.training.shares_group):
            self.training.signal_group(signal.SIGTSTP)

    def resume(self) -> None:
        """Continue."""
        self.resize()
        self.training.signal_group(signal.SIGCONT)

    def close(self) -> None:
        """Close the script's terminals; ours was never changed."""
        for screen in self._screens.values():
            screen.close()


Attachment: TypeAlias = OnTerminal | InPlace
"""A started training and the carriers of its streams."""


OUR_ERROR = 2
"""Exit code where the training could not be started."""

OWN = {
    signal.SIGCHLD,
    signal.SIGTTIN,
    signal.SIGTTOU,
    signal.SIGPIPE,
    signal.SIGSEGV,
    signal.SIGBUS,
    signal.SIGFPE,
    signal.SIGILL,
    signal.SIGSYS,
    signal.SIGTRAP,
}
"""Signals about ourselves: our children, our use of the terminal and of pipes, our faults."""

FORWARDED = frozenset(signal.valid_signals()) - OWN - {signal.SIGKILL, signal.SIGSTOP}
"""Schedulers send SIGXCPU, watchdogs SIGABRT and SIGALRM, and scripts may choose any."""

FROM_TERMINAL = (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP)
"""Signals that the kernel sends to a whole job. Others from the kernel are about ourselves."""


def run_as_command(launch: Launch) -> NoReturn:
    """Run ``launch`` and end as it ended: with its exit code, or by the signal that killed it.

    Where it cannot be started, the exit code is ``OUR_ERROR`` and a message on stderr says why.
    Raises OSError if the run directory cannot be made."""
    layout = prepare(launch)
    # Signals ignored when we were started (nohup) stay ignored, for us and for the script. Handlers
    # are never restored: a signal while the end is written down would replace it.
    signals = SignalQueue(n for n in FORWARDED if signal.getsignal(n) is not signal.SIG_IGN)
    returncode = _record(layout, signals)
    sys.stdout.flush()
    sys.stderr.flush()
    if returncode < 0:
        # The script's core dump is the one to look at.
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if -returncode not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(-returncode, signal.SIG_DFL)
        os.kill(os.getpid(), -returncode)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [-returncode])
    os._exit(128 - returncode if returncode < 0 else returncode)


def _record(layout: RunLayout, signals: SignalQueue) -> int:
    recording = None
    try:
        recording = RunRecorder(layout)
        attachment = attach(recording.command(signals.restore), recording.output)
    except StartError as error:
        if recording is not None:
            recording.fail(str(error))
        sys.stderr.write(f"perftui: {error}\n")
        return OUR_ERROR
    recording.begin(attachment.training.pid)
    recording.judge_now_and_then()
    try:
        returncode = _follow(recording, attachment, signals)
    finally:
        attachment.close()
    failure = attachment.training.failure
    if failure:
        sys.stderr.write(f"perftui: {failure}\n")
    recording.end(returncode, failure)
    recording.attempt("late output", lambda: hand_over(attachment.relays))
    recording.output.close()
    return returncode


def _follow(recording: RunRecorder, attachment: Attachment, signals: SignalQueue) -> int:
    returncode = supervise(
        recording,
        attachment.training,
        attachment.terminal,
        signals,
        lambda received, _: _pass_on(attachment, received),
    )
    # Waits for the last output, unless a signal that would end us comes.
    for relay in attachment.relays:
        relay.settle()
    while not all(relay.settled.is_set() for relay in attachment.relays):
        received = signals.wait(POLL_SECONDS)
        if received is not None and received.number in (*FROM_TERMINAL, signal.SIGTERM):
            break
    return returncode


def _pass_on(attachment: Attachment, received: Received) -> None:
    number, by_kernel = received
    training = attachment.training
    if number == signal.SIGWINCH:
        attachment.resize()
    elif number == signal.SIGTSTP:
        attachment.suspend(by_kernel)
        os.kill(os.getpid(), signal.SIGSTOP)
        attachment.resume()
    elif number == signal.SIGCONT:
        attachment.resume()
    elif number in FORWARDED and not by_kernel:
        training.signal(number)
    elif number in FROM_TERMINAL and not training.shares_group:
        # A key or a hang-up reaches the whole job.
        training.signal_group(number)
