"""What a command prints, run in this process."""

from __future__ import annotations

import io
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass

from perftui_tui.cli import main


@dataclass(frozen=True)
class Printed:
    """What a command prints on stdout, on both streams in their order, and its exit code."""

    out: str
    both: str
    code: int


class Both(io.StringIO):
    """Keeps what is written, and adds it to what ``both`` keeps."""

    def __init__(self, both: io.StringIO) -> None:
        super().__init__()
        self._both = both

    def write(self, text: str) -> int:
        self._both.write(text)
        return super().write(text)


def printed(words: list[str]) -> Printed:
    both = io.StringIO()
    with redirect_stdout(Both(both)) as out, redirect_stderr(Both(both)):
        code = main(words)
    return Printed(out.getvalue(), both.getvalue(), code)
