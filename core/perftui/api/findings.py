"""What a run or a trace loses, for scripts that want no more."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

from perftui.diagnosis.diagnose import diagnosis
from perftui.diagnosis.model import Finding
from perftui.facts.fact import Facts
from perftui.report.subject import load_subject


def findings(path: str | PathLike[str]) -> tuple[Finding, ...]:
    """The findings of the run or of the trace at ``path``, the costliest first.

    Raises:
        ValueError: there is neither, or it cannot be read.
    """
    subject = load_subject(Path(path))
    facts = Facts(subject.run, subject.analysis, subject.rank, subject.beside)
    return diagnosis(facts).findings
