"""Steps slower than the others, or than those of earlier runs; and steps that no longer come."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np

from perftui import format as fmt
from perftui.analysis.model import GapCause
from perftui.analysis.steps import EXPOSED_COPIES, OTHER
from perftui.diagnosis.model import Figure, Severity, read_findings
from perftui.diagnosis.rule import Limits, Lost, line_figures, rule, without_cost
from perftui.facts.cpu.machine import busy_host, wait_for_own_processes
from perftui.facts.fact import Facts, NotApplicableError, UnknownError, samples
from perftui.facts.script.compilations_and_pauses import Saves, python_lock, saves
from perftui.facts.settings import settings
from perftui.facts.source.lines import LineShare, lines_by_time, stack_samples
from perftui.facts.source.stack_profile import FEWEST_MOMENTS, MOSTLY_OTHERS, Moments, moments
from perftui.facts.step.judged_step import host_parts
from perftui.facts.step.steps import MANY_STEPS, median, run_is_over, steady_step
from perftui.facts.step.uneven_steps import slow_steps
from perftui.run.columns import SAVE, phase_name
from perftui.run.files import UnreadableError
from perftui.run.layout import RunLayout
from perftui.run.manifest import Manifest, ManifestError, read_manifest
from perftui.run.table import Table
from perftui.trace.text import printable

LEAST_NAMED = 0.4
"""Share of the time of slow steps from which a line is named."""

_ELSEWHERE = ("input_wait", "loader_start")
"""Phases reported by other rules."""

_ON_DEVICE = (GapCause.SYNCHRONISATION.value, EXPOSED_COPIES)
"""Parts of a device's time that hold up a slow step, besides those of the host at work."""

MOSTLY_HELD = 0.5
"""Share of time that another thread holds Python's lock, or of slow steps that they wait for cores
of own processes, from which occasional slow steps in the model are due to it."""


@rule(
    when="a few steps take much longer than the others",
    limits=Limits("A step is slow from 1.5 times the median (nsys-ai, TraceML) on.", 0.10, 0.20),
    fixes=("less-often", "no-grad"),
    answer=(
        "do that work less often, or in a thread: checkpoints with "
        "torch.distributed.checkpoint.async_save"
    ),
)
def slow_steps_rule(facts: Facts) -> Lost | None:
    """The mean step is far longer than the median. The finding names the line where slow steps
    spend their time."""
    step, slow = steady_step(facts), slow_steps(facts)
    if slow is None or slow.phase in _ELSEWHERE or slow.cause not in ("", SAVE):
        # Compiling, collecting, profiling and evaluating have their own rules.
        return None
    if slow.cause == SAVE and saves(facts) is not None:
        # If each call of torch.save is known, its own rule knows more.
        return None
    lock, own = python_lock.or_none(facts), wait_for_own_processes.or_none(facts) or 0.0
    held = bool(lock and lock.held >= MOSTLY_HELD) or own * step.mean >= MOSTLY_HELD * slow.excess
    if not slow.cause and (not slow.stands_out or (slow.phase != OTHER and held)):
        # Occasionally the step waits for that thread or process several times.
        return None
    lines = slow.lines
    line, at = lines.named(LEAST_NAMED * lines.covered) if lines else (None, "")
    several = f"{slow.count} of {fmt.several(slow.steps, 'step')} take{'s' * (slow.count == 1)}"
    who = f"One step in {slow.every} takes" if slow.every > 1 else several
    where = "the script's own code" if slow.phase == OTHER else phase_name(slow.phase)
    why = "they write checkpoints" if slow.cause == SAVE else f"the time is in {where}"
    mostly = " " if slow.cause == SAVE else ", mostly "
    return Lost(
        slow.excess,
        step,
        f"{who} {fmt.duration(slow.typical)} instead of {fmt.duration(slow.median)}, "
        f"{step.part_of(slow.excess)} on average: {why}{at and mostly + at}.",
        (
            Figure("slow steps", slow.count, "count"),
            Figure("median step", slow.median, "ns"),
            Figure("slow step", slow.typical, "ns"),
            *line_figures(facts, slow.lines, "of them at"),
        ),
        label="above the median",
        place=facts.at(line) if line else None,
        parts=host_parts(facts, (slow.phase,), *_ON_DEVICE),
        doubt="" if slow.cause or slow.every or slow.phase == OTHER else busy_host(facts),
        unproven="" if slow.cause else "stack samples that show what slow steps do",
    )


