"""A command of ours in a process of its own, which is interrupted where nobody waits any more."""

from __future__ import annotations

import signal
import subprocess
import tempfile
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import anyio
from anyio.abc import ByteReceiveStream, Process

from perftui.recorder.environment import our_module

Told = Callable[[str], Awaitable[None]]
"""Is called with each line that the command prints on stderr, and with the last one again while
none comes."""

QUIET_SECONDS = 10.0
"""A client that hears nothing for longer may give up: many do after a minute."""
MOST_LINES = 50
"""Lines of stderr that are kept: the last say why a command failed."""


@dataclass(frozen=True)
class Ended:
    """A command that has come to its end."""

    code: int
    out: str
    lines: tuple[str, ...] = ()
    """The last lines of stderr."""


async def run_command(words: Sequence[str], told: Told, directory: Path | None = None) -> Ended:
    """Run ``perftui`` with these words, in ``directory`` or where the server runs.

    It has no stdin, and a session of its own: signals meant for the server do not reach it. Where
    the call is cancelled it is interrupted as by Ctrl+C, and has ended when this returns.

    Raises:
        OSError: it cannot be started.
    """
    command = [*our_module("perftui_tui"), *words]
    # A file takes whatever is printed, also while nobody reads.
    with tempfile.TemporaryFile() as out:
        process = await anyio.open_process(
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.PIPE,
            cwd=directory,
            start_new_session=True,
        )
        async with process:
            try:
                lines = await _read(_stderr(process), told)
                code = await process.wait()
            finally:
                await _interrupt(process)
        out.seek(0)
        return Ended(code, out.read().decode("utf-8", "replace"), lines)


async def _read(stream: ByteReceiveStream, told: Told) -> tuple[str, ...]:
    lines, rest = deque[str](maxlen=MOST_LINES), b""
    while True:
        chunk = b""
        with anyio.move_on_after(QUIET_SECONDS):
            try:
                chunk = await stream.receive()
            except anyio.EndOfStream:
                break
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            lines.append(line.decode("utf-8", "replace"))
            await told(lines[-1])
        if not chunk:
            await told(lines[-1] if lines else "")
    return (*lines, rest.decode("utf-8", "replace")) if rest else tuple(lines)


async def _interrupt(process: Process) -> None:
    """End ``process`` where it has not, and wait until it has: it stops a training, and gives back
    the files that a trial wrote to."""
    if process.returncode is not None:
        return
    with anyio.CancelScope(shield=True):
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGINT)
        async for _ in _stderr(process):
            """What it still prints would otherwise hold it up."""
        await process.wait()


def _stderr(process: Process) -> ByteReceiveStream:
    if process.stderr is None:
        raise ValueError("the process was started without a pipe for stderr")
    return process.stderr
