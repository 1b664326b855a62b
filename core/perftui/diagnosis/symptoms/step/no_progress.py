"""The training still runs, but makes no more steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from perftui import format as fmt
from perftui.diagnosis.model import Figure, Severity
from perftui.diagnosis.rule import Limits, Lost, Rule
from perftui.facts.fact import Facts, NotApplicableError, fact, samples
from perftui.facts.source.lines import LineShare, lines_by_time, stack_samples
from perftui.facts.step.steps import MANY_STEPS, median, run_is_over
from perftui.run.table import Table

MOST_RANKS = 16
"""Most ranks examined."""


@dataclass(frozen=True)
class Silence:
    """Time from the end of the last step to the newest sample of anything; times in ns."""

    duration: int
    step: int
    """Index of the last step."""
    usual: int
    """Median of the earlier steps, of any kind."""
    longest: int
    """The longest earlier step, or time between two."""
    since: int
    """End of the last step, ns since the epoch."""


@fact
def silence(facts: Facts) -> Silence:
    """Time since the rank's last step.

    Raises:
        NotApplicableError: there is no run, it is over, or it has few steps: compiling or loading
        in the first ones may take minutes.
    """
    run, rank, steps = facts.run, facts.rank, facts.steps
    if run is None or rank is None or run_is_over(facts) or len(steps) < MANY_STEPS:
        raise NotApplicableError
    if run.trainings(rank.place)[-1:] != (rank,):
        # Another process is the rank by now, and has made no step yet.
        raise NotApplicableError
    end = steps["start"] + steps["duration"]
    last = int(end.max())
    between = np.diff(end) if len(end) > 1 else np.zeros(1, np.int64)
    outside, _ = stack_samples(facts)
    sampled = samples(facts)
    seen = int(sampled["time"].max()) if "time" in sampled and len(sampled) else 0
    return Silence(
        duration=max(max(seen, _newest(outside)) - last, 0),
        step=int(steps["index"][int(end.argmax())]),
        usual=round(median(steps["duration"])),
        longest=max(int(between.max()), int(steps["duration"].max())),
        since=last,
    )


@fact
def last_lines(facts: Facts) -> tuple[tuple[int, LineShare], ...]:
    """The ranks whose main threads were sampled since the last step, and the last line of each."""
    since, ranks, lines = silence(facts).since, facts.run.ranks if facts.run else (), []
    for place in sorted({rank.place for rank in ranks})[:MOST_RANKS]:
        stacks, _ = stack_samples(facts.of_rank(place))
        if not len(stacks) or _newest(stacks) <= since:
            continue
        at = int((stacks["time"] + stacks["held"]).argmax())
        times = np.zeros(len(stacks), np.int64)
        times[at] = max(int(stacks["held"][at]), 1)
        lines.append((place, lines_by_time(stacks, times).lines[0]))
    return tuple(lines)


def _newest(stacks: Table) -> int:
    return int((stacks["time"] + stacks["held"]).max()) if len(stacks) else 0


LEAST = 30_000_000_000
"""ns without a step below which nothing is reported: evaluation and checkpoints take as long."""

LONGER = 2
"""Multiple of the longest step, or pause between two, so far: pauses in every epoch are no
fault."""


def _waits(facts: Facts) -> Lost | None:
    """The cost is the run, not part of a step."""
    quiet = silence(facts)
    if quiet.duration < max(LEAST, LONGER * quiet.longest):
        return None
    lines = last_lines(facts)
    here = facts.rank.place if facts.rank else None
    own = next((line for rank, line in lines if rank == here), None)
    return Lost.without_cost(
        f"No step has ended for {fmt.duration(quiet.duration)}, since step {quiet.step}; a step "
        f"usually takes {fmt.duration(quiet.usual)}. {_where(lines)}",
        (
            Figure("since the last step", quiet.duration, "ns"),
            Figure("median step", quiet.usual, "ns"),
            *(
                Figure(f"main thread of rank {rank}", line.source, place=facts.at(line))
                for rank, line in lines
            ),
        ),
        place=facts.at(own) if own and own.file else None,
        share=quiet.duration / max(quiet.duration + quiet.usual, 1),
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
