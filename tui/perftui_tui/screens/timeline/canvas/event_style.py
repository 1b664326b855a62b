"""How the events of a track are drawn: their letters, styles and labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from perftui.analysis.kernels.names import shown_name
from perftui.analysis.timeline.track import PHASES, STEPS, TimelineTrack
from perftui.trace.model import Ints, Trace
from perftui.trace.text import printable
from perftui_tui.look.units import format_ns
from perftui_tui.reading.step_breakdown import name_within
from perftui_tui.screens.timeline.model.cells import narrow
from perftui_tui.screens.timeline.model.event_kinds import KindsOfTrace, phase_label, phase_style
from perftui_tui.screens.timeline.model.matches import Matches


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

    def style(self, row: int) -> str:
        """The style of one event."""
        return self.styles(np.array([row]))[0]

    def styles(self, rows: Ints) -> list[str]:
        """The style of each of several; a search has one of its own."""
        styles = [style for _, style in self.letters(rows)]
        if self.found is None:
            return styles
        matches = self.found.is_named[self.trace.name[rows]].tolist()
        pairs = zip(styles, matches, strict=True)
        return ["match" if is_match else style for style, is_match in pairs]

    def letters(self, rows: Ints) -> list[tuple[str, str]]:
        """The letter of each in ASCII, and its style."""
        return [(kind.letter, kind.style) for kind in self.kinds.of(rows)]

    def label(self, row: int, room: int) -> str:
        """The label of an event in ``room`` cells."""
        return narrow(printable(shown_name(self.trace, row)))[:room]


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


def style_of(
    track: TimelineTrack, trace: Trace, kinds: KindsOfTrace, found: Matches | None
) -> EventStyle:
    """The style of the events on ``track``."""
    classes = {STEPS: _StepStyle, PHASES: _PhaseStyle}
    return classes.get(track.kind, EventStyle)(trace, kinds, found)
