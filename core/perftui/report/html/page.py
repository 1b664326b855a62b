"""A report as one HTML file: no script, no network, nothing beside it.

``page.html`` is the page, ``parts.html`` what it is made of, ``style.css`` its sheet; the chart of
step times, with slow steps marked, is drawn here."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import cache, cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from perftui import __version__
from perftui import format as fmt
from perftui.analysis.kernels.names import short_names
from perftui.diagnosis.rules import answer_to
from perftui.facts.fact import Facts
from perftui.facts.gpu.host_waits import syncs
from perftui.facts.step.steps import median, steady_mask, step_kind
from perftui.facts.step.trace_steps import trace_steps
from perftui.facts.step.uneven_steps import slow_from
from perftui.report import wording
from perftui.report.html.timeline import HUES, hue, part_boxes, timeline
from perftui.report.kernel_metrics import LEGEND, rate
from perftui.report.output_text import printable
from perftui.report.recorded import gpu_tables, recording_lines
from perftui.report.report import MOST_ROWS, Report, listed_modules
from perftui.report.wording import table_of_ranks
from perftui.run.columns import phase_name
from perftui.run.manifest import Manifest
from perftui.trace.model import Int64

FEWEST = 3
"""Steps that are worth a chart."""

ABOVE = 1.25
"""The chart is to scale up to this many times the limit of slow steps or the 95th percentile, the
larger, or the longest step if that is less: a step of a thousand times the usual length would
flatten all others."""


WIDTH, HEIGHT = 1_000, 100

MOST_DOTS = 240
"""Most steps drawn one by one; more are drawn as so many columns."""

MOST_SLOW = 100
"""Slow steps that are marked, the longest ones."""


class Mark(NamedTuple):
    """A path of the drawing."""

    path: str
    kind: str
    text: str = ""


@dataclass(frozen=True, eq=False)
class StepTimes:
    """Steps of one kind in order, as columns of equal length; at least one is steady."""

    index: Int64
    duration: Int64
    """ns."""
    steady: npt.NDArray[np.bool_]
    """Neither of the warm-up nor disturbed by profiling."""

    @property
    def usual(self) -> float:
        """Median of the steady steps, ns."""
        return median(self.duration[self.steady])

    @cached_property
    def limit(self) -> float:
        """Steady steps longer than this are slow, ns."""
        return slow_from(self.duration[self.steady])

    @property
    def slow(self) -> npt.NDArray[np.bool_]:
        """Which steady steps are slow."""
        return self.steady & (self.duration > self.limit)

    @property
    def top(self) -> int:
        """Most ns that are drawn to scale; longer steps lie above the chart."""
        ordered = np.sort(self.duration[self.steady])
        high = float(ordered[(len(ordered) - 1) * 95 // 100])
        return int(ABOVE * min(float(self.duration.max()), max(self.limit, high))) + 1

    def down(self, ns: float) -> float:
        """Height of a time: 0 at the top of the chart, ``HEIGHT`` at 0 ns."""
        return HEIGHT * (1 - min(ns / self.top, 1.0))

    def marks(self) -> Iterator[Mark]:
        """Each step as a dot; of many steps, the median and the range of groups."""
        yield from self._dots() if len(self.index) <= MOST_DOTS else self._columns()
        rows = np.flatnonzero(self.slow)
        longest = rows[np.argsort(-self.duration[rows], kind="stable")][:MOST_SLOW]
        yield from (self._dot(at, "slow", ", slow") for at in sorted(longest.tolist()))

    def caption(self) -> Iterator[str]:
        """What is drawn, in sentences."""
        slow, beyond = int(self.slow.sum()), self.duration > self.top
        steady = fmt.several(int(self.steady.sum()), "steady step")
        text = f", {slow:,} slow (over {fmt.duration(self.limit)})" if slow else ", none slow"
        yield f"{steady}, median {fmt.duration(self.usual)}{text}."
        if slow > MOST_SLOW:
            yield f"The {MOST_SLOW} longest are marked."
        if len(self.index) > MOST_DOTS:
            yield "A line stands for the range of several steps, the curve for their median."
        elif not self.steady.all():
            yield "Hollow: warm-up or profiled."
        if beyond.any():
            at = int(self.duration.argmax())
            longest = f"step {self.index[at]} with {fmt.duration(int(self.duration[at]))}"
            lie = "step lies" if int(beyond.sum()) == 1 else "steps lie"
            yield f"{int(beyond.sum()):,} {lie} above the chart; the longest is {longest}."

    def _place(self, at: float, ns: float) -> str:
        return f"{number(WIDTH * (at + 0.5) / len(self.index))} {number(self.down(ns))}"

    def _dots(self) -> Iterator[Mark]:
        yield _line([self._place(at, ns) for at, ns in enumerate(self.duration.tolist())])
        slow = self.slow
        for at, steady in enumerate(self.steady.tolist()):
            if not steady:
                yield self._dot(at, "aside", ", warm-up or profiled")
                yield Mark(self._dot(at, "").path, "dot hollow")
            elif not slow[at]:
                yield self._dot(at, "steady")

    def _dot(self, at: int, kind: str, more: str = "") -> Mark:
        """A line without length, whose round ends make a dot however the chart is stretched."""
        ns = int(self.duration[at])
        text = f"step {self.index[at]}, {fmt.duration(ns)}{more}"
        return Mark(f"M{self._place(at, ns)}h0", f"dot {kind}", text)

    def _columns(self) -> Iterator[Mark]:
        edges = np.linspace(0, len(self.index), MOST_DOTS + 1).astype(np.int64).tolist()
        ranges, middles = [], []
        for low, high in pairwise(edges):
            some, middle = self.duration[low:high], (low + high - 1) / 2
            lowest = number(self.down(int(some.min())))
            ranges.append(f"M{self._place(middle, int(some.max()))}V{lowest}")
            middles.append(self._place(middle, median(some)))
        yield Mark("".join(ranges), "range")
        yield _line(middles)


def _line(places: list[str]) -> Mark:
    return Mark(f"M{'L'.join(places)}", "line")


def number(value: float) -> str:
    """A coordinate: two decimals at most, and none that are zeros."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def step_times(facts: Facts) -> StepTimes | None:
    """The steps of a run that are still kept one by one, or of a trace; None where they are few."""
    times = _of_run(facts) if len(facts.steps) else _of_trace(facts)
    return None if times is None or len(times.index) < FEWEST or not times.steady.any() else times


