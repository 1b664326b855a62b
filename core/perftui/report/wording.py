"""What all forms of a report say in the same words: heading, mean step, lines, figures, fixes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from perftui import format as fmt
from perftui.analysis.steps import COMPUTE, EXPOSED_COMMUNICATION
from perftui.diagnosis.model import Figure, Finding
from perftui.experiments.journal import Proof, read_proof
from perftui.facts.data_loader.batch_place import loader_lines
from perftui.facts.fact import Facts
from perftui.facts.gpu.host_waits import SyncCalls
from perftui.facts.gpu.idle import gap_lines
from perftui.facts.ranks.rank_table import RankTable, rank_table
from perftui.facts.ranks.straggler import table_of_traces
from perftui.facts.ranks.traced_ranks import traced_ranks
from perftui.facts.source import lines as thread
from perftui.facts.source.lines import LinesByTime
from perftui.facts.step.own_cost import cost_text, over_budget, overhead_budget
from perftui.facts.step.steps import StepBreakdown, step_breakdown, step_count
from perftui.fixes.option import FixOption
from perftui.format import apportioned
from perftui.report.output_text import printable
from perftui.report.report import Report
from perftui.run.layout import trials_of
from perftui.run.manifest import Manifest, Status

NO_VERDICT = "No verdict: nothing was found, but too little is known to call it healthy."


def heading(report: Report) -> Iterator[str]:
    """What was run, where, and how its steps were; a line each."""
    subject = report.subject
    if subject.run is None:
        yield printable(subject.name)
        return
    manifest = subject.run.manifest
    yield printable(f"{manifest.script} - {status_text(manifest)}")
    yield printable(f"run {manifest.run_id} on {manifest.host}, {hardware_text(manifest)}")
    yield from steps_text(report)
    yield from overhead_text(report)


def steps_text(report: Report) -> Iterator[str]:
    """A line about the steady steps of a run; nothing without any."""
    steady = step_breakdown(report.facts)
    if steady:
        yield (
            f"{fmt.several(steady.count, 'steady step')} of {step_count(report.facts)}: "
            f"mean {fmt.duration(steady.mean)}, median {fmt.duration(steady.p50)}, "
            f"p95 {fmt.duration(steady.p95)}, {steady.steps_per_second:.1f} steps/s"
        )


def overhead_text(report: Report) -> Iterator[str]:
    """A line about the overhead of perftui, where it is over its limit."""
    share, budget = over_budget(report.facts), overhead_budget(report.facts)
    if share is not None and budget is not None:
        yield cost_text(share, budget)


def status_text(manifest: Manifest) -> str:
    """How a run ended, or that it goes on."""
    if manifest.message:
        return manifest.message
    if manifest.stopped:
        return f"{manifest.stopped} (code {manifest.exit_code})"
    if manifest.status is Status.EXITED:
        return f"exited with code {manifest.exit_code}"
    if manifest.status is Status.KILLED:
        return f"killed by a signal (code {manifest.exit_code})"
    if manifest.status is Status.LOST:
        return "lost: its recorder died before it ended"
    return str(manifest.status.value)


def hardware_text(manifest: Manifest) -> str:
    """The cores and GPUs that a training may use."""
    gpus = ", ".join(manifest.gpus) or "no GPU"
    # 0 where an older or foreign manifest has none.
    cores = fmt.several(manifest.cpu_count, "core") if manifest.cpu_count else "cores unknown"
    return f"{cores}, {gpus}"


def breakdown_title(breakdown: StepBreakdown) -> tuple[str, str]:
    """The title of a breakdown, and how many steps it is the mean of."""
    where = "in the training thread" if breakdown.of_run else "in the trace"
    over = f"mean of {fmt.several(breakdown.count, 'step')}" if breakdown.count else "all of it"
    return f"Where the time goes {where}", over


def breakdown_rows(whole: StepBreakdown) -> Iterator[tuple[str, int, int]]:
    """The name of each part, hundredths of a millisecond and tenths of a per cent, then of the
    whole; parts are rounded so that they sum to it."""
    parts = [(name, value) for name, value in whole.parts if value]
    values = [value for _, value in parts]
    times, shares = apportioned(values, (whole.mean + 5_000) // 10_000), apportioned(values, 1000)
    names = (whole.shown(name) for name, _ in parts)
    yield from zip(names, times, shares, strict=True)
    yield "step" if whole.count else "whole", sum(times), sum(shares)


def valued(value: float | int | str, unit: str) -> str:
    """A value with its unit, as a person reads it."""
    if isinstance(value, str):
        return value
    if unit == "ns":
        return fmt.duration(value)
    if unit == "B":
        return fmt.size(value)
    # "g" keeps six digits, so counts are written whole.
    number = str(value) if isinstance(value, int) else f"{value:g}"
    return f"{number} %" if unit == "%" else number


def short_value(figure: Figure) -> str:
    """A value with its unit; of a place without its directories, which name a person's machine."""
    value = valued(figure.shown_value, figure.unit)
    place = figure.place
    return place.short if place is not None and place.source == value else value


