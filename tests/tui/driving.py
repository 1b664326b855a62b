"""Driving the app in tests: open it on a path, press keys, read the screen as text."""

from __future__ import annotations

import io
import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest
from rich.segment import Segment
from textual.color import Color
from textual.pilot import Pilot

from perftui.trace.rank_files import RankFile
from perftui_tui.app import PerftuiApp
from perftui_tui.cli import main
from perftui_tui.commands.mcp_answer import Ended, Tell
from perftui_tui.look.themes import AsciiFilter
from tests.tui.recorded import NOW

PATIENCE = 30.0


def text_of(app: PerftuiApp) -> str:
    """What is on screen, row by row."""
    strips = app.screen._compositor.render_strips()
    return "\n".join("".join(segment.text for segment in strip) for strip in strips)


def in_ascii(*rows: str) -> list[str]:
    """Rows as a terminal without block characters shows them; each character has a likeness."""
    drawn = AsciiFilter().apply([Segment(row) for row in rows], Color(0, 0, 0))
    assert not any("?" in segment.text for segment in drawn)
    return [segment.text for segment in drawn]


async def until(pilot: Pilot[None], condition: Callable[[], object], what: str = "") -> None:
    """Wait for ``condition``, and fail with the screen, or with what ended the app, where it does
    not come true."""
    for _ in range(int(PATIENCE / 0.05)):
        if condition():
            return
        await pilot.pause(0.05)
        crash = getattr(pilot.app, "crash", None)
        if crash is not None:
            raise AssertionError(f"the app ended while it waited for {what}") from crash
    app = pilot.app
    raise AssertionError(f"waited in vain for {what or condition}:\n{text_of(app)}")


async def until_shown(pilot: Pilot[None], *every: str) -> None:
    """Wait until all of these words are on screen, one after the other."""
    for words in every:
        await until(pilot, lambda words=words: words in text_of(pilot.app), repr(words))


async def until_on(pilot: Pilot[None], screen: str) -> None:
    """Wait until the screen of this name is shown."""
    await until(pilot, lambda: pilot.app.current_mode == screen, screen)


async def press(pilot: Pilot[None], *keys: str, screen: str = "", until: str = "") -> None:
    """Press ``keys``, and wait for a screen by its name, or until words are shown."""
    await pilot.press(*keys)
    if screen:
        await until_on(pilot, screen)
    await until_shown(pilot, until)


async def close(pilot: Pilot[None], shown: str = "", *, key: str = "escape") -> None:
    """Press ``key``, which the screen must show with the words ``shown``, and wait until no dialog
    is open."""
    await (press_shown(pilot, key, shown) if shown else pilot.press(key))
    await until(pilot, lambda: len(pilot.app.screen_stack) == 1, "no dialog")


async def settled(pilot: Pilot[None]) -> str:
    """The screen once no work runs behind it and it has stood still for 0.3 s."""
    app = pilot.app
    drawn = ""
    while drawn != text_of(app):
        await until(pilot, lambda: all(work.is_finished for work in app.workers), "the work's end")
        drawn = text_of(app)
        await pilot.pause(0.3)
    return drawn


@asynccontextmanager
async def opened(
    target: Path,
    size: tuple[int, int] = (120, 40),
    *,
    ranks: tuple[RankFile, ...] = (),
    **options: Any,
) -> AsyncIterator[tuple[PerftuiApp, Pilot[None]]]:
    """The app on ``target``, made with these options, with its first snapshot on screen."""
    app = PerftuiApp(target, clock=lambda: NOW, **options)
    app.ranks = ranks
    async with app.run_test(size=size, notifications=True) as pilot:
        await until(pilot, lambda: app.snapshot is not None, "a snapshot")
        await pilot.pause()
        yield app, pilot


PRESSED_AS = {"?": "question_mark", "/": "slash", "<": "less_than_sign"}
"""How Textual calls the keys that are shown as a sign."""

GLANCE = 3.0
"""Seconds for a screen that was just opened to draw its footer on a slow machine."""


class NotShownError(AssertionError):
    """The screen does not say that the key does this."""


def says(text: str, key: str, words: str) -> bool:
    """Whether ``text`` shows ``key`` as a word of its own, directly before ``words``."""
    return re.search(rf"(?<!\S){re.escape(key)} +{re.escape(words)}", text) is not None


async def press_shown(pilot: Pilot[None], key: str, words: str, *, until: str = "") -> None:
    """Press ``key``, which the screen must show together with what it does, ``words``, and wait
    until what comes of it is shown."""
    app = pilot.app
    for _ in range(int(GLANCE / 0.05)):
        if says(text_of(app), key, words):
            break
        await pilot.pause(0.05)
    else:
        raise NotShownError(f"{key!r} ({words}) is not on screen:\n{text_of(app)}")
    await pilot.press(PRESSED_AS.get(key, key))
    await until_shown(pilot, until)


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
