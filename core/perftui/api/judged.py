"""What runs and traces have in common: their diagnosis, as ``perftui report`` has it."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from functools import cached_property
from typing import TYPE_CHECKING

from perftui.diagnosis.model import Abstention, Finding
from perftui.fixes.model import FixOption
from perftui.report.outputs.report import ReportOutput
from perftui.report.report import Report, make_report
from perftui.report.subject import Subject

if TYPE_CHECKING:
    from perftui.facts.step.step_breakdown import StepBreakdown


class Judged(ABC):
    """A run or a trace. It is diagnosed when that is first asked for, once."""

    @abstractmethod
    def _judged(self) -> Subject:
        """What is diagnosed."""

    @cached_property
    def _report(self) -> Report:
        return make_report(self._judged())

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
        from perftui.report.as_json import as_object, encode_object

        text = encode_object(as_object(self._report), on_one_line=True)
        found: ReportOutput = json.loads(text)
        return found
