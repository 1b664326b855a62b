"""What the help of each screen says, its keys and its numbers: from what the app itself shows."""

from __future__ import annotations

import re
from importlib import import_module

from perftui.report.markdown import code, plain, table
from perftui_tui.keys.all_keys import KEYS, Key
from perftui_tui.keys.help_texts import BY_SCREEN
from perftui_tui.keys.own_keys import key_in_file, shown_key
from tests.docs.reference import prose

SCOPES = tuple(dict.fromkeys(key.scope for key in KEYS))
"""Where keys work, in the order of the table."""

_NAMED = re.compile(r"\{([a-z_.]+(?:\([^{}]*\))?)\}")
"""An action whose key a text of the app shows."""


def about(screen: str) -> str:
    """What the help of a screen says about it."""
    module = import_module(f"perftui_tui.screens.{screen}")
    return _text(getattr(module, f"{screen.title()}Screen").HELP)


def keys(*scopes: str) -> str:
    """The keys of these scopes as one table."""
    rows = [(_named(key), prose(key.help)) for key in KEYS if key.scope in scopes]
    return "\n".join(table(("Key", "What it does"), rows))


def numbers(screen: str) -> str:
    """What each number of a screen means, as its help says it."""
    entries = BY_SCREEN[screen]
    return "\n".join(f"- **{plain(one.name)}.** {_text(one.text)}" for one in entries)


def _named(key: Key) -> str:
    _, *others = key.keys.split(",")
    return " ".join(map(code, (key.display, *map(key_in_file, others))))


def _text(text: str) -> str:
    *parts, last = _NAMED.split(text)
    pairs = zip(parts[::2], parts[1::2], strict=True)
    return "".join(f"{prose(before)}{code(shown_key(name))}" for before, name in pairs) + prose(
        last
    )
