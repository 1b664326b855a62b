"""One track of the timeline as cells: how busy each column is, or the events by name."""

from __future__ import annotations

import enum
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar
from weakref import WeakKeyDictionary

import numpy as np
from rich.cells import cell_len

from perftui.analysis.kernels.names import shown_name
from perftui.analysis.kinds import COMMUNICATION_KERNEL, OWN_MARK
from perftui.analysis.timeline.track import PHASES, STEPS, TimelineTrack, edges
from perftui.run.columns import phase_name
from perftui.trace.model import Int32, Int64, Ints, Trace
from perftui.trace.text import printable
from perftui_tui.charts.cells import LEFT_EIGHTHS, LOWER_EIGHTHS, filled_steps
from perftui_tui.look.format import format_ns
from perftui_tui.look.rows import Row
from perftui_tui.reading.snapshot import name_within, style_of
from perftui_tui.screens.timeline.navigation import Matches, Viewport

Cell = tuple[str, str]
"""One character and the name of its style; no style is the plain background."""

BLANK: Cell = (" ", "")


def merged(cells: Sequence[Cell]) -> Row:
    """Cells as runs. A blank joins the run on its left: fewer colour codes for the same picture."""
    runs: list[tuple[str, str]] = []
    begin, current, paints = 0, "", False
    text = "".join([glyph for glyph, _ in cells])
    for at, (glyph, style) in enumerate(cells):
        if style == current and not (glyph == " " and paints and not style):
            continue
        if glyph == " " and not _paints_blanks(style):
            if not paints:
                continue
            style = ""
        if style != current:
            if at > begin:
                runs.append((text[begin:at], current))
            begin, current, paints = at, style, _paints_blanks(style)
    if len(text) > begin:
        runs.append((text[begin:], current))
    return tuple(runs)


def _paints_blanks(style: str) -> bool:
    """Whether a blank in this style can be seen."""
    return style.endswith("-name") or style == "selected-label" or style.startswith("part-")


def put(cells: list[Cell], start: int, text: str, style: str) -> None:
    """Write ``text`` (of single-cell characters) over ``cells``; what falls outside is left out."""
    for offset, glyph in enumerate(text):
        if 0 <= start + offset < len(cells):
            cells[start + offset] = (glyph, style)


def narrow(text: str) -> str:
    """``text`` with each character that is not one cell wide replaced, so cells can be counted."""
    if text.isascii():
        return text
    return "".join(glyph if cell_len(glyph) == 1 else "?" for glyph in text)


class EventKind(enum.Enum):
    """Kinds of work: the letter in ASCII, the word in the legend, colours on dark, light and ANSI.

    On dark: Okabe and Ito's hues, spread in lightness. On light: the same hues darkened to a
    contrast of 4.5 with white. With 16 colours kinds that share a device track have each their own.
    """

    GEMM = ("G", "gemm/conv", "#56b4e9", "#0063a0", "ansi_cyan")
    ATTENTION = ("A", "attention", "#cc79a7", "#94396d", "ansi_magenta")
    NORM = ("N", "norm", "#f0e442", "#6b6400", "ansi_bright_yellow")
    ELEMENTWISE = ("E", "elementwise", "#2fb98f", "#00674a", "ansi_green")
    COMMUNICATION = ("C", "communication", "#ff7f50", "#b03a00", "ansi_red")
    COPY = ("M", "copy", "#e69f00", "#8a5a00", "ansi_yellow")
    OPTIMIZER = ("Z", "optimizer", "#b9a7f0", "#5b3fb0", "ansi_bright_blue")
    KERNEL = ("K", "other kernel", "#d5dbe0", "#3d444b", "ansi_white")
    OPERATOR = ("O", "operator", "#8fd3d9", "#0b7a8a", "ansi_blue")
    RUNTIME = ("R", "runtime call", "#8c959d", "#5c646b", "ansi_bright_black")
    WAIT = ("W", "wait", "#ff9d9d", "#b3261e", "ansi_bright_red")
    PYTHON = ("Y", "python", "#9ccc65", "#45701c", "ansi_bright_green")
    RANGE = ("U", "range", "#b0a08a", "#6a5a44", "ansi_bright_magenta")

    letter: str
    """One capital letter, different for each kind."""
    word: str
    """The kind's name in the legend."""
    colours: tuple[str, ...]
    """On dark, on light, and of the terminal's sixteen."""
    style: str
    """Name of the style that draws it."""

    def __init__(self, letter: str, word: str, *colours: str) -> None:
        # Plain attributes: a frame asks for thousands, and a property takes ten times as long.
        self.letter, self.word, self.colours = letter, word, colours
        self.style = self.name.lower()


