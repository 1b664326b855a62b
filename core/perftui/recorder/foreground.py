"""Records a training in the foreground, as if it had been started without us.

Whatever reaches us reaches the script: signals, window sizes, keys, and also a closed pipe. A
reader of our stdout that goes away (``| head``) closes the script's stdout as it would without
us; a terminal that hangs up sends it SIGHUP. What must outlive its terminal is started detached.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
from typing import NoReturn

from perftui.recorder.launch import Launch, prepare
from perftui.recorder.process.foreground import Attachment, attach
from perftui.recorder.process.supervise import POLL_SECONDS, Received, SignalQueue, supervise
from perftui.recorder.process.training import StartError
from perftui.recorder.recording import Recording
from perftui.recorder.terminal.late_output import hand_over
from perftui.run.layout import RunLayout

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
"""What is about ourselves: our children, our use of the terminal and of pipes, our faults."""

FORWARDED = frozenset(signal.valid_signals()) - OWN - {signal.SIGKILL, signal.SIGSTOP}
"""Schedulers send SIGXCPU, watchdogs SIGABRT and SIGALRM, and scripts may choose any."""

FROM_TERMINAL = (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP)
"""What the kernel sends to all of a job. Others are about ourselves where the kernel sends them."""

ENDING = (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP)


def run_as_command(launch: Launch) -> NoReturn:
    """Run ``launch`` and end as it ended: with its exit code, or by the signal that killed it.

    Where it cannot be started, the exit code is ``OUR_ERROR`` and a message on stderr says why.

    Raises:
        OSError: the run directory cannot be made.
    """
    layout = prepare(launch)
    # What was ignored when we were started (nohup) stays so, for us and for the script. They are
    # never given back: one that came while the end was written down would replace it.
    signals = SignalQueue(n for n in FORWARDED if signal.getsignal(n) is not signal.SIG_IGN)
    returncode = _record(layout, signals)
    sys.stdout.flush()
    sys.stderr.flush()
    if returncode < 0:
        # Its core dump is the one to look at.
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if -returncode not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(-returncode, signal.SIG_DFL)
        os.kill(os.getpid(), -returncode)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [-returncode])
    os._exit(128 - returncode if returncode < 0 else returncode)


def _record(layout: RunLayout, signals: SignalQueue) -> int:
    try:
        recording = Recording(layout)
        attachment = _attach(recording, signals)
    except StartError as error:
        sys.stderr.write(f"perftui: {error}\n")
        return OUR_ERROR
    recording.begin(attachment.training.pid)
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


def _attach(recording: Recording, signals: SignalQueue) -> Attachment:
    try:
        return attach(recording.command(signals.restore), recording.output)
    except StartError as error:
        recording.fail(str(error))
        raise


def _follow(recording: Recording, attachment: Attachment, signals: SignalQueue) -> int:
    returncode = supervise(
        recording,
        attachment.training,
        attachment.terminal,
        signals,
        lambda received, _: _pass_on(attachment, received),
    )
    _pass_rest(attachment, signals)
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
        # A key or a hang-up goes to all of a job.
        training.signal_group(number)


def _pass_rest(attachment: Attachment, signals: SignalQueue) -> None:
    """Wait until the last output is through; a signal that would end us ends the wait."""
    for relay in attachment.relays:
        relay.settle()
    while not all(relay.settled.is_set() for relay in attachment.relays):
        received = signals.wait(POLL_SECONDS)
        if received is not None and received.number in ENDING:
            return
