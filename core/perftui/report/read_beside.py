"""The traces of the other ranks of a directory, read for a report."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from perftui.facts.ranks.read_ranks import read_ranks
from perftui.facts.ranks.traced_ranks import TracedRank, rank_of_trace
from perftui.report.subject import Subject

Progress = Callable[[int, int], None]
"""Called with how many traces have been read, and of how many."""


@dataclass(frozen=True)
class ReadRanks:
    """All ranks of a directory whose traces could be read, in any order."""

    each: tuple[TracedRank, ...]
    problems: tuple[str, ...]
    """Sentences about those that could not."""


def read_beside(
    subject: Subject, tell: Progress | None = None, scheduler: str = ""
) -> ReadRanks | None:
    """The ranks beside the open trace of ``subject``, and itself; None where there are no others.

    Raises:
        ClusterError: the cluster at ``scheduler`` cannot be used.
    """
    opened, beside = subject.analysis, subject.beside
    shown = next((one[0] for one in beside if opened and one[1] == opened.trace.path), None)
    if opened is None or shown is None or len(beside) < 2:
        return None
    each, problems = [rank_of_trace(opened, shown)], []
    others = tuple(one for one in beside if one[0] != shown)
    for done, (rank, found) in enumerate(read_ranks(others, scheduler=scheduler), 2):
        if isinstance(found, str):
            problems.append((rank, found))
        else:
            each.append(found)
        if tell is not None:
            tell(done, len(beside))
    return ReadRanks(tuple(each), tuple(why for _, why in sorted(problems)))
