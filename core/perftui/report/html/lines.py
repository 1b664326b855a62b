"""Lines of code by time: where threads were, and which calls wait for the GPU."""

from __future__ import annotations

from collections.abc import Iterator

from perftui import format as fmt
from perftui.facts.fact import Facts
from perftui.facts.gpu.sync_calls import SyncCall, SyncCalls, syncs
from perftui.facts.source.lines import LinesByTime, LineShare
from perftui.report.html.element import Element, element, section
from perftui.report.html.tables import UNKNOWN, named, table, table_row
from perftui.report.main_thread_text import NO_GPU
from perftui.report.thread_lines import thread_lines


def lines(facts: Facts) -> Iterator[Element]:
    """A section for each list of lines, and one for the calls that wait for the GPU."""
    for title, thread in thread_lines(facts):
        yield section(title, _lines(thread))
    found = syncs(facts)
    if found is not None:
        over = fmt.several(found.steps, "profiled step")
        yield section(found.title, *_sync_calls(found), over=f"over {over}")


def _lines(thread: LinesByTime) -> Element:
    rows = [_line(line, thread.share(line)) for line in thread.listed]
    return table(("line", "function"), rows, numbers=False)


def _line(line: LineShare, share: float) -> Element:
    name = named(line.short if line.file else line.source, line.source, share)
    return element("tr", element("td", name), element("td", element("code", line.function)))


def _sync_calls(found: SyncCalls) -> Iterator[Element]:
    if not found.on_gpu:
        yield element("p", NO_GPU)
    if found.calls:
        rows = [_sync_call(call, found.steps) for call in found.calls]
        yield table(("call", "a step", "time a step", "longest"), rows)
    else:
        yield element("p", "None.")


def _sync_call(call: SyncCall, steps: int) -> Element:
    each = longest = UNKNOWN
    if call.time >= 0:
        each, longest = fmt.duration(call.time / steps), fmt.duration(call.longest)
    name = element("code", call.short, title=call.source)
    return table_row(name, f"{call.count / steps:.1f}", each, longest)
