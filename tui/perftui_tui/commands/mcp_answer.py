"""A command of ours in a process of its own, which is interrupted where nobody waits any more."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import tempfile
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import ByteReceiveStream, Process

from perftui.recorder.launch import our_module
from perftui.report.output_text import SCHEMA, encode_object
from perftui.trace.text import printable
from perftui_tui.commands.mcp_tools import (
    FULL,
    ROWS,
    ArgumentError,
    TableOutput,
    Tool,
    command_line,
    whole_number,
)

Tell = Callable[[str], Awaitable[None]]
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


async def run_command(words: Sequence[str], tell: Tell, directory: Path | None = None) -> Ended:
    """Run ``perftui`` with these words, in ``directory`` or where the server runs.

    It has no stdin, and a session of its own: signals meant for the server do not reach it. Where
    the call is cancelled it is interrupted as by Ctrl+C, and has ended when this returns. Raises
    OSError if it cannot be started."""
    command = [*our_module("perftui_tui"), *words]
    # A file takes all output, also while nobody reads.
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
                lines = await _read(_stderr(process), tell)
                code = await process.wait()
            finally:
                await _interrupt(process)
        out.seek(0)
        return Ended(code, out.read().decode("utf-8", "replace"), lines)


async def _read(stream: ByteReceiveStream, tell: Tell) -> tuple[str, ...]:
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
            await tell(lines[-1])
        if not chunk:
            await tell(lines[-1] if lines else "")
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


MOST_BYTES = 40_000
"""Most bytes of a JSON answer, some 12,000 tokens. Clients refuse answers of about twice that."""


class TooLongError(ValueError):
    """Even a little of it is too long; the message says how long."""


def limited(plain: dict[str, Any], rows: int) -> dict[str, Any]:
    """``plain`` with at most so many items in each table, fewer where all would be too long.

    ``left_out`` then holds by name of the table how many items it lacks. Lists of words, such as
    commands and notes, and pairs stay whole. Raises TooLongError if it is too long with one item in
    each table."""
    while True:
        left_out: dict[str, int] = {}
        shown = {name: _cut(value, rows, name, left_out) for name, value in plain.items()}
        result = {**shown, "left_out": left_out} if left_out else shown
        size = len(encode_object(result, on_one_line=True).encode())
        if size <= MOST_BYTES:
            return result
        if rows == 1:
            raise TooLongError(f"{size:,} bytes with one row in each table, over {MOST_BYTES:,}")
        rows //= 2


def _cut(value: Any, rows: int, name: str, left_out: dict[str, int]) -> Any:
    if isinstance(value, dict):
        # A table by columns has lists of one length.
        lengths = {len(item) if isinstance(item, list) else 0 for item in value.values()}
        if len(value) > 1 and len(lengths) == 1 and lengths.pop() > max(rows, 2):
            left_out[name] = len(next(iter(value.values()))) - rows
            return {key: column[:rows] for key, column in value.items()}
        return {key: _cut(item, rows, f"{name}.{key}", left_out) for key, item in value.items()}
    if not isinstance(value, list):
        return value
    is_pair = len(value) == 2 and not isinstance(value[0], dict)
    is_whole = is_pair or all(isinstance(item, str) for item in value)
    items = value if is_whole else value[:rows]
    if len(items) < len(value):
        left_out[name] = len(value) - len(items)
    return [_cut(item, rows, f"{name}[{at}]", left_out) for at, item in enumerate(items)]


def csv_rows(text: str, skip: int, rows: int) -> tuple[str, int]:
    """The heading and ``rows`` of the rows after the first ``skip``, and how many there are.

    Fewer where those would be too long, at least one."""
    heading, *lines = _records(text)
    chosen: list[str] = []
    left = MOST_BYTES - len(heading.encode())
    for line in lines[skip : skip + rows]:
        left -= len(line.encode())
        if left < 0 and chosen:
            break
        chosen.append(line)
    return "".join((heading, *chosen)), len(lines)


def _records(text: str) -> Iterator[str]:
    """The rows of CSV text; a quoted cell may hold line ends, and quotes come in pairs."""
    record = ""
    for line in text.split("\n")[:-1]:
        record += f"{line}\n"
        if record.count('"') % 2 == 0:
            yield record
            record = ""


OURS = "perftui: "
"""Begins the line on stderr that says why a command failed."""
MOST_ERROR = 4_000
"""Characters of an error that are passed on, its last ones."""


class ToolError(RuntimeError):
    """A tool failed; the message is what its command said."""


async def answer(
    tool: Tool, arguments: Mapping[str, Any], common: Sequence[str], tell: Tell
) -> dict[str, Any]:
    """What the command of ``tool`` prints as JSON for these arguments, cut to a bounded size.

    ``common`` are options of each command. Raises ToolError if it cannot be carried out, or failed.
    """
    brief = ["--brief"] if FULL in tool.arguments and not arguments.get("full") else []
    directory = arguments.get("directory")
    try:
        words = command_line((*tool.command, *brief, *common), tool.arguments, arguments)
        rows = whole_number(arguments, "rows", 1, ROWS)
        skip = whole_number(arguments, "skip", 0, 0)
    except ArgumentError as error:
        raise ToolError(f"{tool.name}: {error}") from error
    try:
        ended = await run_command(words, tell, Path(directory) if directory else None)
    except (OSError, ValueError) as error:
        # No such directory, or a text that cannot be a word of a command line.
        raise ToolError(f"{tool.name} cannot be started: {error}") from error
    if not ended.out:
        raise ToolError(_why(ended))
    if tool.outputs == (TableOutput,):
        return {**_table(ended, skip, rows, arguments["table"])}
    try:
        result: dict[str, Any] = json.loads(ended.out)
    except ValueError as error:
        raise ToolError(f"the command printed no JSON: {printable(ended.out[:200])}") from error
    if tool.name == "diagnose":
        result["exit_code"] = ended.code
    try:
        return limited(result, rows)
    except TooLongError as error:
        raise ToolError(
            f"the answer is too long, {error}: leave out full, or run in a shell: "
            f"perftui {shlex.join(words)}"
        ) from error


def _why(ended: Ended) -> str:
    ours = [line for line in ended.lines if line.startswith(OURS)]
    lines = ours[-1:] or ended.lines
    text = "\n".join(printable(line).removeprefix(OURS) for line in lines)[-MOST_ERROR:]
    return text or f"the command ended with exit code {ended.code} and printed nothing"


def _table(ended: Ended, skip: int, rows: int, name: str) -> TableOutput:
    text, total = csv_rows(ended.out, skip, rows)
    notes = [printable(line).removeprefix(f"{name}: ") for line in ended.lines]
    return {
        "schema": SCHEMA,
        "table": name,
        "csv": "\n".join(map(printable, text.split("\n"))),
        "skip": skip,
        "total_rows": total,
        "note": "\n".join(notes) or None,
    }
