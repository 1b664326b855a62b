"""Runs and traces for scripts and notebooks: their steps, tables, findings and reports."""

from __future__ import annotations

import json
from functools import cached_property
from os import PathLike
from pathlib import Path

from perftui.analysis.model import DeviceActivity, TraceAnalysis
from perftui.api.table import (
    Table,
    gap_table,
    kernel_table,
    op_table,
    rate_table,
    step_parts_table,
    step_table,
)
from perftui.diagnosis.diagnose import diagnosis
from perftui.diagnosis.model import Abstention, Finding
from perftui.facts.fact import Facts
from perftui.facts.step.steps import StepBreakdown
from perftui.fixes.option import FixOption
from perftui.report.as_json import ReportOutput, as_object
from perftui.report.output_text import encode_object
from perftui.report.recorded import Recorded, recording_of
from perftui.report.report import Report, make_report
from perftui.report.subject import Subject, SubjectError, load_run, load_subject, subject_of
from perftui.run.layout import RunLayout
from perftui.run.manifest import Manifest
from perftui.run.reader import RunSnapshot, newest_run


class Judged:
    """A run or a trace, which is diagnosed once, when that is first asked for."""

    _subject: Subject

    @cached_property
    def _report(self) -> Report:
        return make_report(self._subject)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Causes of lost time, the costliest first; ``sentence``, ``cost_ns`` (of ``step_ns``, the
        mean step), ``severity``, ``confidence`` and ``place`` of each. A single one of severity
        ``HEALTHY`` where nothing is lost, none where it is too early to say."""
        return self._report.diagnosis.findings

    @property
    def fixes(self) -> tuple[FixOption, ...]:
        """Fixes for the findings, each once, the best of the costliest finding first."""
        return self._report.fixes

    @property
    def verdict(self) -> str | None:
        """The costliest finding in a sentence, or that it is healthy; None where it is too early
        to say."""
        top = self._report.diagnosis.top
        return top.headline if top else None

    @property
    def not_judged(self) -> tuple[Abstention, ...]:
        """Rules that could not judge, with the reason."""
        return self._report.diagnosis.abstentions

    @property
    def breakdown(self) -> StepBreakdown | None:
        """Where the mean steady step went: ``mean``, and ``parts`` that sum to it, in ns. Of a
        trace that marks no steps (``count`` is 0) all of it; None without steady steps."""
        return next(iter(self._report.breakdowns), None)

    @property
    def notes(self) -> tuple[str, ...]:
        """What was skipped, and what the evidence cannot show."""
        return self._report.notes

    @cached_property
    def report(self) -> ReportOutput:
        """What ``perftui report --json`` prints, read back; docs/json.md and ``perftui schema
        report`` say what the fields mean."""
        text = encode_object(as_object(self._report), on_one_line=True)
        fields: ReportOutput = json.loads(text)
        return fields


class Trace(Judged):
    """A trace with its tables; made by ``load_trace``. Times are ns since its start."""

    def __init__(self, subject: Subject, recorded: Facts | None = None) -> None:
        self._subject = subject
        self._recorded = recorded
        """The facts of the run that it is a window of; None for a trace alone."""

    @property
    def path(self) -> Path:
        """The file."""
        return self._analysis.trace.path

    @property
    def devices(self) -> tuple[DeviceActivity, ...]:
        """What each GPU did: ``busy``, the union over its streams, ``idle``, the sums and counts
        of kernels and copies, in ns; empty where no GPU was recorded."""
        return self._analysis.activity

    @cached_property
    def operators(self) -> Table:
        """A row for each operator, by device time, those without any by own CPU time.

        ``own`` leaves out what an operator calls, ``total`` counts it; device time is that of the
        kernels and copies that were launched there.
        """
        return op_table(self._analysis.ops)

    @cached_property
    def modules(self) -> Table:
        """As ``operators``, for each module; the row ``(outside)`` is for what ran in none. Empty
        where the trace names no modules."""
        return op_table(self._analysis.modules)

    @cached_property
    def kernels(self) -> Table:
        """A row for each kernel, copy and set by name, the longest total first."""
        return kernel_table(self._analysis.kernels)

    @cached_property
    def rates(self) -> Table:
        """A row for each operator with its sizes of inputs in the first steady step, the longest
        first: FLOP and bytes (of a perfect kernel: each input and the output once), both per
        second, and, of a known card, the share of the limit. Empty without sizes (``--shapes``)."""
        return rate_table(self._analysis)

    @cached_property
    def steps(self) -> Table:
        """A row for each step, with a column for each part; the parts sum to ``duration_ns``.

        A trace that marks no steps is one row with the index -1.
        """
        return step_parts_table(self._analysis.step_parts)

    @cached_property
    def gaps(self) -> Table:
        """A row for each gap in which a GPU was idle, the longest first, with its cause and, where
        they are known, the phase, the operator and the line (``FILE:LINE``) of that time: by the
        stacks of the trace, else by the stack samples of the run that it is a window of."""
        return gap_table(self._recorded or Facts(None, self._analysis))

    @property
    def _analysis(self) -> TraceAnalysis:
        if self._subject.analysis is None:
            raise SubjectError(f"{self._subject.path} is not a trace")
        return self._subject.analysis

    def __repr__(self) -> str:
        marked = sum(index >= 0 for index in self.steps["index"])
        return f"<Trace {self.path.name}: {len(self._analysis.trace)} events, {marked} steps>"


def load_trace(path: str | PathLike[str]) -> Trace:
    """The trace in the file ``path``: of ``torch.profiler``, plain or compressed, or of nsys. In a
    directory of traces it is the lowest rank of the newest recording.

    Raises:
        ValueError: there is no trace, or it cannot be read.
    """
    subject = load_subject(Path(path))
    if subject.run is not None:
        raise SubjectError(f"{path} is a run, not a trace; perftui.open_run opens runs")
    return Trace(subject)


class Run(Judged):
    """A run as it was when it was opened, seen from one of its ranks; made by ``open_run``.

    ``perftui.open_run(run.path)`` reads it again, as far as it has come.
    """

    def __init__(self, snapshot: RunSnapshot, rank: int = 0) -> None:
        self._snapshot = snapshot
        self.rank = rank
        """The rank whose steps, windows and findings are shown."""

    @property
    def path(self) -> Path:
        """The directory of the run."""
        return self._snapshot.root

    @property
    def manifest(self) -> Manifest:
        """What was run, where, and how it ended: ``run_id``, ``command``, ``host``, ``status``,
        ``exit_code``, ``torch_version``... Times are ns since the epoch."""
        return self._snapshot.manifest

    @property
    def id(self) -> str:
        """The id of the run."""
        return self.manifest.run_id

    @property
    def script(self) -> str:
        """The script, or ``-m MODULE``."""
        return self.manifest.script

    @property
    def state(self) -> str:
        """``running``, ``exited 0``, ``stopped``..."""
        return self.manifest.state

    @cached_property
    def ranks(self) -> tuple[int, ...]:
        """The ranks of the run, in order; empty before the training has begun."""
        return tuple(sorted({rank.place for rank in self._snapshot.ranks}))

    def of_rank(self, rank: int) -> Run:
        """The same run, seen from another rank.

        Raises:
            ValueError: it has no such rank.
        """
        if rank not in self.ranks:
            some = ", ".join(map(str, self.ranks)) or "none yet"
            raise SubjectError(f"the run has no rank {rank}; its ranks are: {some}")
        return self if rank == self.rank else Run(self._snapshot, rank)

    @cached_property
    def steps(self) -> Table:
        """A row for each step of the rank, also of evaluation; empty before the first.

        Of a run of more than about 300,000 steps those in the middle are missing; ``breakdown``
        counts all.
        """
        snapshot = self._snapshot.rank(self.rank)
        return step_table(snapshot.steps if snapshot else None)

    @cached_property
    def windows(self) -> tuple[Recorded, ...]:
        """The profiled steps of the rank, in order; ``perftui.load_trace(window.file)`` opens
        one. ``stall`` is how long the training waited for it, ns."""
        return recording_of(self._snapshot, self.rank).windows

    @cached_property
    def trace(self) -> Trace | None:
        """The newest of these windows that can be read; None where there is none."""
        analysis = self._subject.analysis
        if analysis is None:
            return None
        return Trace(Subject(analysis.trace.path, analysis=analysis), self._subject.facts)

    @cached_property
    def _subject(self) -> Subject:  # type: ignore[override]  # an attribute, read when needed
        return subject_of(self._snapshot, rank=self.rank)

    def __repr__(self) -> str:
        return f"<Run {self.id}: {self.script}, {self.state}, {len(self.steps)} steps>"


def open_run(path: str | PathLike[str]) -> Run:
    """The run in the directory ``path``, or the newest one in a directory of runs, or in one that
    holds ``.perftui/runs``. Its steps are read at once, its windows when they are first needed.

    Raises:
        ValueError: there is no run, or it cannot be read.
    """
    place = Path(path)
    directory = place.parent if place == RunLayout(place.parent).manifest else place
    root = newest_run(directory) if directory.is_dir() else None
    if root is not None:
        return Run(load_run(root))
    if not place.exists():
        raise SubjectError(f"{place}: no such file or directory")
    hint = "perftui.load_trace opens traces" if place.is_file() else "name the directory of a run"
    raise SubjectError(f"{place} is not a run; {hint}")


def findings(path: str | PathLike[str]) -> tuple[Finding, ...]:
    """The findings of the run or of the trace at ``path``, the costliest first.

    Raises:
        ValueError: there is neither, or it cannot be read.
    """
    return diagnosis(load_subject(Path(path)).facts).findings
