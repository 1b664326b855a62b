"""Where the main thread and the workers were, as titled lists of lines."""

from __future__ import annotations

from collections.abc import Iterator

from perftui import format as fmt
from perftui.facts.data_loader.worker_lines import loader_lines
from perftui.facts.fact import Facts
from perftui.facts.gpu.gap_lines import gap_lines
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
