"""Our commands in the command palette: the screens, the keys of this one, the ranks' traces."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING

from textual.app import SystemCommand
from textual.dom import DOMNode
from textual.screen import Screen

from perftui.trace.text import printable
from perftui_tui.keys.keymap import current_keys
from perftui_tui.keys.table import LONG_NAMES, SCREENS

if TYPE_CHECKING:
    from perftui.trace.multi_rank.rank_files import RankFile
    from perftui_tui.screens.session import Session


def palette_commands(app: Session, screen: Screen[object]) -> Iterator[SystemCommand]:
    """The screens, then the keys of ``screen``, then the ranks whose traces can be opened."""
    for name, title in zip(SCREENS, LONG_NAMES, strict=True):
        yield SystemCommand(title, f"The {title} screen", _show(app, name))
    # A key may stand in several parts; the one that has the focus comes first.
    waiting = {(key.action, key.help): key for key in current_keys() if "show(" not in key.action}
    for active in screen.active_bindings.values():
        key = waiting.pop((active.binding.action, active.binding.tooltip), None)
        if key is not None:
            title = f"{key.label} ({key.display})"
            yield SystemCommand(title, key.help, _run(screen, key.action, active.node))
    for file in app.ranks if len(app.ranks) > 1 else ():
        yield SystemCommand(f"Open rank {file.rank}", printable(file.path.name), _open(app, file))


def _show(app: Session, name: str) -> Callable[[], None]:
    return lambda: app.action_show(name)


def _open(app: Session, file: RankFile) -> Callable[[], None]:
    return lambda: app.open(file.path)


def _run(screen: Screen[object], action: str, node: DOMNode) -> Callable[[], Awaitable[bool]]:
    return lambda: screen.app.run_action(action, node)
