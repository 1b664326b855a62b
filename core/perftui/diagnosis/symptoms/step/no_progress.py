"""The training still runs, but makes no more steps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from perftui import format as fmt
from perftui.diagnosis.model import Figure, Severity
from perftui.diagnosis.rule import Limits, Lost, Rule
from perftui.facts.fact import Facts, NotApplicableError, samples
from perftui.facts.source.lines import LineShare, lines_by_time, stack_samples
from perftui.facts.step.steps import MANY_STEPS, median, run_is_over
from perftui.run.table import Table

MOST_RANKS = 16
"""Most ranks examined."""


def _last_lines(facts: Facts, since: int) -> list[tuple[int, LineShare]]:
    """The ranks whose main threads were sampled ``since`` then, and the last line of each."""
    ranks, lines = facts.run.ranks if facts.run else (), []
    for place in sorted({rank.place for rank in ranks})[:MOST_RANKS]:
        stacks, _ = stack_samples(facts.of_rank(place))
        if not len(stacks) or _newest(stacks) <= since:
            continue
        at = int((stacks["time"] + stacks["held"]).argmax())
        times = np.zeros(len(stacks), np.int64)
        times[at] = max(int(stacks["held"][at]), 1)
        lines.append((place, lines_by_time(stacks, times).lines[0]))
    return lines


def _newest(stacks: Table) -> int:
    return int((stacks["time"] + stacks["held"]).max()) if len(stacks) else 0


LEAST = 30_000_000_000
"""ns without a step below which nothing is reported: evaluation and checkpoints take as long."""

LONGER = 2
"""Multiple of the longest step, or pause between two, so far: pauses in every epoch are no
fault."""


def _waits(facts: Facts) -> Lost | None:
    """Time from the end of the last step to the newest sample of anything. The cost is the run, not
    part of a step."""
    run, shown, steps = facts.run, facts.rank, facts.steps
    if run is None or shown is None or run_is_over(facts) or len(steps) < MANY_STEPS:
        # Compiling or loading in the first steps may take minutes.
        raise NotApplicableError
    if run.trainings(shown.place)[-1:] != (shown,):
        # Another process is the rank by now, and has made no step yet.
        raise NotApplicableError
    end, sampled = steps["start"] + steps["duration"], samples(facts)
    last = int(end.max())
    seen = int(sampled["time"].max()) if "time" in sampled and len(sampled) else 0
    quiet = max(max(seen, _newest(stack_samples(facts)[0])) - last, 0)
    longest = max(int(np.diff(end).max()), int(steps["duration"].max()))
    if quiet < max(LEAST, LONGER * longest):
        return None
    lines, usual = _last_lines(facts, last), round(median(steps["duration"]))
    own = next((line for rank, line in lines if rank == shown.place), None)
    return Lost.without_cost(
        f"No step has ended for {fmt.duration(quiet)}, since step "
        f"{int(steps['index'][int(end.argmax())])}; a step usually takes {fmt.duration(usual)}. "
        f"{_where(lines)}",
        (
            Figure("since the last step", quiet, "ns"),
            Figure("median step", usual, "ns"),
            *(
                Figure(f"main thread of rank {rank}", line.source, place=facts.at(line))
                for rank, line in lines
            ),
        ),
        place=facts.at(own) if own and own.file else None,
        share=quiet / max(quiet + usual, 1),
        worst=Severity.WARNING,
    )


def _where(lines: Sequence[tuple[int, LineShare]]) -> str:
    """Ranks grouped by their last line."""
    if not lines:
        return "No stack sample shows where its main thread is."
    at: dict[str, list[int]] = {}
    for rank, line in lines:
        in_function = f" in {line.function}" if line.file and line.function else ""
        at.setdefault(f"{line.short}{in_function}", []).append(rank)
    if len(lines) == 1:
        return f"Its main thread was last seen at {next(iter(at))}."
    ranks = (f"{', '.join(map(str, group))} at {place}" for place, group in at.items())
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
        "Twenty median steps, at least half a minute, and twice as long as ever before.",
        0.95,
        0.999,
        of="of the time since the last step began",
    ),
    answer="look at the line where it waits; with several ranks, at the one that is elsewhere",
)
