"""A question with a few answers, each with its key; to quit, and to delete a run."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.geometry import Region
from textual.screen import ModalScreen

from perftui.run.layout import RUNS_DIRECTORY
from perftui.run.reader import RunEntry
from perftui_tui.look.format import format_bytes
from perftui_tui.look.rows import Row, behind, fold, row, wrap
from perftui_tui.look.rows import width as width_of
from perftui_tui.widgets.row_view import RowView

SHARE = 0.9
"""Share of the screen that a dialog takes at most in either direction."""

LARGEST_WIDTH = 110
PROSE_WIDTH = 70
NARROWEST = 40
FRAME_CELLS = 5
"""Border, padding and scroll bar."""

FRAME_ROWS = 4
"""Border, margins, and a row between body and answers."""


Act = Callable[[], object]


@dataclass(frozen=True)
class Choice:
    """One answer: ``keys`` (the first is shown), its text, and what it does; None for nothing."""

    keys: tuple[str, ...]
    label: str
    act: Act | None = None


@dataclass(frozen=True)
class Prose:
    """Text that is wrapped to the width of the dialog, and never wider than is easy to read."""

    text: str
    style: str = ""
    indent: str = ""
    label: str = ""
    """Shown before the first row; the others stand as far in."""


def yes_or_no(
    keys: tuple[str, ...], yes: str, act: Act, no: str = "not now"
) -> tuple[Choice, Choice]:
    """Two answers with their texts: ``keys`` to ``act``, escape, n or q for nothing."""
    return Choice(keys, yes, act), Choice(("escape", "n", "q"), no)


class ChoiceDialog(ModalScreen[Act | None]):
    """Shows ``body`` and waits for a key of one of ``choices``, or a click on it. Returns what the
    answer does.

    What is in ``below`` stands under the choices: what to know before one of them is taken. Where
    there are many choices that one ``picks`` among, the arrows and enter choose as well."""

    DEFAULT_CSS = Path(__file__).with_suffix(".tcss").read_text()

    def __init__(
        self,
        title: str,
        body: Sequence[Row | Prose],
        choices: Sequence[Choice],
        below: Sequence[Row | Prose] = (),
        *,
        picks: bool = False,
    ) -> None:
        super().__init__()
        self._at = 0 if picks else None
        self._title = title
        self._body = tuple(body)
        self._choices = tuple(choices)
        self._below = tuple(below)

    def compose(self) -> ComposeResult:
        with Vertical() as frame:
            frame.border_title = self._title
            yield RowView(id="body")
            yield RowView(id="choices")
            if self._below:
                yield RowView(id="below")

    def change(self, body: Sequence[Row | Prose], choices: Sequence[Choice]) -> None:
        self._body, self._choices = tuple(body), tuple(choices)
        self._lay_out()

    def on_mount(self) -> None:
        """Fill both parts, now that their sizes can be set, or fold them to the new width."""
        self._lay_out()

    on_resize = on_mount

    @property
    def cells(self) -> int:
        """The width that rows of the body may have."""
        return min(LARGEST_WIDTH, int(self.app.size.width * SHARE)) - FRAME_CELLS

    def _lay_out(self) -> None:
        # A screen that is being taken down loses its parts before it is gone itself, and has none
        # where the app is being left.
        if not self.is_running or len(self.query(RowView)) != 2 + bool(self._below):
            return
        choices = self.query_one("#choices", RowView)
        height, cells = self.app.size.height, self.cells
        parts = [(self.query_one("#body", RowView), _rows(self._body, cells))]
        if self._below:
            parts.append((self.query_one("#below", RowView), _rows(self._below, cells)))
        most = int(height * SHARE) - FRAME_ROWS - len(parts) + 1
        listed = min(len(self._choices), max(1, most - 1))
        room = max(3, most - len(self._choices))
        needed = [len(rows) for _, rows in parts]
        for (view, rows), given in zip(parts, _shared(needed, room), strict=True):
            view.styles.height = given
            view.rows = rows
        choices.styles.height = listed
        choices.rows = [
            row((f" {choice.keys[0]:<6}" if choice.keys else " " * 7, "key"), " ",
                (choice.label, "selected" if at == self._at else ""))
            for at, choice in enumerate(self._choices)
        ]  # fmt: skip
        frame = self.query_one(Vertical)
        shown = (*choices.rows, *(line for _, rows in parts for line in rows))
        frame.styles.width = min(max(NARROWEST, *map(width_of, shown)), cells) + FRAME_CELLS
        frame.border_subtitle = "up and down scroll" if sum(needed) > room else ""

    def on_key(self, event: events.Key) -> None:
        scroll = {"down": 1, "up": -1, "pagedown": 10, "pageup": -10}.get(event.key)
        if self._at is not None and scroll is not None:
            self._at = min(max(self._at + scroll, 0), len(self._choices) - 1)
            self._lay_out()
            choices = self.query_one("#choices", RowView)
            choices.scroll_to_region(Region(0, self._at, 1, 1), animate=False)
            event.stop()
        elif self._at is not None and event.key == "enter":
            event.stop()
            self._take(self._choices[self._at])
            return
        elif scroll is not None:
            for part in self.query("#body, #below").results(RowView):
                part.scroll_relative(y=scroll, animate=False)
            event.stop()
        for choice in self._choices:
            if event.key in choice.keys or event.character in choice.keys:
                event.stop()
                self._take(choice)
                return

    def on_click(self, event: events.Click) -> None:
        choices = self.query_one("#choices", RowView)
        if choices.region.contains(event.screen_x, event.screen_y):
            at = event.screen_y - choices.region.y + choices.scroll_offset.y
            self._take(self._choices[at])

    def _take(self, choice: Choice) -> None:
        # A key that is pressed twice reaches a dialog that is closing already.
        if self.is_current:
            self.dismiss(choice.act)


def _rows(parts: Sequence[Row | Prose], cells: int) -> list[Row]:
    rows: list[Row] = []
    for part in parts:
        if isinstance(part, Prose):
            rows += labelled(part, min(cells, PROSE_WIDTH))
        else:
            rows += fold(part, cells)
    return rows


def _shared(needed: Sequence[int], room: int) -> list[int]:
    """Rows for the body and for what is below the choices, which gets a third at least where both
    need more than there is."""
    if len(needed) == 1:
        return [min(needed[0], room)]
    body, below = needed
    below = min(below, max(room - body, room // 3))
    return [min(body, room - below), below]


def labelled(prose: Prose, cells: int) -> list[Row]:
    """The text in rows of at most ``cells``, the first behind the label."""
    if prose.label and prose.text:
        return behind(row((prose.label, "dim")), prose.text, cells, prose.style)
    return wrap(prose.text, cells, prose.style, prose.indent)


class QuitDialog(ChoiceDialog):
    """Asks what becomes of what still runs; the last answer is to stay."""

    def __init__(self, body: Sequence[Row | Prose], *choices: Choice) -> None:
        stay = Choice(("escape", "c", "q"), "stay here")
        super().__init__("Quit perftui?", body, (*choices, stay))

    @staticmethod
    def leaving(root: Path, leave: Act) -> Choice:
        """Leaves what runs for the run at ``root``, and says what shows it again: elsewhere than in
        this directory that takes a path."""
        project = root.parents[2] if root.parent.parts[-2:] == RUNS_DIRECTORY.parts else root
        at = "" if root.parent == RUNS_DIRECTORY.absolute() else f" {shlex.quote(str(project))}"
        return Choice(("l", "enter"), f"leave it running; perftui attach{at} shows it again", leave)


def quit_dialog(title: str, root: Path, leave: Act, stop: Act) -> QuitDialog:
    """Asks whether to ``leave`` the training running, or to ``stop`` it."""
    body = (
        row(("The training is still running: ", "bold"), title),
        row("It does not need this window and is recorded in"),
        row((str(root), "dim")),
    )
    stops = Choice(("s",), "stop the training (interrupt, like ctrl+c in a shell)", stop)
    return QuitDialog(body, QuitDialog.leaving(root, leave), stops)


def delete_run_dialog(entry: RunEntry, delete: Act) -> ChoiceDialog:
    """Names the run and its size, and asks before it is deleted."""
    name = entry.manifest.name if entry.manifest else None
    size = sum(map(_size, entry.root.rglob("*")))
    body = (
        row((name or entry.run_id, "bold")),
        Prose(str(entry.root), "dim"),
        row(f"{format_bytes(size)} in all; this cannot be undone."),
    )
    return ChoiceDialog("Delete this run?", body, yes_or_no(("y",), "delete it", delete, "keep it"))


def _size(path: Path) -> int:
    """Bytes of a file; what has gone meanwhile counts nothing."""
    try:
        return path.lstat().st_size if path.is_file() else 0
    except OSError:
        return 0