def _of_run(facts: Facts) -> StepTimes:
    of_kind = facts.steps["kind"] == step_kind(facts)
    rows = facts.steps.where(of_kind)
    return StepTimes(rows["index"], rows["duration"], steady_mask(facts)[of_kind])


def _of_trace(facts: Facts) -> StepTimes | None:
    traced = trace_steps.or_none(facts)
    if traced is None or not traced.steps:
        return None
    judged = {row.step.row for row in traced.each}
    steps = [row.step for row in traced.analysis.step_parts]
    return StepTimes(
        np.array([step.index for step in steps], dtype=np.int64),
        np.array([step.duration for step in steps], dtype=np.int64),
        np.array([step.row in judged for step in steps], dtype=np.bool_),
    )


UNKNOWN = "–"

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"

NAMED_FROM, NAMED_ON_A_PHONE = 0.06, 0.25
"""Least share of the width of a box that shows its name: on a desktop, and on a phone."""


def render(report: Report) -> str:
    """The whole file."""
    run, most, facts = report.subject.run, report.top or MOST_ROWS, report.facts
    steps = trace_steps.or_none(facts)
    recorded = recording_lines(report.recording, facts) if report.recording else ()
    template = environment().get_template("page.html")
    return template.render(
        report=report,
        title=run.manifest.script if run else report.subject.path.name,
        about=_head_rows(report),
        step_times=step_times(facts),
        timeline=timeline(steps) if steps else None,
        ranks=table_of_ranks(facts),
        syncs=syncs(facts),
        has_gpu=bool(facts.analysis and facts.analysis.has_gpu),
        operators=report.ops[:most] if "operators" in report.totals else (),
        kernels=report.kernels[:most] if "kernels" in report.totals else (),
        modules=listed_modules(report.modules, most) if "modules" in report.totals else (),
        gpu_tables=gpu_tables(facts),
        recording=map(str.strip, recorded),
    )


