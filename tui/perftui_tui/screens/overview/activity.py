"""Devices and steps of a trace, one row each, in place of a live run's meters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perftui.trace.text import printable
from perftui_tui.keys.keymap import shown_key
from perftui_tui.look.format import percent
from perftui_tui.look.rows import Row, Span, fit, row, width
from perftui_tui.look.units import format_count, format_ns
from perftui_tui.panes.gpu import busy_word
from perftui_tui.panes.meter import NAME_WIDTH, READING_WIDTH, STYLES, draw_line
from perftui_tui.panes.meters import step_time
from perftui_tui.reading.snapshot import Snapshot

if TYPE_CHECKING:
    from perftui.analysis.model import DeviceActivity

LISTED = 4
"""Devices shown; the timeline has them all."""

CHARTED_FROM = 20
"""Steps from which on a chart of them is drawn beside their mean and quantiles."""


def activity(snapshot: Snapshot, cells: int, height: int) -> list[Row]:  # noqa: ARG001 - a drawing
    """A row for each device, then the steps where the trace marks several."""
    devices = snapshot.analysis.activity if snapshot.analysis else ()
    rows = [_device(one, cells) for one in devices[:LISTED]]
    if len(devices) > LISTED:
        key = shown_key("app.show('timeline')")
        rows.append(row((f"and {len(devices) - LISTED} more devices: {key} shows all", "dim")))
    if snapshot.is_memory_alone:
        rows.append(row(("a memory snapshot has no timings", "dim")))
    elif not devices:
        rows.append(row(("no GPU activity in this trace; times are CPU times", "dim")))
    if len(snapshot.step_ms) >= CHARTED_FROM:
        rows += draw_line(step_time(snapshot), cells)
    return rows


def _device(device: DeviceActivity, cells: int) -> Row:
    busy = 100 * device.busy / device.span if device.span else 0.0
    word = busy_word(busy)
    name = (f"GPU {device.device}".ljust(NAME_WIDTH), "bold")
    reading = fit(row(f"busy {percent(busy)} ", (word, STYLES[word])), READING_WIDTH)
    line = row(name, *reading)
    for figure in _figures(device):
        longer = (*line, figure, ("   ", ""))
        if width(longer) - 3 > cells:
            break
        line = longer
    return line


def _figures(device: DeviceActivity) -> tuple[Span, ...]:
    """The most telling first: what does not fit is left out."""
    copies = device.memcpy_count + device.memset_count
    copied = device.memcpy_sum + device.memset_sum
    figures = [
        (f"of {format_ns(device.span)}", ""),
        (f"{format_count(device.kernel_count)} kernels {format_ns(device.kernel_sum)}", ""),
        (f"{format_count(copies)} copies {format_ns(copied)}", ""),
        (printable(device.name), "dim"),
    ]
    return tuple(figure for figure in figures if figure[0])