@rule(
    when="the training waits while checkpoints are written",
    limits=Limits(),
    fixes=("less-often",),
    answer=(
        "save less often, save less, or save in a thread with "
        "torch.distributed.checkpoint.async_save"
    ),
)
def checkpoint(facts: Facts) -> Lost | None:
    """Saving the model and the optimizer holds up the loop."""
    # Checkpoints by the calls of ``torch.save``; by samples if other functions save too, or no call
    # was noted, unless saving is what makes a few steps slow.
    step, called, seen = steady_step(facts), saves(facts), moments(facts)
    if seen is None and called is None:
        raise UnknownError("too few stack samples")
    cost = called.per_step if called else 0
    sampled = _saving_by_samples(facts, seen, step.mean) if seen else 0
    if called is None or sampled > MOSTLY_OTHERS * cost:
        return _sampled_checkpoint(facts, seen, min(sampled, step.part(OTHER))) if seen else None
    cost, limit = min(cost, step.mean), checkpoint.limits.warning
    beside = _beside_the_model(facts, called)
    return Lost(
        cost,
        step,
        f"Writing checkpoints takes {step.part_of(cost)}: {_calls(called)}{beside}.",
        (
            Figure.share("writing checkpoints", cost / step.mean, limit, called.place),
            Figure("calls of torch.save", called.count, "count"),
            Figure("each takes", called.each, "ns"),
            *((Figure("largest file", called.size, "B"),) if called.size else ()),
        ),
        place=called.place,
        parts=host_parts(facts, (OTHER,), *_ON_DEVICE),
        advice="save weights and optimizer alone, and clones of slices: torch.save writes all of "
        "the tensor that a slice is a view of"
        if beside
        else "",
    )


OF_A_MODEL = 16
"""Bytes per parameter of a large checkpoint: weights, two averages of Adam and an average of the
weights in float32."""


def _beside_the_model(facts: Facts, called: Saves) -> str:
    """How much larger the file is than the model needs, as a part of a sentence; empty if it is
    not."""
    weights = sum(row.elements for row in settings(facts).parameters or ())
    if not weights or called.size <= 2 * OF_A_MODEL * weights:
        return ""
    needs = fmt.size(OF_A_MODEL * weights)
    return f", files of {fmt.size(called.size)}, where weights and optimizer need {needs} at most"


def _calls(called: Saves) -> str:
    """``torch.save at train.py:9 every 20 steps, 74 ms each``."""
    at = f" at {called.place.short}" if called.place else ""
    often = {0: "", 1: " in every step"}.get(called.every, f" every {called.every} steps")
    count = "" if called.every else f" {called.count} times"
    return f"torch.save{at}{count}{often}, {fmt.duration(called.each)} each"


def _saving_by_samples(facts: Facts, stacks: Moments, mean: int) -> int:
    """ns of the mean step in saving; 0 if another rule reports it, or with too few samples."""
    uneven = slow_steps.or_none(facts)
    in_slow = uneven is not None and uneven.cause == SAVE
    if in_slow and uneven and uneven.excess >= slow_steps_rule.limits.warning * mean:
        return 0
    saving = stacks.stage == SAVE
    cost = round(stacks.share(saving) * mean) if stacks.count(saving) >= FEWEST_MOMENTS else 0
    return max(cost, uneven.explained) if in_slow and uneven else cost


def _sampled_checkpoint(facts: Facts, stacks: Moments, cost: int) -> Lost | None:
    if not cost:
        return None
    step, lines = steady_step(facts), stacks.lines(stacks.stage == SAVE)
    line, at = lines.named(LEAST_NAMED * lines.covered)
    return Lost(
        cost,
        step,
        f"Writing checkpoints takes {step.part_of(cost)}{at and f' {at}'}.",
        line_figures(facts, lines, "of them at"),
        label="writing checkpoints",
        place=facts.at(line) if line else None,
        parts=host_parts(facts, (OTHER,), *_ON_DEVICE),
    )


MOST_READ = 50
"""Most earlier run directories examined, newest first: 0.2 ms each."""


