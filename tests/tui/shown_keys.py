"""Pressing only what the screen names: for tests that stand for a person who sees it first."""

from __future__ import annotations

import re

from textual.pilot import Pilot

from perftui_tui.app import PerftuiApp
from tests.tui.driving import text_of

PRESSED_AS = {"?": "question_mark", "/": "slash", "<": "less_than_sign"}
"""How Textual calls the keys that are shown as a sign."""

GLANCE = 3.0
"""Seconds for a screen that was just opened to draw its footer on a slow machine."""


class NotShownError(AssertionError):
    """The screen does not say that the key does this."""


def says(text: str, key: str, words: str) -> bool:
    """Whether ``text`` shows ``key`` as a word of its own, directly before ``words``."""
    return re.search(rf"(?<!\S){re.escape(key)} +{re.escape(words)}", text) is not None


async def press_shown(pilot: Pilot[None], key: str, words: str) -> None:
    """Press ``key``, which the screen must show together with what it does, ``words``."""
    app = pilot.app
    assert isinstance(app, PerftuiApp)
    for _ in range(int(GLANCE / 0.05)):
        if says(text_of(app), key, words):
            break
        await pilot.pause(0.05)
    else:
        raise NotShownError(f"{key!r} ({words}) is not on screen:\n{text_of(app)}")
    await pilot.press(PRESSED_AS.get(key, key))
