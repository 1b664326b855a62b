"""Terminals as they are met: small, large, of few colours or none, and with a shell behind."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from perftui_tui.commands.terminal import has_sixteen_colours
from tests.terminal import Terminal

SCRIPT = """\
import os, time
print("no colour:", os.environ.get("NO_COLOR"), flush=True)
time.sleep(600)
"""
COLOUR = re.compile(rb"\x1b\[[\d;]*?\b(?:3[0-7]|4[0-7]|9[0-7]|10[0-7]|[34]8;[25];[\d;]+)(?:;\d+)*m")
RICH_COLOUR = re.compile(rb"\x1b\[(?:[\d;]*;)?[34]8;[25];")

Open = Callable[..., Terminal]


@pytest.fixture
def shown(tmp_path: Path) -> Iterator[Open]:
    (tmp_path / "job.py").write_text(SCRIPT)
    terminals: list[Terminal] = []

    def open_terminal(*environment: str, size: tuple[int, int] = (120, 40)) -> Terminal:
        command = ["env", *environment, sys.executable, "-m", "perftui_tui", "job.py"]
        terminals.append(Terminal(command, tmp_path, *size))
        return terminals[-1]

    yield open_terminal
    for one in terminals:
        one.press("q")
        one.read(1)
        one.press("s")
        one.wait()
        one.close()


@pytest.mark.slow
@pytest.mark.subprocess
def test_without_colours_there_are_none_and_the_training_knows(shown: Open) -> None:
    terminal = shown("NO_COLOR=1")
    terminal.wait_for("no colour: 1")
    assert COLOUR.findall(terminal.written) == []


@pytest.mark.slow
@pytest.mark.subprocess
def test_a_terminal_of_sixteen_colours_gets_its_own(shown: Open) -> None:
    terminal = shown("TERM=xterm", "COLORTERM=")
    terminal.wait_for("no colour: None")
    assert RICH_COLOUR.findall(terminal.written) == []
    assert COLOUR.findall(terminal.written)


@pytest.mark.slow
@pytest.mark.subprocess
def test_a_small_terminal_says_what_is_needed(shown: Open) -> None:
    terminal = shown(size=(39, 8))
    text = terminal.wait_for("needed  40 x 8")
    assert "now     39 x 8" in text


@pytest.mark.slow
@pytest.mark.subprocess
def test_a_large_terminal_is_used(shown: Open) -> None:
    terminal = shown(size=(300, 80))
    terminal.wait_for("no colour: None")
    lines = terminal.text.splitlines()
    assert "Quit" in lines[-1]
    assert max(map(len, lines)) == 300


@pytest.mark.slow
@pytest.mark.subprocess
def test_the_shell_is_reached_from_a_dialog_too(shown: Open) -> None:
    terminal = shown()
    terminal.wait_for("no colour: None")
    terminal.press("?")
    terminal.wait_for("Help: overview")
    terminal.press("\x1a")
    terminal.wait_for_stop()
    os.kill(terminal.process.pid, signal.SIGCONT)
    terminal.wait_for("Help: overview")
    terminal.press("\x1b")
    terminal.wait_for(lambda text: "Help: overview" not in text)


@pytest.mark.parametrize(
    ("environment", "few"),
    [
        ({"TERM": "xterm-256color"}, False),
        ({"TERM": "xterm", "COLORTERM": "truecolor"}, False),
        ({"TERM": "xterm-kitty"}, False),
        ({"TERM": "xterm"}, True),
        ({"TERM": "screen"}, True),
        ({"TERM": "linux"}, True),
        ({}, True),
    ],
)
def test_few_colours(environment: dict[str, str], few: bool) -> None:
    assert has_sixteen_colours(environment) is few
