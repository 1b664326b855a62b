"""Where the main thread and the workers were, as blocks of a report in text."""

from __future__ import annotations

from collections.abc import Iterator

from perftui import format as fmt
from perftui.facts.fact import Facts
from perftui.facts.gpu.sync_calls import SyncCalls
from perftui.facts.source.lines import LinesByTime
from perftui.report.thread_lines import thread_lines

NO_GPU = (
    "This training used no GPU: nothing waited, and the times are those of the calls themselves."
)


def main_thread(facts: Facts) -> Iterator[Iterator[str]]:
    """A block for each list of lines."""
    for title, thread in thread_lines(facts):
        yield _block(title, thread)


def sync_calls(found: SyncCalls | None) -> Iterator[str]:
    """The calls that wait for the GPU, each by its line; nothing where none were counted."""
    if found is None:
        return
    over = fmt.several(found.steps, "profiled step")
    yield f"{found.title}, over {over}"
    if not found.on_gpu:
        yield f"  {NO_GPU}"
    yield f"  {'a step':>8}  {'time a step':>11}  {'longest':>8}"
    for call in found.calls:
        each, longest = "unknown", ""
        if call.time >= 0:
            each, longest = fmt.duration(call.time / found.steps), fmt.duration(call.longest)
        times = f"{each:>11}  {longest:>8}"
        yield f"  {call.count / found.steps:>8.1f}  {times}  {call.call} at {call.source}"
    if not found.calls:
        yield "  none"


def _block(title: str, thread: LinesByTime) -> Iterator[str]:
    yield title
    for line in thread.listed:
        where = f" in {line.function}" if line.function else ""
        yield f"  {100 * thread.share(line):5.1f} %  {line.source}{where}"
