"""The script's output: its tail, cut into lines as a terminal would, and posted while it grows."""

from __future__ import annotations

import codecs
import re
from collections import deque
from dataclasses import dataclass
from pathlib import Path

from perftui.run.files import open_regular
from perftui_tui.reading.source import Newest, Post, ReadingThread, SourceFailed

# Understood: newline, carriage return, backspace, tab, and the CSI sequences for cursor up, down,
# right, left, column, and erase in line. Every other escape sequence is dropped whole.

SCREEN_ROWS = 50
"""Rows that a progress bar may reach up; lines above are finished."""

LONGEST_LINE = 4096
"""Cells kept of one line: output without newlines must not grow without bound."""

LONGEST_SEQUENCE = 4096
"""Characters to wait for the end of an escape sequence; a longer one was none."""

TAB = 8

# Escape sequences, complete: CSI, then strings (OSC, DCS, ...) ended by BEL or ST, then the rest.
SEQUENCE = (
    r"\x1b\[[0-?]*[ -/]*[@-~]"
    r"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)"
    r"|\x1b[ -/]*[0-OQ-WYZ\\`-~]"
)
PIECE = re.compile(rf"[^\x00-\x1f\x7f]+|{SEQUENCE}|[\x00-\x1a\x1c-\x1f\x7f]|\x1b")
UNFINISHED = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|[\]PX^_][^\x07\x1b]*\x1b?|[ -/]*)?\Z")
CSI = re.compile(r"\x1b\[([0-9]*)(?:;[0-9]*)*([A-DGK])\Z")
PLAIN = re.compile(r"[^\x00-\x09\x0b\x0c\x0e-\x1f\x7f\r]*\Z")


