"""Commands of tools, run in the process of a test: a process for each takes a second."""

import io
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from perftui_tui.cli import main
from perftui_tui.commands.mcp_answer import Ended, Tell


class Commands:
    """Stands in for ``run_command``, and keeps what was run."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []
        self.ended: Ended | None = None
        """What they end with in place of being run."""

    async def __call__(
        self,
        words: Sequence[str],
        told: Tell,
        directory: Path | None = None,  # noqa: ARG002 - as run_command
    ) -> Ended:
        self.asked.append(list(words))
        ended = self.ended or printed(words)
        for line in ended.lines:
            await told(line)
        return ended


def printed(words: Sequence[str]) -> Ended:
    """What the command line prints."""
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
        code = main(list(words))
    return Ended(code, out.getvalue(), tuple(err.getvalue().splitlines()))


def in_process(monkeypatch: pytest.MonkeyPatch) -> Commands:
    """Have tools run their commands here."""
    commands = Commands()
    monkeypatch.setattr("perftui_tui.commands.mcp_answer.run_command", commands)
    return commands
