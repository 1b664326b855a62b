"""Our commands in the command palette: the screens, the keys of this one, the ranks' traces."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from textual.app import SystemCommand
from textual.screen import Screen

from perftui.trace.text import printable
from perftui_tui.keys.keymap import current_keys
from perftui_tui.keys.table import LONG_NAMES, SCREENS

if TYPE_CHECKING:
    from perftui_tui.screens.session import Session


def palette_commands(app: Session, screen: Screen[object]) -> Iterator[SystemCommand]:
    """The screens, then the keys of ``screen``, then the ranks whose traces can be opened."""
    for name, title in zip(SCREENS, LONG_NAMES, strict=True):
        yield SystemCommand(title, f"The {title} screen", partial(app.action_show, name))
    # A key may stand in several parts; the one that has the focus comes first.
    waiting = {(key.action, key.help): key for key in current_keys() if "show(" not in key.action}
    for active in screen.active_bindings.values():
        key = waiting.pop((active.binding.action, active.binding.tooltip), None)
        if key is not None:
            title = f"{key.label} ({key.display})"
            run = partial(screen.app.run_action, key.action, active.node)
            yield SystemCommand(title, key.help, run)
    for file in app.ranks if len(app.ranks) > 1 else ():
        run_open = partial(app.open, file.path)
        yield SystemCommand(f"Open rank {file.rank}", printable(file.path.name), run_open)
