"""The training runs, and comes to no step any more."""

from __future__ import annotations

from collections.abc import Sequence

from perftui import format as fmt
from perftui.diagnosis.limits import Limits
from perftui.diagnosis.model import Figure, Severity
from perftui.diagnosis.rule import Lost, Rule
from perftui.facts.fact import Facts
from perftui.facts.source.lines import LineShare
from perftui.facts.step.silence import last_lines, silence

LEAST = 30_000_000_000
"""ns without a step below which nothing is reported: evaluation and checkpoints take as long."""

LONGER = 2
"""Times the longest step, or pause between two, that there has been: what comes in every epoch is
no fault."""


def _waits(facts: Facts) -> Lost | None:
    """Its cost is the run, and no part of a step."""
    found = silence(facts)
    if found.duration < max(LEAST, LONGER * found.longest):
        return None
    lines = last_lines(facts)
    own = next((line for rank, line in lines if rank == _place(facts)), None)
    return Lost(
        0,
        None,
        f"No step has ended for {fmt.duration(found.duration)}, since step {found.step}; a step "
        f"usually takes {fmt.duration(found.usual)}. {_where(lines)}",
        (
            Figure("since the last step", found.duration, "ns"),
            Figure("median step", found.usual, "ns"),
            *(
                Figure(f"main thread of rank {rank}", line.source, place=facts.at(line))
                for rank, line in lines
            ),
        ),
        place=facts.at(own) if own and own.file else None,
        share=found.duration / max(found.duration + found.usual, 1),
        worst=Severity.WARNING,
    )


def _place(facts: Facts) -> int | None:
    return facts.rank.place if facts.rank else None


def _where(lines: Sequence[tuple[int, LineShare]]) -> str:
    """Ranks by where they were last, those that are alike together."""
    if not lines:
        return "No stack sample shows where its main thread is."
    at: dict[str, list[int]] = {}
    for rank, line in lines:
        in_function = f" in {line.function}" if line.file and line.function else ""
        at.setdefault(f"{line.short}{in_function}", []).append(rank)
    if len(lines) == 1:
        return f"Its main thread was last seen at {next(iter(at))}."
    ranks = (f"{', '.join(map(str, each))} at {place}" for place, each in at.items())
    return f"Main threads were last seen: rank {'; rank '.join(ranks)}."


NO_PROGRESS = Rule(
    id="no-progress",
    when="the training still runs but makes no more steps",
    explanation=(
        "The last step was long ago for this training: it hangs, or does something it has not "
        "done before. Ranks waiting in a collective wait for the one that is elsewhere; a rank "
        "waiting for the data loader waits for a worker, a lock or a file system. The finding "
        "disappears with the next step, and is never reported for a run that has ended."
    ),
    lost=_waits,
    limits=Limits(
        0.95,
        0.999,
        "Twenty median steps, at least half a minute, and twice as long as ever before.",
        of="of the time since the last step began",
    ),
    answer="look at the line where it waits; with several ranks, at the one that is elsewhere",
)
