"""Of a run: its phases on the GPU, the GPU's memory, and how it was recorded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from perftui import format as fmt
from perftui.facts.gpu import memory
from perftui.facts.gpu.device_phases import device_phases
from perftui.report.html.element import Element, element, section
from perftui.report.html.tables import table, table_row
from perftui.report.recorded_text import (
    MEMORY_TITLE,
    memory_rows,
    phases_title,
    recording_lines,
)
from perftui.report.report import Report


def recorded(report: Report) -> Iterator[Element]:
    """A section for each that is known."""
    phases, use = device_phases(report.facts), memory.gpu_memory(report.facts)
    if phases is not None:
        times = ((name, fmt.duration(time)) for name, time in phases.parts)
        yield section(phases_title(phases), _pairs("phase", "time", times))
    if use is not None:
        yield section(MEMORY_TITLE, _pairs("memory", "size", memory_rows(use)))
    if report.recording is not None:
        lines = recording_lines(report.recording, report.facts)
        items = (element("li", line.strip()) for line in lines)
        yield section("Recording", element("ul", *items))


def _pairs(name: str, value: str, pairs: Iterable[tuple[str, str]]) -> Element:
    return table((name, value), [table_row(*pair) for pair in pairs])
