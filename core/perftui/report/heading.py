"""What a report is about and how its steps were, in the words of every form."""

from __future__ import annotations

from collections.abc import Iterator

from perftui import format as fmt
from perftui.facts.step.own_cost import cost_text, over_budget, overhead_budget
from perftui.facts.step.steps import step_breakdown, step_count
from perftui.report.report import Report
from perftui.report.shown import printable
from perftui.run.manifest import Manifest, Status

NO_VERDICT = "No verdict: nothing was found, but too little is known to call it healthy."


def heading(report: Report) -> Iterator[str]:
    """What was run or recorded, on what, and how its steps were; a line each."""
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
    """How the steady steps of a run were; nothing without any."""
    steady = step_breakdown(report.facts)
    if steady:
        yield (
            f"{fmt.several(steady.count, 'steady step')} of {step_count(report.facts)}: "
            f"mean {fmt.duration(steady.mean)}, median {fmt.duration(steady.p50)}, "
            f"p95 {fmt.duration(steady.p95)}, {steady.steps_per_second:.1f} steps/s"
        )


def overhead_text(report: Report) -> Iterator[str]:
    """What perftui took of a run, where that is more than its limit."""
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
