"""The keys at the bottom of a screen."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import ActiveBinding
from textual.color import Color
from textual.screen import Screen
from textual.strip import Strip
from textual.widget import Widget

from perftui_tui.look.rows import safe
from perftui_tui.widgets.row_view import RowView

NARROW = "-narrow"
"""The class of a screen on which help stays at the right edge, where others have the palette: there
is no room for all keys then, and help names those that are cut off."""


class KeysFooter(Widget):
    """The keys of the screen in one row; a click on one presses it.

    Textual's own has a widget for each key and makes all of them anew whenever a key comes or goes:
    that was a third of the time from the command to the first picture."""

    DEFAULT_CSS = """
    KeysFooter {
        dock: bottom; height: 1; background: $panel; color: $footer-foreground; pointer: pointer;
    }
    """
    ALLOW_SELECT = False

    def __init__(self, *, show_palette: bool = True) -> None:
        super().__init__()
        self._show_palette = show_palette
        self._keys: tuple[ActiveBinding, ...] = ()
        self._palette: ActiveBinding | None = None
        self._under_mouse: ActiveBinding | None = None

    def on_mount(self) -> None:
        self.screen.bindings_updated_signal.subscribe(self, self._changed)

    def on_resize(self) -> None:
        """Draw once more when the screen knows whether it is narrow: it hears of its size later."""
        self.call_after_refresh(self.refresh)

    def _changed(self, screen: Screen[object]) -> None:
        if not self.app.app_focus or screen is not self.screen:
            return
        before = self._keys, self._palette
        active = screen.active_bindings
        self._palette = active.get(self.app.COMMAND_PALETTE_BINDING)
        shown: dict[str, ActiveBinding] = {}
        for key in active.values():
            if key.binding.show:
                # Each action once, with the first of its keys.
                shown.setdefault(key.binding.action, key)
        self._keys = tuple(shown.values())
        if before != (self._keys, self._palette):
            self.refresh()

    def _cells(self, key: ActiveBinding) -> int:
        display = self.app.get_key_display(key.binding)
        return cell_len(display) + cell_len(key.binding.description) + 3

    def _at_edge(self) -> ActiveBinding | None:
        if self.screen.has_class(NARROW):
            return next((key for key in self._keys if key.binding.action == "help"), None)
        if self._show_palette:
            return self._palette
        # A dialog shows its way out.
        return next((key for key in self._keys if key.binding.action == "close"), None)

    def _parts(self) -> tuple[tuple[ActiveBinding, ...], ActiveBinding | None, int]:
        """The keys at the left, the one at the right edge, and the cells for those at the left."""
        edge = self._at_edge()
        room = self.size.width
        if edge is not None:
            line, blank = int(not RowView.ascii_only), int(edge is not self._palette)
            room -= line + self._cells(edge) - 1 + blank
        return tuple(key for key in self._keys if key is not edge), edge, max(0, room)

    def render_line(self, y: int) -> Strip:  # noqa: ARG002 - there is one row
        """The keys that fit whole beside what stays at the edge."""
        keys, edge, room = self._parts()
        base = self.rich_style
        left = Strip(self._segments(self._fitting(keys, room), base)).crop_extend(0, room, base)
        if edge is None:
            return left
        _, ground = self.background_colors
        line = Style(color=ground.blend(self.styles.color, 0.2).rich_color)
        right = Strip(self._segments((edge,), base))
        # The palette's key is right at the line.
        right = right.crop(int(edge is self._palette))
        mark = Strip([] if RowView.ascii_only else [Segment("▏", base + line)])
        return Strip.join([left, mark, right])

    def _fitting(self, keys: Sequence[ActiveBinding], room: int) -> Sequence[ActiveBinding]:
        """The keys that fit: a key without its label means nothing."""
        ends = accumulate(self._cells(key) for key in keys)
        # The blank behind the last one may be left out.
        return [key for key, end in zip(keys, ends, strict=True) if end - 1 <= room]

    def _segments(self, keys: Iterable[ActiveBinding], base: Style) -> list[Segment]:
        foreground = Color.parse(self.app.theme_variables["footer-key-foreground"])
        key_style = base + Style(bold=True, color=foreground.rich_color)
        segments = []
        for key in keys:
            display = self.app.get_key_display(key.binding)
            # Not in colour alone.
            is_marked = key == self._under_mouse
            marks = Style(underline=is_marked or None, dim=None if key.enabled else True)
            (name, _), (label, _) = safe(((display, ""), (key.binding.description, "")))
            segments += [Segment(f" {name} ", key_style + marks), Segment(label, base + marks)]
            segments.append(Segment(" ", base))
        return segments

    def _key_at(self, x: int) -> ActiveBinding | None:
        keys, edge, room = self._parts()
        if x >= room:
            return edge
        right = 0
        for key in self._fitting(keys, room):
            right += self._cells(key)
            if x < right:
                return key
        return None

    def on_mouse_move(self, event: events.MouseMove) -> None:
        self._point_at(self._key_at(event.x))

    def on_leave(self) -> None:
        self._point_at(None)

    def _point_at(self, key: ActiveBinding | None) -> None:
        if key != self._under_mouse:
            self._under_mouse = key
            self.tooltip = (key.tooltip or key.binding.description) if key else None
            self.refresh()

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Press the key that is clicked."""
        key = self._key_at(event.x)
        if key is not None and key.enabled:
            self.app.simulate_key(key.binding.key)
        elif key is not None:
            self.app.bell()