@lru_cache(maxsize=8)
def _ended_before(
    root: Path, started_ns: int, command: tuple[str, ...], cwd: str, host: str
) -> tuple[tuple[Manifest, int], ...]:
    """Runs of the command beside ``root`` that ended before it began, newest first, and the mean
    steady step of each, ns, if it was judged on enough steps. What ended before a run does not
    change."""
    try:
        names = sorted((entry.name for entry in root.parent.iterdir()), reverse=True)
    except OSError:
        return ()
    runs = []
    for name in [other for other in names if other < root.name][:MOST_READ]:
        layout = RunLayout(root.parent / name)
        try:
            manifest = read_manifest(layout.manifest)
            if (manifest.command, manifest.cwd, manifest.host) != (command, cwd, host):
                continue
            diagnosis = read_findings(layout.findings)
        except (ManifestError, UnreadableError, OSError):
            continue
        # Findings of the whole run were measured against its mean step.
        steady = diagnosis.steady_steps
        steps = (one.step_ns for one in diagnosis.findings if one.steps == steady and one.step_ns)
        step = next(steps, 0) if steady >= MANY_STEPS else 0
        if step and manifest.ended_ns is not None and manifest.ended_ns <= started_ns:
            runs.append((manifest, step))
    return tuple(runs)


FEWEST_RUNS = 2
"""Fewest earlier runs: with less, a difference may be chance."""

_CHANGES = {
    "git_commit": "the git commit",
    "git_dirty": "uncommitted changes",
    "torch_version": "PyTorch's version",
    "python_version": "Python's version",
    "interpreter": "the interpreter",
    "gpus": "the GPUs",
    "cpu_count": "the usable cores",
}
"""Fields of the manifest that may explain a difference."""


@rule(
    when="steps take longer than in earlier runs of the same command",
    limits=Limits.of_hint(
        0.10, "gpuprof reports 10 % above the median of earlier runs.", of="above earlier runs"
    ),
    answer="find what changed since then: perftui compare shows two runs side by side",
)
def slower_than_before(facts: Facts) -> Lost | None:
    """Earlier runs of the same command, machine and directory had shorter steps. The code, a
    library or the data has changed, or the machine does other work."""
    # The cause is unknown, so the cost is 0.
    if facts.run is None or not run_is_over(facts):
        raise NotApplicableError
    own = facts.run.manifest
    runs = _ended_before(facts.run.root, own.started_ns, own.command, own.cwd, own.host)
    # Without trials with other settings.
    same = (own.overrides, own.patched)
    earlier = [(past, ns) for past, ns in runs if (past.overrides, past.patched) == same]
    if len(earlier) < FEWEST_RUNS:
        raise NotApplicableError
    step = steady_step(facts)
    if step.count < MANY_STEPS:
        return None
    usual = round(median(np.array([ns for _, ns in earlier])))
    changed = _changed(earlier[0][0], own)
    why = "nothing on record has changed since the last of them"
    if changed:
        why = f"changed since the last of them: {' and '.join(changed)}"
    return without_cost(
        f"The mean step takes {fmt.duration(step.mean)}, against {fmt.duration(usual)} in "
        f"{len(earlier)} earlier runs of the same command: {why}.",
        (
            Figure("mean step", step.mean, "ns"),
            Figure("median of the mean steps of earlier runs", usual, "ns"),
            *(Figure(f"before: {what}", value) for what, value in changed.items()),
        ),
        share=step.mean / usual - 1,
        worst=Severity.INFO,
    )


def _changed(before: Manifest, now: Manifest) -> dict[str, str]:
    """Values of the newest earlier run that differ, by field, if both are known."""
    pairs = ((what, getattr(before, name), getattr(now, name)) for name, what in _CHANGES.items())
    diffs = ((what, old) for what, old, new in pairs if old not in (None, "", ()) and old != new)
    return {
        what: printable(", ".join(map(str, old)) if isinstance(old, tuple) else str(old))
        for what, old in diffs
    }


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


@rule(
    when="the training still runs but makes no more steps",
    limits=Limits(
        "Twenty median steps, at least half a minute, and twice as long as ever before.",
        0.95,
        0.999,
        of="of the time since the last step began",
    ),
    answer=(
        "look at the line where the training waits; with several ranks, at the rank that is "
        "elsewhere"
    ),
)
def no_progress(facts: Facts) -> Lost | None:
    """The training hangs, or does something for the first time. Ranks in a collective wait for the
    one that is elsewhere; a rank in the data loader waits for a worker, a lock or a file. The
    finding disappears with the next step."""
    # Time from the end of the last step to the newest sample of anything. The cost is the run, not
    # part of a step.
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
    return without_cost(
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
