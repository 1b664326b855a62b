"""The command in a real terminal, for whole-program tests."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.sooner import start_sooner
from tests.terminal import Terminal

__all__ = ["perftui", "start_sooner"]


@pytest.fixture
def perftui(tmp_path: Path) -> Iterator[Callable[..., Terminal]]:
    """Starts ``perftui ARGUMENTS`` in a terminal of its own, in ``tmp_path``."""
    opened: list[Terminal] = []

    def start(*arguments: str, columns: int = 120, rows: int = 40) -> Terminal:
        command = [sys.executable, "-m", "perftui_tui", *arguments]
        terminal = Terminal(command, tmp_path, columns, rows)
        opened.append(terminal)
        return terminal

    yield start
    for terminal in opened:
        terminal.close()