class LineBuffer:
    """Feed it text; it returns the lines that have scrolled off its screen, finished for good."""

    def __init__(self, rows: int = SCREEN_ROWS) -> None:
        self._rows = rows
        self._lines = [""]
        self._row = 0
        self._column = 0
        self._pending = ""
        self._finished: list[str] = []

    @property
    def lines(self) -> tuple[str, ...]:
        """The screen, top to bottom; the last line is empty right after a newline."""
        return tuple(line.rstrip() for line in self._lines)

    def feed(self, text: str) -> list[str]:
        """Take in ``text``; returns the lines that it pushed off the top of the screen."""
        text = self._pending + text
        unfinished = UNFINISHED.search(text)
        keep = unfinished is not None and len(unfinished.group()) <= LONGEST_SEQUENCE
        cut = unfinished.start() if unfinished and keep else len(text)
        text, self._pending = text[:cut], text[cut:]
        text = text.replace("\r\n", "\n")
        if PLAIN.match(text) and self._row == len(self._lines) - 1:
            # Text of whole lines at the bottom, the common case, without looking at each piece.
            first, *rest = text.split("\n")
            self._write(first)
            if rest:
                self._lines += [line[:LONGEST_LINE] for line in rest]
                excess = max(0, len(self._lines) - self._rows)
                self._finished += (line.rstrip() for line in self._lines[:excess])
                del self._lines[:excess]
                self._row = len(self._lines) - 1
                self._column = len(self._lines[-1])
        else:
            for piece in PIECE.findall(text):
                self._take(piece)
        finished, self._finished = self._finished, []
        return finished

    def _take(self, piece: str) -> None:
        if piece[0] >= " " and piece[0] != "\x7f":
            self._write(piece)
        elif piece in "\n\x0b\x0c":
            self._column = 0
            self._row += 1
            if self._row == len(self._lines):
                self._lines.append("")
            if len(self._lines) > self._rows:
                self._finished.append(self._lines.pop(0).rstrip())
                self._row -= 1
        elif piece == "\r":
            self._column = 0
        elif piece == "\b":
            self._column = max(0, self._column - 1)
        elif piece == "\t":
            self._column = min((self._column // TAB + 1) * TAB, LONGEST_LINE)
        elif match := CSI.match(piece):
            self._control(match[2], match[1])

    def _write(self, text: str) -> None:
        if not text:
            return
        line, at = self._lines[self._row], self._column
        text = text[: max(0, LONGEST_LINE - at)]
        self._lines[self._row] = line[:at].ljust(at) + text + line[at + len(text) :]
        self._column = at + len(text)

    def _control(self, code: str, argument: str) -> None:
        count = int(argument[:6]) if argument else 0
        if code == "K":
            line, at = self._lines[self._row], self._column
            if count == 0:
                self._lines[self._row] = line[:at]
            elif count == 1:
                self._lines[self._row] = " " * min(at + 1, len(line)) + line[at + 1 :]
            elif count == 2:
                self._lines[self._row] = ""
        elif code == "G":
            self._column = min(max(count, 1) - 1, LONGEST_LINE)
        elif code == "A":
            self._row = max(0, self._row - max(count, 1))
        elif code == "B":
            # Down to the screen's last row at most; rows never written are empty.
            self._row = min(self._row + max(count, 1), self._rows - 1)
            self._lines += [""] * (self._row + 1 - len(self._lines))
        elif code == "C":
            self._column = min(self._column + max(count, 1), LONGEST_LINE)
        else:
            self._column = max(0, self._column - max(count, 1))


LINES_KEPT = 20_000
"""Lines in memory; the file has them all."""

READ_LIMIT = 4 * 1024 * 1024
"""Bytes read at once, and how far before its end a longer file is entered."""


@dataclass(frozen=True)
class Output:
    """What the script has printed so far, or the newest part of it."""

    lines: tuple[str, ...] = ()
    """Oldest first; the last may still change: a progress bar has no newline yet."""
    dropped: int = 0
    """Lines before these that are not kept."""
    skipped_bytes: int = 0
    """Bytes at the beginning of the file that were not read, so that opening it is quick."""


@dataclass(eq=False)
class OutputReceived(Newest):
    """The script has printed more."""

    output: Output


class OutputTail:
    """Tails the file at ``path``, which may not exist yet."""

    def __init__(self, path: Path, lines_kept: int = LINES_KEPT) -> None:
        self._path = path
        self._offset = 0
        self._skipped = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._buffer = LineBuffer()
        self._ring: deque[str] = deque(maxlen=lines_kept)
        self._finished = 0

    def poll(self) -> bool:
        """Read what was added, at most ``READ_LIMIT`` bytes; whether there was anything. Raises
        OSError if the file is there but cannot be read."""
        try:
            with open_regular(self._path) as file:
                size = file.seek(0, 2)
                if not self._offset and size > READ_LIMIT:
                    self._offset = self._skipped = size - READ_LIMIT
                file.seek(self._offset)
                data = file.read(READ_LIMIT)
        except FileNotFoundError:
            return False
        self._offset += len(data)
        finished = self._buffer.feed(self._decoder.decode(data))
        self._finished += len(finished)
        self._ring.extend(finished)
        return bool(data)

    def view(self) -> Output:
        """The lines that are kept, as a value that later polls do not change."""
        screen = self._buffer.lines
        if screen and not screen[-1]:
            screen = screen[:-1]
        dropped = self._finished - len(self._ring)
        return Output((*self._ring, *screen), dropped, self._skipped)


POLL_SECONDS = 0.25
"""Fast enough to look alive; a busier terminal makes keys lag over SSH."""

TRIES = 20
"""Failed reads in a row before it is reported: five seconds, as for the run itself."""


class OutputSource(ReadingThread):
    """Tails ``path`` until stopped; while it cannot be read, it is tried again and again."""

    def __init__(self, path: Path, post: Post) -> None:
        super().__init__(path, post)
        self._tail = OutputTail(path)

    def read(self) -> None:
        """Post what was printed, as often as there is more."""
        failures = 0
        while not self.stopped.is_set():
            try:
                if self._tail.poll():
                    self.report(OutputReceived(self._tail.view()))
                failures = 0
            except OSError as error:
                failures += 1
                if failures == TRIES:
                    reason = f"the script's output cannot be read: {error}"
                    self.report(SourceFailed(reason, is_all=False))
            self.stopped.wait(POLL_SECONDS)