_KERNELS = {
    EventKind.OPTIMIZER: r"multi_tensor_apply|adam|sgd|optimizer",
    EventKind.ATTENTION: r"flash|fmha|attention|attn|mha",
    EventKind.GEMM: r"gemm|gemv|scudnn|hcudnn|nvjet|cutlass|wgmma|xmma|h884|h1688|16816|conv|dgrad"
    r"|wgrad|winograd|cijk",
    EventKind.NORM: r"norm|bn_fw|bn_bw|softmax",
    EventKind.ELEMENTWISE: r"elementwise|reduce|triton_|fused|index|copy|catarray|fill",
}
"""Kernel names are not a standard: these are the families that cuBLAS, cuDNN, CUTLASS,
FlashAttention, inductor and ATen give them. The first that matches wins."""

_BY_CATEGORY = {
    "gpu_memcpy": EventKind.COPY,
    "gpu_memset": EventKind.COPY,
    "cpu_op": EventKind.OPERATOR,
    "python_function": EventKind.PYTHON,
    "cuda_sync": EventKind.WAIT,
    "user_annotation": EventKind.RANGE,
    "gpu_user_annotation": EventKind.RANGE,
}

_WAIT = re.compile(r"synchronize|streamwaitevent", re.IGNORECASE)


def kind_of(category: str, name: str) -> EventKind:
    """The kind of one event by its category and, for kernels and calls, its name."""
    if category == "kernel":
        if COMMUNICATION_KERNEL.search(name):
            return EventKind.COMMUNICATION
        low = name.lower()
        found = (kind for kind, names in _KERNELS.items() if re.search(names, low))
        return next(found, EventKind.KERNEL)
    if category.endswith(("_runtime", "_driver")):
        return EventKind.WAIT if _WAIT.search(name) else EventKind.RUNTIME
    return _BY_CATEGORY.get(category, EventKind.RANGE)


class KindsOfTrace:
    """The kind of any row of a trace; each pair of category and name is decided once."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._known: dict[int, EventKind] = {}

    def of(self, rows: Ints) -> list[EventKind]:
        trace, known, count = self._trace, self._known, max(len(self._trace.names), 1)
        pairs = trace.category[rows].astype(np.int64) * count + trace.name[rows]
        found = pairs.tolist()
        for pair in set(found) - known.keys():
            known[pair] = kind_of(trace.categories[pair // count], trace.names[pair % count])
        return [known[pair] for pair in found]


def phase_label(name: str) -> str:
    """The name of a phase on screen; ``name`` may have the prefix of the agent's marks."""
    return phase_name(name.removeprefix(OWN_MARK))


def phase_style(name: str) -> str:
    """The end of the names of its styles: ``part-...`` is the ground, ``phase-...`` its colour."""
    return style_of(name.removeprefix(OWN_MARK))


