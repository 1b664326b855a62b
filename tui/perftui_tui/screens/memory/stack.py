"""A stacked chart of sizes: its cells, and the axis at their left."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from perftui_tui.look.rows import Row, Span, joined, row
from perftui_tui.look.units import format_bytes

if TYPE_CHECKING:
    from perftui_tui.charts.stacked import Int64

AXIS_CELLS = 10
"""Room for ``1023 GiB`` and the axis."""

MIDDLE_FROM = 7
"""Rows from which on the middle of an axis has a figure too, where that is asked for."""


def stacked_cells(
    parts: Int64, height: int, top: float, glyphs: Mapping[int, Span]
) -> list[list[Span]]:
    """``charts.stacked`` drawn, top row first: the part with number N as ``glyphs[N]``."""
    from perftui_tui.charts.stacked import BLANK, stacked

    drawn = {**glyphs, BLANK: (" ", "")}
    return [[drawn[part] for part in line] for line in stacked(parts, height, top).tolist()]


def with_axis(cells: list[list[Span]], top: float, *, middle: bool = False) -> list[Row]:
    """Rows behind an axis from 0 to ``top`` bytes."""
    height = len(cells)
    labels = {height - 1: "0", 0: format_bytes(top)}
    if middle and height >= MIDDLE_FROM:
        labels[height // 2] = format_bytes(top * (height - height // 2) / height)
    return [row((_axis(labels.get(at, "")), "dim"), *joined(line)) for at, line in enumerate(cells)]


def below_axis(text: str) -> Row:
    """A row of words that begins where the columns do."""
    return row((" " * AXIS_CELLS + text, "dim"))


def _axis(label: str) -> str:
    return f"{label:>{AXIS_CELLS - 1}}" + ("┤" if label else "│")
