"""What a report is about: the script or trace, when, on which machine, with which versions."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timezone

from perftui import __version__
from perftui import format as fmt
from perftui.report.heading import hardware_text, overhead_text, status_text, steps_text
from perftui.report.report import Report
from perftui.run.manifest import Manifest

NS = 1_000_000_000


def title(report: Report) -> str:
    """The script of a run, or the name of a trace."""
    run = report.subject.run
    return run.manifest.script if run else report.subject.path.name


def about(report: Report) -> Iterator[tuple[str, str]]:
    """Names and values, without what is not known."""
    yield from _run(report.subject.run.manifest) if report.subject.run else _trace(report)
    for line in steps_text(report):
        yield "Steps", line
    for line in overhead_text(report):
        yield "Overhead", line


def _run(manifest: Manifest) -> Iterator[tuple[str, str]]:
    yield "Run", f"{manifest.run_id}, {status_text(manifest)}"
    yield "When", _when(manifest.started_ns)
    yield "Machine", f"{manifest.host}, {hardware_text(manifest)}"
    commit = manifest.git_commit
    if commit:
        yield "Commit", f"{commit[:12]}{', with changes' if manifest.git_dirty else ''}"
    versions = (("Python", manifest.python_version), ("PyTorch", manifest.torch_version))
    own = ("perftui", manifest.perftui_version or __version__)
    yield "Versions", ", ".join(f"{name} {number}" for name, number in (*versions, own) if number)


def _trace(report: Report) -> Iterator[tuple[str, str]]:
    analysis = report.subject.analysis
    if analysis is None:
        return
    trace, count = analysis.trace, len(analysis.steps)
    marked = fmt.several(count, "step") if count else "no steps"
    yield "Trace", f"{len(trace):,} events, {marked} marked"
    if trace.wall_origin is not None:
        yield "When", _when(trace.wall_origin)
    devices = [one.name or f"GPU {one.device}" for one in analysis.activity]
    counts = {name: devices.count(name) for name in dict.fromkeys(devices)}
    named = (f"{count} x {name}" if count > 1 else name for name, count in counts.items())
    yield "Machine", ", ".join(named) or "no GPU activity recorded"
    yield "Versions", f"perftui {__version__}"


def _when(ns: int) -> str:
    """A moment to the minute; UTC, as a reader elsewhere has another clock."""
    try:
        return f"{datetime.fromtimestamp(ns // NS, timezone.utc):%Y-%m-%d %H:%M} UTC"
    except (ValueError, OverflowError, OSError):
        # Files hold any number.
        return "not known"