def findings_with_fixes(report: Report) -> Iterator[tuple[Finding, list[FixOption]]]:
    """Each finding with its fixes, without those that an earlier one has too."""
    shown: set[str] = set()
    for finding in report.diagnosis.findings:
        fixes = [fix for fix in report.fixes if fix.fix in finding.fixes]
        yield finding, [fix for fix in fixes if fix.fix not in shown]
        shown |= {fix.fix for fix in fixes}


def state_text(fix: FixOption) -> str:
    """Why a fix is not offered; empty where it is."""
    if fix.is_written:
        return fix.why_not
    return "" if fix.is_possible else "not possible here"


def proof_of_fix(fix: FixOption, report: Report) -> Proof | None:
    """The proof from a trial of that very change; None without one."""
    run = report.subject.run
    proof = read_proof(trials_of(run.root), fix.fix) if run is not None else None
    return proof if proof is not None and proof.is_of(fix) else None


def gain_of(finding: Finding, report: Report, condition: str = "") -> str:
    """The measured gain of a fix of it, else its bound and the ``condition``; empty if unknown."""
    fixes = (fix for fix in report.fixes if fix.fix in finding.fixes)
    proofs = (proof_of_fix(fix, report) for fix in fixes)
    if proof := next((proof for proof in proofs if proof and proof.is_faster), None):
        return f"{proof.headline} with a fix, measured"
    return finding.gain and f"{finding.gain}{condition}"


def pairs_text(proof: Proof) -> str:
    """``6 pairs of runs with the fix and without``."""
    return f"{fmt.several(len(proof.pairs), 'pair')} of runs with the fix and without"


def thread_lines(facts: Facts) -> Iterator[tuple[str, LinesByTime]]:
    """Titled lists of lines: over steady and profiled steps, of workers, and in the idle time of
    each cause."""
    steady, profiled = thread.main_thread(facts), thread.window_thread(facts)
    if steady is not None:
        samples = f"about {fmt.several(steady.samples, 'sample')}"
        yield f"Where the main thread is, over the steady steps ({samples})", steady
    if profiled is not None:
        samples = f"about {fmt.several(profiled.samples, 'sample')} from inside"
        yield f"Where the main thread is, over the profiled steps ({samples})", profiled
    workers = loader_lines(facts)
    if workers is not None:
        title = (
            f"Where the workers make batches, {fmt.percent(workers.busy)} of their time "
            f"(about {fmt.several(workers.making.samples, 'sample')})"
        )
        yield title, workers.making
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


def main_thread(facts: Facts) -> Iterator[Iterable[str]]:
    """A block for each list of lines."""
    for title, lines in thread_lines(facts):
        each = ((line, f" in {line.function}" if line.function else "") for line in lines.listed)
        shares = (f"  {100 * lines.share(of):5.1f} %  {of.source}{where}" for of, where in each)
        yield (title, *shares)


def sync_calls(syncs: SyncCalls | None) -> Iterator[str]:
    """The calls that wait for the GPU, each by its line; nothing where none were counted."""
    if syncs is None:
        return
    over = fmt.several(syncs.steps, "profiled step")
    yield f"{syncs.title}, over {over}"
    if not syncs.on_gpu:
        yield f"  {NO_GPU}"
    yield f"  {'a step':>8}  {'time a step':>11}  {'longest':>8}"
    for call in syncs.calls:
        mean, longest = "unknown", ""
        if call.time >= 0:
            mean, longest = fmt.duration(call.time / syncs.steps), fmt.duration(call.longest)
        times = f"{mean:>11}  {longest:>8}"
        yield f"  {call.count / syncs.steps:>8.1f}  {times}  {call.call} at {call.source}"
    if not syncs.calls:
        yield "  none"


def table_of_ranks(facts: Facts) -> RankTable:
    """The ranks of a run or of a directory of traces; of others one row, or none."""
    traced = traced_ranks.or_none(facts)
    return table_of_traces(traced.each, 0, traced.problems) if traced else rank_table(facts)


def ranks_text(facts: Facts) -> Iterator[str]:
    """A line for each rank of a directory of traces; nothing of a run, or of one trace."""
    traced = traced_ranks.or_none(facts)
    if traced is None:
        return
    yield "Ranks, mean step; waits caused: how long all others wait for this rank"
    yield f"  {'rank':>4} {'step':>10} {'compute':>10} {'exposed comm':>13} {'waits caused':>13}"
    for row in table_of_ranks(facts).rows:
        shown = "*" if row.rank == traced.shown else " "
        parts = dict(row.parts)
        times = (row.mean, parts.get(COMPUTE), parts.get(EXPOSED_COMMUNICATION), row.caused)
        step, compute, exposed, caused = ("-" if ns is None else fmt.duration(ns) for ns in times)
        yield f" {shown}{row.rank:>4} {step:>10} {compute:>10} {exposed:>13} {caused:>13}"
    yield "  * the rank of this report"
