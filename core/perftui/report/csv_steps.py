"""The steps of a run or of a trace as a table: each with its parts, which sum to it."""

from __future__ import annotations

from collections.abc import Iterator

from perftui import format as fmt
from perftui.analysis.model import TraceAnalysis
from perftui.facts.fact import Facts
from perftui.facts.step.steady import Mask
from perftui.report.csv_text import CsvTable
from perftui.report.step_parts import step_columns
from perftui.run.aggregates import consistent_rows
from perftui.run.columns import PHASES, phase_name

_TIMES = ("start (ns)", "duration (ns)")
_OF_RUN = ("index", "kind", "start", "duration")


def steps_table(facts: Facts) -> CsvTable:
    """The steps of the run, with starts since the epoch; without a run those of the trace, with
    starts since its first event."""
    if facts.run is not None or facts.analysis is None:
        return _of_run(facts)
    return _of_trace(facts.analysis)


def _of_run(facts: Facts) -> CsvTable:
    steps = facts.steps
    heading = ("step", "kind", *_TIMES, *_titles(PHASES))
    if not len(steps):
        return CsvTable(heading, (), "no steps were recorded")
    whole = consistent_rows(steps)
    first = zip(*(steps[name].tolist() for name in _OF_RUN), strict=True)
    parts = zip(*(steps[phase].tolist() for phase in PHASES), strict=True)
    unknown = (None,) * len(PHASES)
    rows = tuple(
        (*step, *(known if is_whole else unknown))
        for step, known, is_whole in zip(first, parts, whole.tolist(), strict=True)
    )
    return CsvTable(heading, rows, "; ".join(_left_out(facts, whole)))


def _titles(parts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"{phase_name(part)} (ns)" for part in parts)


def _left_out(facts: Facts, whole: Mask) -> Iterator[str]:
    summed = facts.downsampled.of().rows
    if summed:
        yield f"{summed:,} of {summed + len(whole):,} steps are only kept as sums and have no row"
    if not whole.all():
        several = fmt.several(int((~whole).sum()), "step")
        yield f"the parts of {several} do not sum to the duration and are left empty"


def _of_trace(analysis: TraceAnalysis) -> CsvTable:
    found = step_columns(analysis.step_parts)
    heading = ("step", *_TIMES, *_titles(tuple(found.parts)))
    if not analysis.steps:
        return CsvTable(heading, (), "no steps are marked in the trace")
    columns = (found.index, found.start, found.duration, *found.parts.values())
    return CsvTable(heading, tuple(zip(*columns, strict=True)))
