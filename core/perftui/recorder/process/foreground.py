"""Two ways to start a training in the foreground, its output passing through us."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from typing import TypeAlias

from perftui.recorder.process.training import Command, no_start, start_beside, start_in_session
from perftui.recorder.terminal.keyboard import (
    KEYBOARD,
    SCREEN,
    KeyboardRelay,
    RawKeyboard,
    Terminal,
    is_foreground_job,
    window_size,
)
from perftui.recorder.terminal.relay import OutputLog, Relay

ERRORS = 2


def attach(command: Command, log: OutputLog) -> Attachment:
    """Start ``command`` on a terminal of its own where we have one for keys and screen, else with
    our stdin and a pipe (or an output-only terminal) for each of stdout and stderr.

    Raises:
        StartError: it cannot be started.
    """
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
        """Continue, with the keys where they are ours again: in the background (``bg``) they are
        the shell's until it brings us to the foreground, which comes here once more."""
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

    It is in our process group where keys of a terminal reach that (so that it, we and the rest of
    a pipeline get them alike), else in a group of its own (so that it gets a signal sent to our
    group once, through us). A stream that is a terminal for us is one for the script, too.
    """

    terminal = None

    def __init__(self, command: Command, log: OutputLog) -> None:
        with no_start("no stream can be made for the script"):
            self._screens = {n: Terminal(*window_size(n)) for n in (SCREEN, ERRORS) if os.isatty(n)}
            for screen in self._screens.values():
                # Ours adds the carriage returns.
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
        """Our terminal was never changed; let go of the script's."""
        for screen in self._screens.values():
            screen.close()


Attachment: TypeAlias = OnTerminal | InPlace
"""A started training and what carries its streams."""
