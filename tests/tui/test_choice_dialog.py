"""A dialog that is told to show something else, at any time of its life."""

from textual.app import App

from perftui_tui.dialogs.choice import Choice, ChoiceDialog
from perftui_tui.look.rows import row
from perftui_tui.look.themes import THEMES
from perftui_tui.widgets.row_view import RowView


class Host(App[None]):
    """An app with the colours of ours."""

    def on_load(self) -> None:
        """Colours come before the first screen."""
        self.register_theme(THEMES[0])
        self.theme = THEMES[0].name


CHOICES = (Choice(("enter",), "Go on", "yes"),)


async def test_it_shows_something_else() -> None:
    app = Host()
    async with app.run_test() as pilot:
        dialog = ChoiceDialog("A question", [row("before")], CHOICES)
        await app.push_screen(dialog)
        dialog.change([row("after")], CHOICES)
        await pilot.pause()
        assert dialog.query_one("#body", RowView).rows == (row("after"),)


async def test_it_is_told_before_it_has_parts_and_after_it_lost_them() -> None:
    app = Host()
    async with app.run_test():
        dialog = ChoiceDialog("A question", [row("before")], CHOICES)
        dialog.change([row("early")], CHOICES)
        await app.push_screen(dialog)
        await dialog.query("#choices").remove()
        dialog.change([row("late")], CHOICES)
        assert dialog.query_one("#body", RowView).rows == (row("early"),)