@dataclass(frozen=True, eq=False)
class EventStyle:
    """How events of a trace are drawn: by their kind of work, or as what was searched for."""

    trace: Trace
    kinds: KindsOfTrace
    found: Matches | None

    needs_colour: ClassVar[bool] = False
    """Whether events differ by colour: without colours, letters are drawn."""
    columns_each: ClassVar[int] = 4
    """Columns for each event from which on they are drawn one by one: denser, edges are noise."""
    named_from: ClassVar[int] = 4
    """Cells: a bar shorter than this has no name in it."""
    marked_from: ClassVar[int] = 5
    """Cells from which on a bar marks its first cell, to be distinguished from the bar before."""

    def styles(self, rows: Ints) -> list[str]:
        """The style of each of several; a search has one of its own."""
        styles = [style for _, style in self.letters(rows)]
        if self.found is None:
            return styles
        pairs = zip(styles, self.found.is_named[self.trace.name[rows]].tolist(), strict=True)
        return ["match" if is_match else style for style, is_match in pairs]

    def letters(self, rows: Ints) -> list[tuple[str, str]]:
        """The letter of each in ASCII, and its style."""
        return [(kind.letter, kind.style) for kind in self.kinds.of(rows)]

    def label(self, row: int, room: int) -> str:
        return narrow(printable(shown_name(self.trace, row).removeprefix(OWN_MARK)))[:room]


class _StepStyle(EventStyle):
    """Steps have a number and a duration, and edges: they follow each other without a break."""

    columns_each = 2
    named_from = 1
    marked_from = 2

    def label(self, row: int, room: int) -> str:
        name, size = self.trace.name_of(row), format_ns(int(self.trace.duration[row]))
        number = name.rpartition(" ")[2]
        candidates = (f"{name} {size}", f"{number} {size}", number)
        return next((label for label in candidates if len(label) <= room), "")


class _PhaseStyle(EventStyle):
    """Phases have the colours that they have everywhere."""

    needs_colour = True

    def letters(self, rows: Ints) -> list[tuple[str, str]]:
        names = [self.trace.names[number] for number in self.trace.name[rows].tolist()]
        return [(phase_label(name)[0].upper(), f"phase-{phase_style(name)}") for name in names]

    def label(self, row: int, room: int) -> str:
        return name_within(phase_label(self.trace.name_of(row)), room)


STYLES = {STEPS: _StepStyle, PHASES: _PhaseStyle}
"""By the kind of a track; all others have an ``EventStyle``."""


@dataclass(frozen=True)
class Glyphs:
    """What the terminal can show."""

    ascii_only: bool = False
    colours: bool = True
    """Whether there are any."""

    @property
    def edges(self) -> bool:
        """Whether edges are drawn to an eighth: uncoloured, a reversed one looks wrong."""
        return self.colours and not self.ascii_only


def track_cells(
    trace: Trace,
    kinds: KindsOfTrace,
    track: TimelineTrack,
    view: Viewport,
    columns: int,
    glyphs: Glyphs,
    found: Matches | None = None,
) -> list[Cell]:
    """The track in ``columns`` cells; what a search ``found`` has a colour of its own.

    A column is blank only where the track is idle all through it and full only where it is busy all
    through it; between the two it shows its busy share, in the kind of work that fills most of it.
    """
    index = track.index
    event_style = STYLES.get(track.kind, EventStyle)(trace, kinds, found)
    times = edges(view.start, view.end, columns)
    drawing = _Drawing(
        [BLANK] * columns, event_style, glyphs, times, index.busy(view.start, view.end, columns)
    )
    drawing.draw_density(index.dominant(view.start, view.end, columns))
    first = int(np.searchsorted(index.end, np.int64(view.start), side="right"))
    behind = int(np.searchsorted(index.start, np.int64(view.end), side="left"))
    if max(behind - first, 0) * event_style.columns_each <= columns:
        for place in range(first, behind):
            drawing.draw_event(
                int(index.rows[place]), int(index.start[place]), int(index.end[place])
            )
    return drawing.cells


