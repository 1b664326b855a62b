"""The first row: screens with their digits, and the state of what is shown."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from textual import events

from perftui.format import middle
from perftui.trace.text import printable
from perftui_tui.keys.all_keys import LONG_NAMES, SCREENS, SHORT_NAMES
from perftui_tui.keys.own_keys import shown_key
from perftui_tui.look.format import elapsed
from perftui_tui.look.rows import Row, Span, crop, row, spread, width
from perftui_tui.reading.snapshot import Phase, Snapshot
from perftui_tui.widgets.row_view import RowView

NAME = " perftui "
STATE_CELLS = 14
"""Cells for the state of a run and the end of its name, and blanks."""


def _cells(names: Sequence[str]) -> int:
    return sum(len(f" {number} {name}") for number, name in enumerate(names, 1)) + 1


LONG_FROM = len(NAME) + _cells(LONG_NAMES) + STATE_CELLS
"""Columns from which the full names of all screens fit beside the state."""

SHORT_FROM = _cells(SHORT_NAMES) + STATE_CELLS
"""Columns from which short names fit; below it digits are shown, and behind them the name of the
current screen."""

FACTS_FROM = 100
"""Columns from which our own name fits as well, and the state is shown in full."""


def tabs(current: str, cells: int) -> list[tuple[str, Span]]:
    """Each screen with the span of its tab, which is as wide whether the screen is shown or not."""
    keys = [shown_key(f"app.show('{screen}')") for screen in SCREENS]
    names = _names(keys, cells)
    spans = []
    lead = " "
    for key, screen, name in zip(keys, SCREENS, names or [""] * len(keys), strict=True):
        label = f"{lead}{key} {name}" if name else f"{lead}{key}"
        is_current = screen == current
        spans.append((screen, (f"{label} ", "selected") if is_current else (label, "")))
        lead = "" if is_current else " "
    return spans


def _names(keys: Sequence[str], cells: int) -> Sequence[str]:
    """The names that fit behind ``keys``; none where there is room for digits only."""
    # A person's own keys may be longer than a digit.
    cells -= sum(map(cell_len, keys)) - len(keys)
    if cells >= LONG_FROM:
        return LONG_NAMES
    return SHORT_NAMES if cells >= SHORT_FROM else ()


def _left(current: str, cells: int) -> Row:
    """Our name, the tabs, and where these are digits only the name of the current screen."""
    spans = (span for _, span in tabs(current, cells))
    keys = [shown_key(f"app.show('{screen}')") for screen in SCREENS]
    name = "" if _names(keys, cells) else f"  {LONG_NAMES[SCREENS.index(current)]}"
    return row((app_name(cells), "accent"), *spans, f"{name} ")


def app_name(cells: int) -> str:
    """Our name, where there is room for it."""
    return NAME if cells >= FACTS_FROM else ""


def state(snapshot: Snapshot | None, paused: bool, *, short: bool = False) -> Span:
    """The state of what is shown, as one word."""
    if snapshot is None:
        return ("reading", "dim")
    code = snapshot.manifest.exit_code if snapshot.manifest else None
    spans: dict[Phase, Span] = {
        Phase.STARTING: ("● starting", "accent"),
        Phase.LIVE: ("● live", "good"),
        Phase.ENDED: (f"ended (exit {code})", "dim"),
        Phase.FAILED: ("not started" if code is None else f"failed (exit {code})", "bad"),
        Phase.KILLED: (f"killed (exit {code})", "bad"),
        Phase.STOPPED: ("stopped", "dim"),
        Phase.LOST: ("recorder lost", "bad"),
        Phase.TRACE: ("trace", "dim"),
    }
    if snapshot.is_memory_alone:
        return ("memory", "dim")
    if snapshot.as_of is not None:
        return (f"at {elapsed(snapshot.elapsed_ns)}", "accent")
    if paused and snapshot.phase.is_live:
        return ("▏▏paused", "warn")
    text, style = spans[snapshot.phase]
    if short:
        # A bare number would not say that a run ended.
        text = text.removeprefix("ended (").replace("(exit ", "").rstrip(")")
        text = text.removeprefix("recorder ")
    return (text, style)


def header(
    snapshot: Snapshot | None,
    current: str,
    paused: bool,
    replay: bool,
    cells: int,
    trail: Sequence[str] = (),
) -> Row:
    """The whole row: the tabs, the run and its state; where there is room with the screens that led
    here, steps and time."""
    left, is_short = _left(current, cells), cells < FACTS_FROM
    right = row(state(snapshot, paused, short=is_short), " ")
    if snapshot is None:
        return spread(left, right, cells)
    if replay and not is_short and snapshot.phase is not Phase.TRACE:
        right = row(("replay ", "dim"), *right)
    room = cells - width(left) - width(right) - 1
    name = middle(printable(snapshot.name), room)
    way = crumbs(trail, current, room - cell_len(name) - 2)
    facts = _facts(snapshot, room - cell_len(name) - (cell_len(way) + 2 if way else 0) - 2)
    text = "  ".join(filter(None, (way, name, facts)))
    return spread(left, row((f"{text} " if text else "", "dim"), *right), cells)


def crumbs(trail: Sequence[str], current: str, room: int) -> str:
    """The screens that led here, ``Overview > Diagnosis > Timeline``: the last of them at least."""
    if not trail:
        return ""
    names = [LONG_NAMES[SCREENS.index(name)] for name in (*trail, current)]
    ways = (" > ".join(kept) for kept in (names, ["...", *names[-2:]], names[-2:]))
    return next((way for way in ways if cell_len(way) <= room), "")


def _facts(snapshot: Snapshot, room: int) -> str:
    """The most important ones that fit."""
    if snapshot.run is None:
        return ""
    facts = [f"step {snapshot.train_steps:,}", elapsed(snapshot.elapsed_ns)]
    if snapshot.rank_number:
        facts.insert(0, f"rank {snapshot.rank_number}")
    texts = ("  ".join(facts[:count]) for count in range(len(facts), 0, -1))
    return next((text for text in texts if cell_len(text) <= room), "")


class HeaderLine(RowView):
    """Draws ``header``; a click on a screen's name goes there."""

    DEFAULT_CSS = """
    HeaderLine { height: 1; background: $panel; dock: top; overflow: hidden hidden; }
    """

    def __init__(self, current: str) -> None:
        super().__init__(id="header")
        self._current = current
        self.show(None, False, False, ())

    def show(
        self, snapshot: Snapshot | None, paused: bool, replay: bool, trail: tuple[str, ...]
    ) -> None:
        """Draw the state of ``snapshot``, and the screens that led here."""
        current = self._current
        self.draw(lambda cells, _: [header(snapshot, current, paused, replay, cells, trail)])

    def show_progress(self, text: str) -> None:
        cells = self.size.width
        right = crop(row((f"{text} ", "accent")), cells)
        left = _left(self._current, cells)
        self.rows = [spread(left if width(left) + width(right) <= cells else (), right, cells)]

    async def on_click(self, event: events.Click) -> None:
        left = len(app_name(self.size.width))
        for screen, (text, _) in tabs(self._current, self.size.width):
            if left <= event.x < left + len(text):
                await self.run_action(f"app.show('{screen}')")
            left += len(text)
