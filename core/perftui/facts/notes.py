"""Limits of the evidence and problems while it was recorded, in words."""

from __future__ import annotations

from collections.abc import Iterator

from perftui import format as fmt
from perftui.facts.fact import Facts, fact
from perftui.facts.ranks.traced_ranks import traced_ranks
from perftui.facts.source.source_calls import own_files, source_files
from perftui.facts.step.judged_step import DISAGREES
from perftui.facts.step.own_cost import cost_text, over_budget, overhead_budget, recording_cost
from perftui.facts.step.steps import TRAIN, activity, other_steps, step_breakdown, step_kind
from perftui.facts.step.trace_steps import trace_steps
from perftui.run.columns import NO_STACKS
from perftui.run.reader import RankSnapshot, RunSnapshot

MOST_MESSAGES = 20
"""Most messages shown: a fault in every step would repeat one forever."""

_KINDS = ("error", "warning")

MUCH_ELSE = 0.1
"""Share of a training's time from which other steps (evaluation, generation) are mentioned:
findings about training steps then miss what the run waits for. Reinforcement learning mostly
generates."""


@fact
def notes(facts: Facts) -> tuple[str, ...]:
    """Notes on the trace and on the run, in words."""
    of_trace = facts.analysis.notes if facts.analysis else ()
    if facts.run is None:
        ranks = traced_ranks.or_none(facts)
        return *of_trace, *(ranks.problems if ranks else ())
    if facts.rank is None:
        return *of_trace, *problems(facts.run)
    return *of_trace, *_run_notes(facts, facts.run, facts.rank)


def _run_notes(facts: Facts, run: RunSnapshot, shown: RankSnapshot) -> Iterator[str]:
    if step_kind(facts) != TRAIN:
        yield f"no training step was recorded: the steps are those of {activity(facts)}"
    elif (other := other_steps(facts)) is not None and other.share > MUCH_ELSE:
        yield (
            f"{fmt.percent(other.share)} of the time of all steps, {fmt.duration(other.ns)}, is "
            f"in {fmt.several(other.steps, 'step')} without a backward pass (evaluation, "
            "generation): the diagnosis covers the training steps"
        )
    if run.world > 1:
        yield f"{run.world} training processes: the diagnosis covers rank {shown.place}"
    trainings = run.trainings(shown.place)
    if len(trainings) > 1:
        number = f"number {trainings.index(shown) + 1}"
        yield f"{len(trainings)} trainings ran one after the other: the diagnosis covers {number}"
    if run.manifest.profile.get(NO_STACKS):
        yield str(run.manifest.profile[NO_STACKS])
    edited = [path.name for path, _ in source_files(facts) if path not in own_files(facts)]
    if edited:
        yield f"{', '.join(edited[:3])} changed since the run began: its lines are not looked up"
    yield from _longer_window(facts)
    # For a run that is over: its recording cost if that exceeded the budget.
    share, limit, cost = over_budget(facts), overhead_budget(facts), recording_cost(facts)
    if share is not None and limit is not None and cost is not None:
        yield (
            f"{cost_text(share, limit)}, of {fmt.duration(cost.whole)} of steps: so short a run "
            "pays for its first window; its steps are judged without that cost"
        )
    yield from problems(run)


def _longer_window(facts: Facts) -> Iterator[str]:
    """A note if the window's steps differ from the run's, saying which are believed."""
    window, of_run = trace_steps.or_none(facts), step_breakdown(facts)
    if window is None or not window.has_gpu or not window.steps or not of_run or not of_run.mean:
        return
    if abs(window.step_ns - of_run.mean) > DISAGREES * of_run.mean:
        yield (
            f"a step of the window takes {fmt.duration(window.step_ns)} on the GPU, one of the run "
            f"{fmt.duration(of_run.mean)} on average: the run's step time is used, since profiling "
            "slows the host, and its idle time is split in the window's proportions"
        )


def problems(run: RunSnapshot) -> tuple[str, ...]:
    """Messages of the agent and the recorder, each once with its rank, and lines left out.

    The text is raw: make it printable before it is shown."""
    unique: dict[str, None] = dict.fromkeys(run.manifest.notes)
    several = len(run.ranks) > 1
    for rank in run.ranks:
        prefix = f"rank {rank.rank}: " if several else ""
        events = rank.events
        for kind, data in zip(events["kind"], events["data"], strict=True):
            if kind in _KINDS and isinstance(data, dict) and data.get("message"):
                unique[f"{prefix}{data['message']}"] = None
    messages = list(unique)[:MOST_MESSAGES]
    if len(unique) > MOST_MESSAGES:
        messages.append(f"{len(unique) - MOST_MESSAGES} more messages are in events.jsonl")
    if run.skipped_lines:
        messages.append(f"{run.skipped_lines} damaged journal lines were left out")
    return tuple(messages)