@dataclass(frozen=True)
class _Drawing:
    """A track while it is drawn: how busy each column is, then events over it."""

    cells: list[Cell]
    event_style: EventStyle
    glyphs: Glyphs
    times: Int64
    """The edges of the columns."""
    busy: Int64

    @property
    def _is_lettered(self) -> bool:
        """Whether events are drawn with letters instead of blocks."""
        glyphs = self.glyphs
        return glyphs.ascii_only or (self.event_style.needs_colour and not glyphs.colours)

    def draw_density(self, dominant: Int64 | Int32) -> None:
        """Fill each column by its busy share, in the style of what fills most of it."""
        filled = np.flatnonzero((self.busy > 0) & (dominant >= 0))
        if not len(filled):
            return
        rows = dominant[filled]
        shares = (self.busy[filled] / np.maximum(np.diff(self.times)[filled], 1)).tolist()
        if self._is_lettered:
            letters = zip(self.event_style.letters(rows), shares, strict=True)
            drawn = [letter if share >= 0.5 else letter.lower() for (letter, _), share in letters]
        else:
            drawn = [LOWER_EIGHTHS[filled_steps(share, 8)] for share in shares]
        styles = self.event_style.styles(rows)
        for column, glyph, style in zip(filled.tolist(), drawn, styles, strict=True):
            self.cells[column] = (glyph, style)

    def draw_event(self, row: int, start: int, end: int) -> None:
        """One event over the density: its edges to an eighth of a cell, and its name."""
        style = self.event_style.styles(np.array([row]))[0]
        left = int(np.searchsorted(self.times, start, side="left"))
        right = int(np.searchsorted(self.times, end, side="right")) - 1
        is_edged = self.glyphs.edges and self._draw_edges(start, end, left, right, style)
        least = 1 if self._is_lettered else self.event_style.marked_from
        is_marked = self._is_lettered or self.glyphs.edges
        if start >= self.times[0] and not is_edged and is_marked and right - left >= least:
            # Told from the event that it follows.
            self.cells[left] = ("[", style) if self._is_lettered else ("▏", f"{style}-name")
            left += 1
        if right - left >= self.event_style.named_from:
            label = self.event_style.label(row, right - left)
            # Letters behind a word would be read as part of it.
            blank = " " if label and self.event_style.needs_colour and self._is_lettered else ""
            put(self.cells, left, f"{label}{blank}"[: right - left], f"{style}-name")

    def _draw_edges(self, start: int, end: int, left: int, right: int, style: str) -> bool:
        """The cells that the event fills in part, where it is alone in them; whether its start
        is."""
        cells, times, busy = self.cells, self.times, self.busy
        if left > right:
            return False
        if 0 <= right < len(cells) and end - times[right] == busy[right] > 0:
            share = busy[right] / (times[right + 1] - times[right])
            cells[right] = (LEFT_EIGHTHS[filled_steps(float(share), 8)], style)
        if not (0 < left <= len(cells) and times[left] - start == busy[left - 1] > 0):
            return False
        idle = 1 - busy[left - 1] / (times[left] - times[left - 1])
        cells[left - 1] = (LEFT_EIGHTHS[filled_steps(float(idle), 8)], f"{style}-edge")
        return True


class DrawnTracks:
    """Works out the cells of a track once for each view: most keys leave the view where it is.

    Of ten million events that was half of the time from such a key to its frame."""

    def __init__(self, trace: Trace, kinds: KindsOfTrace, glyphs: Glyphs) -> None:
        self._trace, self._kinds, self._glyphs = trace, kinds, glyphs
        self._last = WeakKeyDictionary[TimelineTrack, tuple[object, tuple[Cell, ...]]]()

    def cells(
        self, track: TimelineTrack, view: Viewport, columns: int, found: Matches | None = None
    ) -> list[Cell]:
        """The result of ``track_cells``, from the cache; it may be changed."""
        seen = (view, columns, found)
        last = self._last.get(track)
        if last is None or last[0] != seen:
            drawn = track_cells(self._trace, self._kinds, track, view, columns, self._glyphs, found)
            last = self._last[track] = (seen, tuple(drawn))
        return list(last[1])
