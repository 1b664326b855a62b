"""What all screens share: the header, the footer, and how a snapshot arrives."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, cast

from textual import on, work
from textual.app import ComposeResult, SystemCommand
from textual.geometry import Size
from textual.reactive import reactive
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Input

from perftui.trace.text import printable
from perftui_tui.actions.host import Host
from perftui_tui.dialogs.too_small import NEEDED
from perftui_tui.keys.all_keys import LONG_NAMES, SCREENS
from perftui_tui.keys.own_keys import current_keys, useless_actions
from perftui_tui.look.rows import Row
from perftui_tui.panes.meter import SnapshotPane
from perftui_tui.panes.verdict import verdict_line
from perftui_tui.reading.output import Output
from perftui_tui.reading.snapshot import Snapshot
from perftui_tui.screens.playback_bar import PlaybackBar
from perftui_tui.widgets.header_line import HeaderLine
from perftui_tui.widgets.keys_footer import KeysFooter
from perftui_tui.widgets.row_view import RowView

if TYPE_CHECKING:
    from textual.binding import ActiveBinding

    from perftui.analysis.model import TraceAnalysis
    from perftui.trace.ncu import KernelMetrics
    from perftui.trace.nsys.report import Exporting
    from perftui_tui.actions.other_traces import Baseline, RankTraces
    from perftui_tui.actions.playback import Playback
    from perftui_tui.actions.source_fixes import SourceFixes
    from perftui_tui.actions.trials import Trials
    from perftui_tui.charts.run_charts import Chart


class ExperimentLine(RowView):
    """Draws what it is given; a click opens the trial or the tuning."""

    DEFAULT_CSS = """
    ExperimentLine {
        dock: bottom; height: 1; margin: 0 0 1 0; display: none; background: $panel;
        overflow: hidden hidden; pointer: pointer;
    }
    """

    def show(self, row: Callable[[int], Row] | None) -> None:
        """Draw the row, so many cells wide; without one it goes."""
        self.display = row is not None
        self.draw(None if row is None else lambda cells, _: [row(cells)])

    async def on_click(self) -> None:
        await self.run_action("app.trial")


class Session(Host):
    """The app, as far as screens need it."""

    is_replay: bool
    output: reactive[Output] = reactive(Output(), init=False, repaint=False)
    shows_frames = False
    """Whether what is drawn is shown: not before it is known what is read first."""
    preview: TraceAnalysis | None = None
    """What can be drawn of a trace while the rest of it is read."""
    kernel_metrics: KernelMetrics | None = None
    """What ncu measured of the kernels, where that was given too."""
    trail: tuple[str, ...] = ()
    """The screens that led to this one, the first of them first: where ``back`` goes."""
    place: tuple[int, int, int | None] | None = None
    """Start, end and row to show on the timeline once that is seen."""
    fix: tuple[str, str] | None = None
    """The rule of a finding, and a fix, to show on the Diagnosis screen once that is seen."""
    baseline: Baseline
    playback: Playback
    rank_traces: RankTraces
    source_fixes: SourceFixes
    trials: Trials

    def check_size(self, size: Size) -> None: ...
    def show_rank(self, rank: int) -> None: ...
    def follow(self, name: str) -> None: ...

    def go_to_place(self, start: int, end: int, row: int | None = None) -> None:
        """Show ``start`` to ``end`` (ns since the trace's start) on the timeline."""
        self.place = (start, end, row)
        self.follow("timeline")


class RunScreen(Screen[None]):
    """A screen that shows the app's snapshot, and its newest one whenever it is returned to."""

    NAME: ClassVar[str] = ""
    """One of ``keymap.SCREENS``."""
    HELP: ClassVar[str] = ""
    """What this screen shows and how to read it, for the help panel: a hint, with keys by name."""
    SAYS_VERDICT: ClassVar[bool] = True
    """Whether the verdict stands in one row below the header."""
    NEEDED: ClassVar[Size] = NEEDED
    """Cells and rows below which this screen says that the terminal is too small."""
    PART_WITH_KEYS: ClassVar[type[Widget] | None] = None
    """The part that has the keys where nothing else asks for them; None for the screen."""
    CHART: ClassVar[str] = ""
    """The chart that is opened first from here."""

    DEFAULT_CSS = "RunScreen #verdict-line { height: 1; overflow: hidden hidden; }"

    HORIZONTAL_BREAKPOINTS: list[tuple[int, str]] | None = [  # noqa: RUF012 - Textual declares it as a list
        (0, "-narrow"),
        (100, "-normal"),
        (160, "-wide"),
    ]
    VERTICAL_BREAKPOINTS: list[tuple[int, str]] | None = [(0, "-short"), (34, "-tall")]  # noqa: RUF012

    snapshot: reactive[Snapshot | None] = reactive(
        None, init=False, repaint=False, always_update=True
    )
    """What is on screen; assigning it is the only way in."""

    _useless: frozenset[str] = frozenset()

    is_composed = False
    """Whether all widgets are there: a snapshot may arrive while a screen is being made."""

    @property
    def session(self) -> Session:
        return cast("Session", self.app)

    def compose(self) -> ComposeResult:
        # Before styles are first worked out: Textual gives the classes of this size afterwards, and
        # then works all styles out once more.
        across, down = self.HORIZONTAL_BREAKPOINTS or [], self.VERTICAL_BREAKPOINTS or []
        for breakpoints, cells in zip((across, down), self.app.size, strict=True):
            name = max((one for one in breakpoints if one[0] <= cells), default=(0, ""))[1]
            self.update_classes({name: True} if name else {}, update=False)
        yield HeaderLine(self.NAME)
        if self.SAYS_VERDICT:
            yield SnapshotPane(verdict_line, id="verdict-line")
        yield from self.body()
        yield ExperimentLine(id="experiment-line")
        yield PlaybackBar(self.session.playback)
        # The palette's mark in the footer is a block character.
        yield KeysFooter(show_palette=not RowView.ascii_only)

    def _compositor_refresh(self) -> None:
        # Textual draws a screen for its first size, and never shows that: 0.06 s on a slow machine.
        if self.session.shows_frames:
            super()._compositor_refresh()

    def body(self) -> Iterable[Widget]:
        """The widgets between header and footer."""
        raise NotImplementedError

    def on_mount(self) -> None:
        self.is_composed = True
        self.refresh_state()

    def on_screen_resume(self) -> None:
        self.refresh_state()
        self.session.check_size(self.app.size)
        self.session.trials.compare_when_steady()
        part = self.query_one(self.PART_WITH_KEYS) if self.PART_WITH_KEYS else None
        if self.session.playback.is_on:
            self.call_after_refresh(self.query_one(PlaybackBar).take_keys, part)
        elif part is not None:
            part.focus()

    @property
    def active_bindings(self) -> dict[str, ActiveBinding]:
        """The bindings; useless ones leave the footer but still answer with the reason. While one
        types the footer has the keys that end that."""
        useless, every = set(self.useless_actions()), super().active_bindings
        if isinstance(self.focused, Input):
            useless = {one.binding.action for one in every.values()}
            for key in every.keys() & {"enter", "escape"}:
                binding = replace(every[key].binding, show=True, key_display=key)
                useless.discard(binding.action)
                every[key] = every[key]._replace(binding=binding)
        return {
            key: active._replace(binding=replace(active.binding, show=False))
            if active.binding.action in useless
            else active
            for key, active in every.items()
        }

    def useless_actions(self) -> frozenset[str]:
        """Actions that can do nothing with what is shown."""
        useless = useless_actions(self.session.snapshot)
        useless |= (
            set() if self.session.source_fixes.can_undo(self.session.target) else {"undo_fix"}
        )
        return useless if self.session.trail else useless | {"return"}

    def refresh_state(self) -> None:
        """Take the app's snapshot and flags, while there are widgets to show them."""
        header = next((one for one in self.children if isinstance(one, HeaderLine)), None)
        if not self.is_composed or header is None:
            return
        app = self.session
        header.show(app.snapshot, app.paused, app.is_replay, app.trail)
        if app.snapshot is not None:
            self.snapshot = app.snapshot
        self.show_position()
        self.show_experiment()
        self.refresh_keys()

    def refresh_keys(self) -> None:
        """Have the footer name what is of use now."""
        useless = self.useless_actions()
        if useless != self._useless:
            self._useless = useless
            self.refresh_bindings()

    def show_position(self) -> None:
        """Draw the position of the playback, if a run is played."""
        position = self.session.playback.position
        self.set_class(position is not None, "-played")
        self.query_one(PlaybackBar).show(position)

    def show_experiment(self) -> None:
        """Draw how a trial or a tuning stands, if there is one."""
        for line in self.children:
            if isinstance(line, ExperimentLine):
                line.show(self.session.trials.row)

    def watch_snapshot(self, snapshot: Snapshot | None) -> None:
        """Hand the snapshot to every pane."""
        if snapshot is not None:
            # A query matches styles' selectors: a tenth of what a picture costs.
            for pane in self.walk_children(SnapshotPane):
                pane.show(snapshot)
            self.show(snapshot)

    def redraw(self) -> None:
        """Draw the snapshot again, at another width or with another selection."""
        if self.snapshot is not None and self.is_composed:
            self.show(self.snapshot)

    @on(RowView.Resized)
    def _rows_resized(self) -> None:
        """Draw again: heights, titles and folds depend on the width."""
        self.redraw()

    def show(self, snapshot: Snapshot) -> None:
        """Draw what is not a ``SnapshotPane``; nothing by default."""

    def charts(self) -> tuple[Chart, ...]:
        """The charts that can be opened from here; importing them imports numpy."""
        from perftui_tui.charts.run_charts import charts_of

        snapshot = self.session.snapshot
        return charts_of(snapshot) if snapshot is not None else ()

    def action_undo_fix(self) -> None:
        self.session.source_fixes.undo()
        self.redraw()

    def action_rerun(self) -> None:
        self.session.trials.run_again()

    def action_copy(self) -> None:
        from perftui_tui.actions.clipboard import copy_text
        from perftui_tui.screens.export import text_to_copy

        text, what = text_to_copy(self)
        if text:
            copy_text(self.app, text, what)
        else:
            self.notify("nothing to copy yet", severity="warning")

    def action_save_table(self) -> None:
        from perftui_tui.screens.export import shown_table
        from perftui_tui.tables.rows import csv_text, folder_for

        table = shown_table(self)
        if table is None or not len(table.data):
            self.notify("no table to save yet", severity="warning")
        else:
            self.save(csv_text(table.data, table.order), folder_for(self.session.target), self.NAME)

    @work(thread=True, exit_on_error=False, group="save")
    def save(self, text: str, folder: Path, stem: str) -> None:
        """Write a table on a thread, and notify of the path: the disk may be slow."""
        from perftui_tui.tables.rows import save_new

        try:
            path = save_new(text, folder, stem)
        except OSError as error:
            reason = f"cannot save in {folder}: {error.strerror or error}"
            self.app.call_from_thread(self.session.warn, printable(reason))
            return
        message = f"saved {printable(str(path))}"
        self.app.call_from_thread(self.notify, message, markup=False, timeout=8)

    def show_output(self, output: Output) -> None:
        """Draw the script's output; nothing by default."""

    def show_preview(self, analysis: TraceAnalysis) -> None:
        """Draw what can be drawn of a trace that is still being read, if anything."""

    def loading_progress(self, text: str, done: float | Exporting) -> None:  # noqa: ARG002
        """Show how far the reading of a file is, in words and as a share."""
        self.query_one(HeaderLine).show_progress(text)


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
