"""Where the main thread was, as blocks of a report in text."""

from __future__ import annotations

from collections.abc import Iterator

from perftui.diagnosis import words
from perftui.diagnosis.evidence import Evidence
from perftui.diagnosis.main_thread import MainThread


def main_thread(evidence: Evidence) -> Iterator[Iterator[str]]:
    """A block over the steady steps, and one for the idle time of each cause."""
    if evidence.main_thread is not None:
        looks = f"about {words.several(evidence.main_thread.looks, 'look')}"
        yield _block(
            f"Where the main thread is, over the steady steps ({looks})", evidence.main_thread
        )
    for gaps in evidence.gap_lines:
        title = (
            f"Where it was while the GPU idled, {gaps.cause.value} "
            f"({words.several(gaps.thread.looks, 'look')}, "
            f"{words.duration(gaps.thread.covered)} of {words.duration(gaps.idle)})"
        )
        yield _block(title, gaps.thread)


def _block(title: str, thread: MainThread) -> Iterator[str]:
    yield title
    for line in thread.listed:
        where = f" in {line.function}" if line.function else ""
        yield f"  {100 * thread.share(line):5.1f} %  {line.source}{where}"
