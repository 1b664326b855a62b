"""Where the main thread and the workers were, as titled lists of lines."""

from __future__ import annotations

from collections.abc import Iterator

from perftui import format as fmt
from perftui.facts.data_loader.batch_place import loader_lines
from perftui.facts.fact import Facts
from perftui.facts.gpu.gaps import gap_lines
from perftui.facts.gpu.host_waits import SyncCalls
from perftui.facts.source import lines as thread
from perftui.facts.source.lines import LinesByTime


def thread_lines(facts: Facts) -> Iterator[tuple[str, LinesByTime]]:
    """Lines over the steady steps, those of the workers, and those in the idle time of each cause,
    each list with its title."""
    steady, profiled = thread.main_thread(facts), thread.window_thread(facts)
    if steady is not None:
        samples = f"about {fmt.several(steady.samples, 'sample')}"
        yield f"Where the main thread is, over the steady steps ({samples})", steady
    if profiled is not None:
        samples = f"about {fmt.several(profiled.samples, 'sample')} from inside"
        yield f"Where the main thread is, over the profiled steps ({samples})", profiled
    found = loader_lines(facts)
    if found is not None:
        title = (
            f"Where the workers make batches, {fmt.percent(found.busy)} of their time "
            f"(about {fmt.several(found.making.samples, 'sample')})"
        )
        yield title, found.making
    for gaps in gap_lines(facts):
        title = (
            f"Where the main thread was while the GPU idled, {gaps.cause.value} "
            f"({fmt.several(gaps.thread.samples, 'sample')}, {fmt.duration(gaps.thread.covered)} "
            f"of {fmt.duration(gaps.idle)})"
        )
        yield title, gaps.thread


NO_GPU = (
    "This training used no GPU: nothing waited, and the times are those of the calls themselves."
)


def main_thread(facts: Facts) -> Iterator[Iterator[str]]:
    """A block for each list of lines."""
    for title, by_time in thread_lines(facts):
        yield _block(title, by_time)


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
