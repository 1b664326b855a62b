"""Where the main thread and the workers were, as blocks of a report in text."""

from __future__ import annotations

from collections.abc import Iterator

from perftui import format as fmt
from perftui.facts.data_loader.worker_lines import loader_lines
from perftui.facts.fact import Facts
from perftui.facts.gpu.gap_lines import gap_lines
from perftui.facts.gpu.sync_calls import SyncCalls
from perftui.facts.source import main_thread as thread
from perftui.facts.source.lines import LinesByTime


def main_thread(facts: Facts) -> Iterator[Iterator[str]]:
    """A block over the steady steps, one of the workers, and one for the idle time of each
    cause."""
    steady, profiled = thread.main_thread(facts), thread.window_thread(facts)
    if steady is not None:
        samples = f"about {fmt.several(steady.samples, 'sample')}"
        yield _block(f"Where the main thread is, over the steady steps ({samples})", steady)
    if profiled is not None:
        samples = f"about {fmt.several(profiled.samples, 'sample')} from inside"
        yield _block(f"Where the main thread is, over the profiled steps ({samples})", profiled)
    found = loader_lines(facts)
    if found is not None:
        yield _block(
            f"Where the workers make batches, {fmt.percent(found.busy)} of their time "
            f"(about {fmt.several(found.making.samples, 'sample')})",
            found.making,
        )
    for gaps in gap_lines(facts):
        title = (
            f"Where the main thread was while the GPU idled, {gaps.cause.value} "
            f"({fmt.several(gaps.thread.samples, 'sample')}, {fmt.duration(gaps.thread.covered)} "
            f"of {fmt.duration(gaps.idle)})"
        )
        yield _block(title, gaps.thread)


def sync_calls(found: SyncCalls | None) -> Iterator[str]:
    """The calls that wait for the GPU, each by its line; nothing where none were counted."""
    if found is None:
        return
    over = fmt.several(found.steps, "profiled step")
    yield f"{found.title}, over {over}"
    if not found.on_gpu:
        yield (
            "  This training used no GPU: nothing waited, and the times are those of the calls "
            "themselves."
        )
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
