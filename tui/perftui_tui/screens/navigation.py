"""The part of the app that knows the screens: which is shown, and which led to it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

from textual.screen import Screen

from perftui_tui.keys.table import SCREENS
from perftui_tui.screens.run_screen import RunScreen
from perftui_tui.widgets.notification import NotifyingApp

if TYPE_CHECKING:
    from perftui_tui.dialogs.choice import ChoiceDialog


def _make(name: str) -> Screen[None]:
    """A screen, imported on its first visit, to keep the first frame quick."""
    module = import_module(f"perftui_tui.screens.{name}.screen")
    screen: Screen[None] = getattr(module, f"{name.capitalize()}Screen")()
    return screen


class NavigatingApp(NotifyingApp):
    """Goes from screen to screen, and back."""

    MODES: ClassVar[dict[str, str | Callable[[], Screen[Any]]]] = {
        name: partial(_make, name) for name in SCREENS
    }
    DEFAULT_MODE = SCREENS[0]

    def __init__(self) -> None:
        super().__init__()
        self._place: tuple[int, int, int | None] | None = None
        self._fix: tuple[str, str] | None = None
        self.trail: tuple[str, ...] = ()
        """The screens that led to this one, the first of them first: where ``back`` goes."""

    def refresh_screen(self) -> None:
        """Draw the current state again."""
        screen = self.base_screen()
        if screen is not None:
            with self.batch_update():
                screen.refresh_state()

    @property
    def is_asking(self) -> bool:
        """Whether a dialog is open."""
        return not isinstance(self.screen, RunScreen)

    def ask(self, dialog: ChoiceDialog, answered: Callable[[str | None], None]) -> None:
        """Show ``dialog``, unless another one is open."""
        if not self.is_asking:
            self.push_screen(dialog, answered)

    def on_thread(self, work: Callable[[], None]) -> None:
        """Run ``work`` on a thread; ``on_worker_state_changed`` notifies of its errors."""
        self.run_worker(work, thread=True, exit_on_error=False)

    def base_screen(self) -> RunScreen | None:
        """The run screen, also under a dialog."""
        return next((s for s in reversed(self.screen_stack) if isinstance(s, RunScreen)), None)

    def action_show(self, name: str) -> None:
        """Go to a screen by its name; it was chosen, so no way leads back from it."""
        self._go(name, ())

    def follow(self, name: str) -> None:
        """Go to the screen that something on this one leads to; ``backspace`` leads back."""
        if self.current_mode != name:
            self._go(name, (*self.trail, self.current_mode))

    def _go(self, name: str, trail: tuple[str, ...]) -> None:
        if self.is_asking:
            return
        self.trail = trail
        if self.current_mode != name:
            self.switch_mode(name)
        else:
            self.refresh_screen()

    def action_next_screen(self, step: int) -> None:
        """Go to the next screen, or by ``step`` -1 to the one before."""
        at = SCREENS.index(self.current_mode)
        self.action_show(SCREENS[(at + step) % len(SCREENS)])

    def go_to_place(self, start: int, end: int, row: int | None = None) -> None:
        """Show an interval of the trace (ns since its start) on the timeline."""
        self._place = (start, end, row)
        self.follow("timeline")

    def go_to_fix(self, rule: str, fix: str) -> None:
        """Show a finding by its rule, and one of its fixes, on the Diagnosis screen."""
        self._fix = (rule, fix)
        self.follow("diagnosis")

    def take_fix(self) -> tuple[str, str] | None:
        """The finding and the fix to show, returned once."""
        found, self._fix = self._fix, None
        return found

    def action_return(self) -> None:
        """Back to the screen that led here."""
        if self.trail:
            self._go(self.trail[-1], self.trail[:-1])

    def take_place(self) -> tuple[int, int, int | None] | None:
        """The interval to show, returned once."""
        place, self._place = self._place, None
        return place
