"""One operator or kernel opened: its figures, what belongs to it, and the way back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from textual import on, work
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.message import Message
from textual.worker import get_current_worker

from perftui.analysis.kernels.names import short_name
from perftui.analysis.ops.call_detail import Detail
from perftui.analysis.ops.call_groups import By
from perftui.format import middle
from perftui.trace.model import LoadCancelled, TraceError
from perftui.trace.text import printable
from perftui_tui.look.rows import row
from perftui_tui.screens.ops.call_detail_lines import Further, group_lines, kernel_lines
from perftui_tui.screens.ops.call_facts import CallFacts, Progress
from perftui_tui.screens.ops.linked_lines import (
    LinkedLine,
    LinkedLines,
    Target,
    ToGroup,
    ToKernel,
    ToRow,
)


@dataclass
class Page:
    """What is opened, and where on it the reader is."""

    target: Target
    by: By
    nested: bool
    """Whether the target was opened in the tree."""
    figures: Sequence[str] = ()
    at: int | None = 0
    detail: Detail | None = None
    further: Further = field(default_factory=Further)


class OpsDetail(Vertical):
    """A page over the table; what it lists opens as a further page over it."""

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

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self._facts: CallFacts | None = None
        self._pages: list[Page] = []

    def compose(self) -> ComposeResult:
        """The lines."""
        yield LinkedLines(id="ops-lines")

    @property
    def lines(self) -> LinkedLines:
        """What is on screen."""
        return self.query_one(LinkedLines)

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
            self._pages[-1].at = self.lines.at
        self._facts = facts
        self._pages.append(page)
        self.add_class("-open")
        self.lines.show_lines([LinkedLine(row(("looking for its calls", "dim")))], 0)
        self._find_calls(facts, page)
        self.lines.focus()
        self.post_message(self.Changed())

    def back(self) -> None:
        """Leave the page; the one below is where it was."""
        if self._pages:
            self._pages.pop()
        if self._pages:
            self._draw()
            if self._facts is not None and self._pages[-1].further.shapes is None:
                self._find_calls(self._facts, self._pages[-1])
            self.post_message(self.Changed())
        else:
            self.close()

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

        def progress(_done: float) -> bool:
            return not worker.is_cancelled

        def show(further: Further) -> None:
            if not worker.is_cancelled:
                self.app.call_from_thread(self._found, page, detail, further)

        detail = _detail(facts, page)
        known = Further(launches=facts.known_launches, line_of=facts.line_of)
        show(known)
        if detail is None:
            return
        try:
            for further in _read_further(facts, detail, known, progress):
                show(further)
        except LoadCancelled:
            return

    def _found(self, page: Page, detail: Detail | None, further: Further) -> None:
        page.detail, page.further = detail, further
        if self._pages and self._pages[-1] is page:
            self._draw()

    def _draw(self) -> None:
        page = self._pages[-1]
        if page.detail is None:
            self.lines.show_lines([LinkedLine(row("the trace has no call of it"))], 0)
            return
        width = self.size.width
        if isinstance(page.target, ToKernel):
            category = page.target.category
            lines = kernel_lines(page.detail, category, page.figures, page.further, width)
        else:
            lines = group_lines(page.detail, page.figures, page.further, width)
        self.lines.show_lines(lines, page.at)
        page.at = None

    def on_resize(self) -> None:
        """Lay out for the new width."""
        if self._pages and self._pages[-1].detail is not None:
            self._draw()

    @on(LinkedLines.Left)
    def _left(self, event: LinkedLines.Left) -> None:
        event.stop()
        self.back()

    @on(LinkedLines.Chosen)
    def _chosen(self, event: LinkedLines.Chosen) -> None:
        event.stop()
        if isinstance(event.target, ToRow):
            self.post_message(self.RowChosen(event.target.row))
        elif self._facts is not None:
            page = self._pages[-1]
            by = By.NAME if isinstance(page.target, ToKernel) else page.by
            self.open(self._facts, Page(event.target, by, page.nested))


def _detail(facts: CallFacts, page: Page) -> Detail | None:
    if isinstance(page.target, ToKernel):
        return facts.open_kernel(page.target.name, page.target.category)
    if isinstance(page.target, ToGroup):
        return facts.open_group(page.by, page.target.label, nested=page.nested)
    return None


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
