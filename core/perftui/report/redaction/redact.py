"""A report for others: the same figures, without what is private."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from perftui.report.redaction.manifest import redacted_manifest
from perftui.report.redaction.private import known_at, known_of
from perftui.report.redaction.redaction import Redaction
from perftui.report.redaction.redactor import Redactor
from perftui.report.report import Report


def redacted(report: Report) -> Report:
    """The report with a redaction, which ``rendered`` applies. Its facts stay what they are: they
    are worked out from the files that the paths name."""
    redaction = Redaction(Redactor(known_of(report)))
    subject, run = report.subject, report.subject.run
    if run is not None:
        manifest = redacted_manifest(run.manifest, redaction.redactor)
        subject = replace(subject, run=replace(run, manifest=manifest))
    return replace(report, subject=subject, redaction=redaction)


def redaction_at(path: Path) -> Redaction:
    """How the report of one file is redacted that is no trace."""
    return Redaction(Redactor(known_at(path)))


def rendered(render: Callable[[Report], str], report: Report) -> str:
    """What ``render`` makes of the report, redacted where the report is.

    Raises:
        RedactionError: something private would be left in it.
    """
    text = partial(render, report)
    return text() if report.redaction is None else report.redaction.applied(text)