def cleaned(text: str) -> str:
    """The text without control codes, which are spelled as escapes; tabs stay, as source code is
    indented with them."""
    return "\t".join(map(printable, text.split("\t")))


@cache
def environment() -> Environment:
    """The environment of templates: each expression is escaped, without control codes, and redacted
    where the report is."""
    env = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=_clean,
    )
    env.filters |= {
        "answer": answer_to,
        "boxes": part_boxes,
        "breakdown_rows": lambda breakdown: list(wording.breakdown_rows(breakdown)),
        "breakdown_title": wording.breakdown_title,
        "count": "{:,}".format,
        "device": lambda ns: fmt.duration(ns) if ns else UNKNOWN,
        "duration": fmt.duration,
        "findings_with_fixes": wording.findings_with_fixes,
        "gain": wording.gain_of,
        "hue": hue,
        "number": number,
        "pairs_text": wording.pairs_text,
        "percent": fmt.percent,
        "phase_name": phase_name,
        "proof": wording.proof_of_fix,
        "rank_parts": lambda table: list(
            dict.fromkeys(name for row in table.rows for name, time in row.parts if time)
        ),
        "rate": rate,
        "sentence": lambda note: f"{note[0].upper()}{note[1:]}.",
        "several": fmt.several,
        "short_names": lambda rows: short_names(row.name for row in rows),
        "short_names_of": short_names,
        "short_value": wording.short_value,
        "side": _side,
        "size": fmt.size,
        "state": wording.state_text,
        "thread_lines": wording.thread_lines,
        "time": lambda ns: UNKNOWN if ns is None else fmt.duration(ns),
        "valued": wording.valued,
    }
    shown = {"LEGEND": LEGEND, "NO_GPU": wording.NO_GPU, "NO_VERDICT": wording.NO_VERDICT}
    shares = {"NAMED_FROM": NAMED_FROM, "NAMED_ON_A_PHONE": NAMED_ON_A_PHONE}
    env.globals |= {**shown, **shares, "HUES": HUES, "POLICY": POLICY, "UNKNOWN": UNKNOWN}
    return env


def _clean(value: Any) -> Any:
    # Markup was cleaned before it was escaped.
    return cleaned(value) if isinstance(value, str) and not hasattr(value, "__html__") else value


def _side(line: str) -> str:
    """The class of a line of a unified diff."""
    if line.startswith(("---", "+++", "@@")):
        return "place"
    return {"+": "added", "-": "removed"}.get(line[:1], "")


def _head_rows(report: Report) -> Iterator[tuple[str, str]]:
    """Names and values at the head, without what is not known."""
    yield from _run(report.subject.run.manifest) if report.subject.run else _trace(report)
    for line in wording.steps_text(report):
        yield "Steps", line
    for line in wording.overhead_text(report):
        yield "Overhead", line


def _run(manifest: Manifest) -> Iterator[tuple[str, str]]:
    yield "Run", f"{manifest.run_id}, {wording.status_text(manifest)}"
    yield "When", _when(manifest.started_ns)
    yield "Machine", f"{manifest.host}, {wording.hardware_text(manifest)}"
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
    devices = [gpu.name or f"GPU {gpu.device}" for gpu in analysis.activity]
    counts = {name: devices.count(name) for name in dict.fromkeys(devices)}
    names = (f"{count} x {name}" if count > 1 else name for name, count in counts.items())
    yield "Machine", ", ".join(names) or "no GPU activity recorded"
    yield "Versions", f"perftui {__version__}"


def _when(ns: int) -> str:
    """A moment to the minute; UTC, as a reader elsewhere has another clock."""
    try:
        return f"{datetime.fromtimestamp(ns // 1_000_000_000, timezone.utc):%Y-%m-%d %H:%M} UTC"
    except (ValueError, OverflowError, OSError):
        # A file may hold any number.
        return "not known"
