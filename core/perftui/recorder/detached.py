"""Records a training on a terminal of its own, with nobody watching."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

from perftui.recorder.process.supervise import Received, SignalQueue, Stopper, supervise
from perftui.recorder.process.training import StartError, no_start, start_as_job
from perftui.recorder.recording import Recording
from perftui.recorder.terminal.keyboard import Terminal
from perftui.recorder.terminal.relay import Relay
from perftui.run.layout import RunLayout


def record(root: Path, rows: int, columns: int) -> None:
    """Start and record the run that is prepared in ``root``, to its end.

    The calling process must lead a session without a terminal. It ignores SIGHUP and SIGINT;
    SIGTERM stops the training. It stays until no process of the run holds the terminal, since
    closing it would hang up on them.
    """
    signals = SignalQueue([signal.SIGTERM], ignored=[signal.SIGHUP, signal.SIGINT])
    try:
        recording = Recording(RunLayout(root))
    except StartError:
        # Noted in the manifest, which is where whoever started us looks.
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
    """Record the run in the directory given, on a terminal of as many rows and columns."""
    root, rows, columns = sys.argv[1:]
    record(Path(root), int(rows), int(columns))


if __name__ == "__main__":
    main()
