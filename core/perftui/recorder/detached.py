"""Records a training on a terminal of its own, with nobody watching."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from perftui.recorder.options import options_of
from perftui.recorder.process.signals import Received, SignalQueue
from perftui.recorder.process.stopping import Stopper
from perftui.recorder.process.supervise import RequestServer, supervise
from perftui.recorder.process.training import Command, StartError, Training, no_start, start_as_job
from perftui.recorder.recording import Recording
from perftui.recorder.terminal.pseudo_terminal import Terminal
from perftui.recorder.terminal.relay import Relay
from perftui.run.layout import RunLayout
from perftui.run.liveness import recorded_by_this_process
from perftui.run.manifest import Manifest, read_manifest


def record(root: Path, rows: int, columns: int) -> None:
    """Start and record the run that is prepared in ``root``, to its end.

    The calling process must lead a session without a terminal. It ignores SIGHUP and SIGINT;
    SIGTERM stops the training. It stays until no process of the run holds the terminal, since
    closing it would hang up on them.
    """
    layout = RunLayout(root)
    manifest = recorded_by_this_process(read_manifest(layout.manifest))
    signals = SignalQueue([signal.SIGTERM], ignored=[signal.SIGHUP, signal.SIGINT])
    try:
        recording = Recording(layout, manifest)
    except StartError:
        # Said in the manifest, which is where whoever started us looks.
        return
    try:
        with no_start("no terminal can be made for the script"):
            terminal = Terminal(rows, columns)
        training = _start(recording, manifest, terminal, signals)
    except StartError as error:
        recording.fail(str(error))
        return
    relay = Relay(terminal.reader(), recording.output)
    recording.begin(training.pid)
    _follow(recording, training, terminal, signals, relay)
    relay.join()
    recording.output.close()


def _start(
    recording: Recording, manifest: Manifest, terminal: Terminal, signals: SignalQueue
) -> Training:
    options = options_of(manifest.profile)
    environment = recording.environment(os.environ, options)
    cwd = Path(manifest.cwd)
    command = Command(manifest.command, cwd, environment, signals.restore_default)
    training = start_as_job(recording.wrapped(command, options), terminal)
    terminal.forget_script_side()
    return training


def _follow(
    recording: Recording,
    training: Training,
    terminal: Terminal,
    signals: SignalQueue,
    relay: Relay,
) -> None:
    stopper = Stopper(training)

    def on_signal(received: Received) -> None:
        if received.number == signal.SIGTERM:
            stopper.terminate()

    requests = RequestServer(recording, stopper, terminal)
    returncode = supervise(training, signals, stopper, requests, on_signal)
    relay.settle()
    relay.settled.wait()
    recording.failed_to_start(training)
    recording.end(returncode)
