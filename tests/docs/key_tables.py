"""Keys and numbers of the screens, from the tables that feed the app and its help."""

from __future__ import annotations

from perftui.report.markdown_text import code, plain, table
from perftui_tui.keys.help_texts import BY_SCREEN
from perftui_tui.keys.keymap import hint
from perftui_tui.keys.overrides import written
from perftui_tui.keys.table import KEYS, Key

SCOPES = tuple(dict.fromkeys(key.scope for key in KEYS))
"""Where keys work, in the order of the table."""


def keys(*scopes: str) -> str:
    """The keys of these scopes as one table."""
    rows = [(_named(key), plain(key.help)) for key in KEYS if key.scope in scopes]
    return "\n".join(table(("Key", "What it does"), rows))


def numbers(screen: str) -> str:
    """What each number of a screen means, as its help says it."""
    entries = BY_SCREEN[screen]
    return "\n".join(f"- **{plain(one.name)}.** {plain(hint(one.text))}" for one in entries)


def _named(key: Key) -> str:
    _, *others = key.keys.split(",")
    return " ".join(map(code, (key.display, *map(written, others))))
