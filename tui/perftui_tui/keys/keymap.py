"""Which keys work where: bindings and help, made from the table of keys."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from textual.binding import Binding, BindingType

from perftui_tui.keys.overrides import Overrides, written
from perftui_tui.keys.table import KEYS, Key

if TYPE_CHECKING:
    from perftui_tui.reading.snapshot import Snapshot

NEEDS_A_RUN = frozenset({"try_fix", "tune", "write_fix", "undo_fix", "rerun", "playback"})
NEEDS_A_RUN_NOW = frozenset({"capture", "pause"})


def useless_actions(snapshot: Snapshot | None) -> frozenset[str]:
    """Actions without effect on what is shown: a trace, an ended run, nothing to fix, no gaps."""
    if snapshot is None:
        return frozenset()
    useless = frozenset() if snapshot.goes_on else NEEDS_A_RUN_NOW
    if snapshot.goes_on or not snapshot.train_steps:
        useless |= {"playback"}
    if snapshot.run is None:
        useless |= NEEDS_A_RUN
    options = [option for found in snapshot.options.values() for option in found]
    if not any(option.is_triable for option in options):
        useless |= {"try_fix", "tune"}
    if not any(option.patch and not option.is_written for option in options):
        useless |= {"write_fix"}
    has_gaps = snapshot.analysis is not None and bool(snapshot.analysis.gaps)
    return useless if has_gaps else useless | {"show_gap"}


_current: tuple[Key, ...] = KEYS


def use(overrides: Overrides) -> None:
    """Take a person's own keys for all that is shown from now on; the app binds them itself."""
    global _current
    _current = tuple(_own(key, overrides) for key in KEYS)


def _own(key: Key, overrides: Overrides) -> Key:
    keys = overrides.keys.get(key.name)
    if keys is None:
        return key
    return replace(key, keys=",".join(keys), shown_as=written(keys[0]))


def current_keys() -> tuple[Key, ...]:
    """The table with a person's own keys."""
    return _current


def shown_key(name: str) -> str:
    """How the key of an action is written in a hint; ``name`` as in ``ops.filter``."""
    return next(key.display for key in _current if key.name == name)


_NAMED = re.compile(r"\{([a-z_]+(?:\.[a-z_]+)+(?:\([^{}]*\))?)\}")
"""An action in a hint, as in ``{app.show('log')}``."""


def hint(text: str) -> str:
    """``text`` with the key of each action that is named in braces: ``{ops.filter} filters``."""
    return _NAMED.sub(lambda found: shown_key(found[1]), text)


def keys_of(scope: str) -> tuple[Key, ...]:
    """The rows of the table for one scope."""
    return tuple(key for key in _current if key.scope == scope)


def keys_on(screen: str) -> tuple[Key, ...]:
    """The rows of the table for a screen and all its parts."""
    return tuple(key for key in _current if key.scope.partition(".")[0] == screen)


def bindings(scope: str) -> list[BindingType]:
    """The bindings of one scope; their ids are what own keys replace them by."""
    return [
        Binding(
            key.keys,
            key.action,
            key.label,
            show=key.in_footer,
            key_display=key.display,
            priority=key.priority,
            tooltip=key.help,
            id=key.name,
        )
        for key in KEYS
        if key.scope == scope
    ]
