"""The calls of a trace, read as they are asked for, and the pages about some of them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

from textual import events, work
from textual.geometry import Region
from textual.message import Message
from textual.worker import get_current_worker

from perftui.analysis.kernels.category import TensorCoreTime, tensor_core_time
from perftui.analysis.kernels.metrics import LaunchShapes, launch_shapes
from perftui.analysis.kernels.names import short_name
from perftui.analysis.model import OpTable, TraceAnalysis
from perftui.analysis.ops.call_detail import Detail, Part, open_group, open_kernel, parts_of
from perftui.analysis.ops.call_groups import By, Grouped, OpArguments, grouped, op_arguments
from perftui.analysis.ops.call_paths import CallPaths
from perftui.format import middle
from perftui.trace.model import NONE, Int64, LoadCancelled, TraceError
from perftui.trace.text import printable
from perftui_tui.keys.own_keys import bindings
from perftui_tui.look.rows import plain, row
from perftui_tui.screens.ops.call_details import (
    Further,
    LinkedLine,
    Target,
    ToGroup,
    ToKernel,
    ToRow,
    page_lines,
)
from perftui_tui.widgets.row_view import RowView

Progress = Callable[[float], bool]


class CallFacts:
    """Facts of the calls in a trace; methods may take seconds at first: call them on threads."""

    def __init__(self, analysis: TraceAnalysis) -> None:
        self.analysis, self.trace = analysis, analysis.trace
        self._lock = threading.Lock()
        self._groups: dict[By, Grouped | None] = {}
        self.known_tables: dict[By, OpTable] = {By.NAME: analysis.ops, By.MODULE: analysis.modules}
        """Without rows where the trace has no such data."""
        self.known_tensor_cores: dict[By, TensorCoreTime] = {}
        self.known_paths: dict[By, CallPaths] = {}
        self._arguments: OpArguments | None = None
        self.known_launches: Mapping[int, LaunchShapes] | None = None

    @cached_property
    def line_of(self) -> Mapping[tuple[str, str], int]:
        """Lines of the kernel table by name and category."""
        kernels = self.analysis.kernels
        names = zip(kernels.names, kernels.categories, strict=True)
        return {key: line for line, key in enumerate(names)}

    def group(self, by: By, progress: Progress, *, is_tree: bool) -> None:
        """Work out the table of the calls grouped by ``by``, without rows where the trace has no
        such data, or their tree with its roots.

        Raises TraceError and LoadCancelled as ``op_arguments`` does.
        """
        with self._lock:
            found = self._grouped(by, progress)
            if by not in self.known_tables:
                self.known_tables[by] = OpTable.empty() if found is None else found.flat.table()
            if is_tree and found is not None:
                paths = CallPaths(found.nested)
                paths.roots()
                self.known_paths[by] = paths

    def tensor_cores(self, by: By, progress: Progress) -> None:
        """Work out the time on tensor cores of the groups of a known table."""
        with self._lock:
            found = self._grouped(by, progress)
            if found is not None:
                time = tensor_core_time(self.trace, found.flat, self.known_tables[by].names)
                self.known_tensor_cores[by] = time

    def open(self, page: Page) -> Detail | None:
        """The calls that a page is about; None where the trace has none."""
        target = page.target
        with self._lock:
            found = self._grouped(By.NAME if isinstance(target, ToKernel) else page.by)
        if isinstance(target, ToKernel):
            line = self.line_of.get((target.name, target.category))
            if found is not None and line is not None:
                return open_kernel(self.trace, found.flat, self.analysis.kernels, line)
        elif isinstance(target, ToGroup) and found is not None:
            calls = found.nested if page.nested else found.flat
            return open_group(self.trace, calls, target.label)
        return None

    def shapes_of(self, rows: Int64, progress: Progress) -> tuple[Part, ...]:
        """Input shapes of some operators, longest first; none where they were not recorded.

        Raises as ``op_arguments`` does.
        """
        with self._lock:
            arguments = self._read_arguments(progress)
        rows = rows[arguments.shape[rows] != NONE]
        labels = tuple(text or "(no tensor)" for text in arguments.shapes)
        return parts_of(arguments.shape[rows], self.trace.duration[rows], rows, labels)

    def lines_of(self, rows: Int64, progress: Progress) -> tuple[Part, ...]:
        """The lines of code that some operators were called from, longest first; none where the
        trace does not hold them. Raises as ``op_arguments`` does, where only arguments do."""
        with self._lock:
            found = self._grouped(By.LINE, progress)
        if found is None:
            return ()
        calls = found.flat
        return parts_of(calls.trace.name[rows], calls.trace.duration[rows], rows, calls.labels)

    def launches(self, progress: Progress) -> Mapping[int, LaunchShapes]:
        """How kernels were launched, by line of the kernel table. Raises as ``launch_shapes``."""
        with self._lock:
            if self.known_launches is None:
                self.known_launches = launch_shapes(self.trace, self.analysis.kernels, progress)
            return self.known_launches

    def _grouped(self, by: By, progress: Progress | None = None) -> Grouped | None:
        if by not in self._groups:
            self._groups[by] = grouped(self.trace, by, lambda: self._read_arguments(progress))
        return self._groups[by]

    def _read_arguments(self, progress: Progress | None) -> OpArguments:
        if self._arguments is None:
            self._arguments = op_arguments(self.trace, progress)
        return self._arguments


@dataclass
class Page:
    """One page: what it is about, what is known of that, and the line of the cursor."""

    target: Target
    by: By
    nested: bool
    """Whether the target was opened in the tree."""
    figures: Sequence[str] = ()
    at: int | None = 0
    detail: Detail | None = None
    further: Further = field(default_factory=Further)


class OpsDetail(RowView, can_focus=True):
    """A page over the table, with a cursor that goes from link to link; what a link leads to opens
    as a further page over it."""

    BINDINGS = bindings("ops.detail")

    DEFAULT_CSS = """
    OpsDetail { height: 1fr; display: none; }
    OpsDetail.-open { display: block; }
    """

    class Changed(Message):
        """Another page is on top, or none."""

    @dataclass(eq=False)
    class RowChosen(Message):
        """A row of the trace is to be shown on the timeline."""

        row: int

    _lines: tuple[LinkedLine, ...] = ()
    at = 0
    """The line under the cursor."""

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self._facts: CallFacts | None = None
        self._pages: list[Page] = []

    @property
    def is_open(self) -> bool:
        """Whether there is a page."""
        return bool(self._pages)

    @property
    def title(self) -> str:
        """The way to the page."""
        return " > ".join(_label(page.target) for page in self._pages)

    def open(self, facts: CallFacts, page: Page) -> None:
        """Show a page over those that are open."""
        if self._pages:
            self._pages[-1].at = self.at
        self._facts = facts
        self._pages.append(page)
        self.add_class("-open")
        self.show_lines([LinkedLine(row(("looking for its calls", "dim")))], 0)
        self._find_calls(facts, page)
        self.focus()
        self.post_message(self.Changed())

    def back(self) -> None:
        """Leave the page; the one below is where it was."""
        if len(self._pages) < 2:
            self.close()
            return
        self._pages.pop()
        self._draw_page()
        if self._facts is not None and self._pages[-1].further.shapes is None:
            self._find_calls(self._facts, self._pages[-1])
        self.post_message(self.Changed())

    action_leave = back

    def close(self) -> None:
        """Leave all pages."""
        self._pages.clear()
        self.remove_class("-open")
        self.workers.cancel_group(self, "ops-detail")
        self.post_message(self.Changed())

    @work(thread=True, exclusive=True, exit_on_error=False, group="ops-detail")
    def _find_calls(self, facts: CallFacts, page: Page) -> None:
        """What is quick first, then what the file has to be read for."""
        worker = get_current_worker()

        def show(further: Further) -> None:
            if not worker.is_cancelled:
                self.app.call_from_thread(self._found, page, detail, further)

        detail = facts.open(page)
        known = Further(launches=facts.known_launches, line_of=facts.line_of)
        show(known)
        if detail is None:
            return
        try:
            for further in _read_further(facts, detail, known, lambda _: not worker.is_cancelled):
                show(further)
        except LoadCancelled:
            return

    def _found(self, page: Page, detail: Detail | None, further: Further) -> None:
        page.detail, page.further = detail, further
        if self._pages and self._pages[-1] is page:
            self._draw_page()

    def _draw_page(self) -> None:
        page = self._pages[-1]
        if page.detail is None:
            self.show_lines([LinkedLine(row("the trace has no call of it"))], 0)
            return
        category = page.target.category if isinstance(page.target, ToKernel) else None
        lines = page_lines(page.detail, category, page.figures, page.further, self.size.width)
        self.show_lines(lines, page.at)
        page.at = None

    def on_resize(self) -> None:
        if self._pages and self._pages[-1].detail is not None:
            self._draw_page()

    # What is on screen

    @property
    def text(self) -> str:
        """The whole text, for the clipboard."""
        return "\n".join(plain(line.row).rstrip() for line in self._lines)

    def show_lines(self, lines: Sequence[LinkedLine], at: int | None = None) -> None:
        """Show ``lines``; the cursor stays on its link, or is put on line ``at``."""
        selected, before = self.target, self.at
        self._lines = tuple(lines)
        stops = self._stops()
        same = [place for place in stops if self._lines[place].target == selected]
        wanted = min(same, key=lambda place: abs(place - before), default=0) if at is None else at
        self.at = wanted if wanted in stops else next(iter(stops), 0)
        self._draw_lines()
        if at is not None:
            self._reveal()

    @property
    def target(self) -> Target | None:
        """The link under the cursor."""
        return self._lines[self.at].target if self.at < len(self._lines) else None

    def _stops(self) -> list[int]:
        return [place for place, line in enumerate(self._lines) if line.target is not None]

    def _draw_lines(self) -> None:
        self.rows = [
            (("> ", "accent"), *((text, "bold") for text, _ in line.row))
            if place == self.at and line.target is not None
            else (("  ", ""), *line.row)
            for place, line in enumerate(self._lines)
        ]

    def _reveal(self) -> None:
        """Scroll the line into view, with the headings above the first link."""
        if self.size.height:
            top = 0 if self.at in self._stops()[:1] else self.at
            self.scroll_to_region(Region(0, top, 1, 1), animate=False, force=True, immediate=True)

    def _go_to(self, place: int) -> None:
        self.at = place
        self._draw_lines()
        self._reveal()

    def action_move(self, steps: int) -> None:
        """Go to the next or the previous link; where there is none scroll."""
        stops = self._stops()
        further = [place for place in stops if (place > self.at if steps > 0 else place < self.at)]
        if further:
            self._go_to(further[0] if steps > 0 else further[-1])
        else:
            self.scroll_relative(y=steps, animate=False)

    def action_page(self, pages: int) -> None:
        """Go to the link nearest to a screenful away."""
        wanted = self.at + pages * max(self.size.height - 1, 1)
        stops = self._stops()
        if stops:
            self._go_to(min(stops, key=lambda place: abs(place - wanted)))

    def action_edge(self, direction: int) -> None:
        """Go to the first (-1) or the last (1) link."""
        stops = self._stops()
        if stops:
            self._go_to(stops[0 if direction < 0 else -1])

    def action_open(self) -> None:
        target, page = self.target, self._pages[-1]
        if isinstance(target, ToRow):
            self.post_message(self.RowChosen(target.row))
        elif target is not None and self._facts is not None:
            by = By.NAME if isinstance(page.target, ToKernel) else page.by
            self.open(self._facts, Page(target, by, page.nested))

    def on_click(self, event: events.Click) -> None:
        place = event.y + self.scroll_offset.y
        if place < len(self._lines) and self._lines[place].target is not None:
            event.stop()
            self.at = place
            self._draw_lines()
            self.action_open()


def _read_further(
    facts: CallFacts, detail: Detail, known: Further, progress: Progress
) -> Iterator[Further]:
    """Work out one section after the other; one that cannot be read hides none of the others."""
    readers: dict[str, Callable[[Progress], Any]] = {}
    if len(facts.analysis.kernels):
        readers["launches"] = facts.launches
    if detail.is_one_operator:
        readers["lines"] = partial(facts.lines_of, detail.rows)
        readers["shapes"] = partial(facts.shapes_of, detail.rows)
    found: Any
    for section, read in readers.items():
        found, unread = (), known.unread
        try:
            found = read(progress)
        except TraceError as error:
            unread = {**unread, section: str(error)}
        known = replace(known, **{section: found}, unread=unread)
        yield known


def _label(target: Target) -> str:
    if isinstance(target, ToKernel):
        return middle(printable(short_name(target.name)), 40)
    return printable(target.label)[:40] if isinstance(target, ToGroup) else ""
