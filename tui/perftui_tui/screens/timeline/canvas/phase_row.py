"""The phases of training as one row of cells: data loader wait, forward, backward, optimizer."""

from __future__ import annotations

from itertools import groupby

import numpy as np

from perftui.analysis.timeline.track import edges
from perftui_tui.charts.blocks import LOWER_EIGHTHS, filled_steps
from perftui_tui.reading.step_breakdown import name_within
from perftui_tui.screens.timeline.canvas.track_cells import Glyphs
from perftui_tui.screens.timeline.model.cells import BLANK, Cell, put
from perftui_tui.screens.timeline.model.event_kinds import phase_label, phase_style
from perftui_tui.screens.timeline.model.state import Phases
from perftui_tui.screens.timeline.model.viewport import Viewport

_NAMED_FROM = 4
"""Cells from which on a phase has its name in it."""


def phase_cells(phases: Phases, view: Viewport, columns: int, glyphs: Glyphs) -> list[Cell]:
    """Each column in the colour of the phase that fills most of it; without colours as a letter."""
    times = edges(view.start, view.end, columns)
    covered = np.stack([np.diff(each.before(times)) for each in phases.values()])
    first = np.argmax(covered, axis=0)
    widths = np.maximum(np.diff(times), 1)
    shares = (np.take_along_axis(covered, first[None], axis=0)[0] / widths).tolist()
    names = list(phases)
    chosen = [names[at] if share > 0 else "" for at, share in zip(first, shares, strict=True)]
    cells = [_cell(name, share, glyphs) for name, share in zip(chosen, shares, strict=True)]
    at = 0
    for name, group in groupby(chosen):
        length = len(list(group))
        if name and length >= _NAMED_FROM:
            _name(cells, at, length, name, glyphs)
        at += length
    return cells


def _cell(name: str, share: float, glyphs: Glyphs) -> Cell:
    if not name:
        return BLANK
    style = phase_style(name)
    if not glyphs.edges:
        letter = phase_label(name)[0]
        return (letter.upper() if share >= 0.5 else letter, f"phase-{style}")
    if share >= 0.5:
        return (" ", f"part-{style}")
    return (LOWER_EIGHTHS[filled_steps(share, 8)], f"phase-{style}")


def _name(cells: list[Cell], at: int, length: int, name: str, glyphs: Glyphs) -> None:
    style = phase_style(name)
    word = name_within(phase_label(name), length - 1)
    if not word:
        return
    if glyphs.edges:
        put(cells, at, f" {word}", f"part-{style}")
    else:
        put(cells, at, f"[{word} "[:length], f"phase-{style}")
