"""What can be copied or saved from a screen: the selected row, the text, the table."""

from __future__ import annotations

from textual.screen import Screen

from perftui_tui.look.rows import plain, safe
from perftui_tui.screens.playback_bar import PlaybackBar
from perftui_tui.tables.virtual import VirtualTable
from perftui_tui.widgets.header_line import HeaderLine
from perftui_tui.widgets.log_view import LogStatus, LogView
from perftui_tui.widgets.row_view import RowView


def shown_table(screen: Screen[None]) -> VirtualTable | None:
    """The table that has the focus; None where none has."""
    return screen.focused if isinstance(screen.focused, VirtualTable) else None


def text_to_copy(screen: Screen[None]) -> tuple[str, str]:
    """What ``y`` copies, and its name: the selected row, else all text of the screen."""
    table = shown_table(screen)
    if table is not None and table.selected_row is not None:
        # One column a line, also those that do not fit the screen.
        columns = [column for column in table.data.columns if column.bar is None]
        cells = (f"{one.title}: {one.text(table.selected_row).strip()}" for one in columns)
        return "\n".join(cells), "the row"
    for log in screen.query(LogView):
        top = log.scroll_offset.y
        return "\n".join(log.output.lines[top : top + log.size.height]), "what is shown"
    frame = (HeaderLine, PlaybackBar, LogStatus)
    views = [view for view in screen.query(RowView) if not isinstance(view, frame)]
    texts = [_text(view) for view in views if view.display and view.region.area]
    return "\n\n".join(text for text in texts if text), "the text of this screen"


def _text(view: RowView) -> str:
    """All rows, also those to which it would have to be scrolled, below its title."""
    titles = (getattr(one, "border_title", None) for one in (view, view.parent))
    title = next((str(title) for title in titles if title), "")
    rows = [plain(safe(line)).rstrip() for line in view.rows]
    return "\n".join([title] * bool(title and any(rows)) + rows).strip("\n")
