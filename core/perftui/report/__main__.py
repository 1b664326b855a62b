"""Keeps the diagnosis of an ended run beside it, and asks a run that goes on for what its diagnosis
lacks: ``python -m perftui.report RUN_DIRECTORY``."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from perftui.diagnosis.asking import question_to_ask
from perftui.diagnosis.diagnose import diagnosis
from perftui.diagnosis.model import write_findings
from perftui.facts.fact import Facts
from perftui.report.subject import load_subject
from perftui.run.control import ASK, request
from perftui.run.layout import RunLayout


def main() -> None:
    """Diagnose the run in the directory given, at the lowest priority."""
    os.nice(19)
    parser = argparse.ArgumentParser(prog="python -m perftui.report", description=__doc__)
    parser.add_argument("root", type=Path)
    conclude(parser.parse_args().root)


def conclude(root: Path) -> None:
    """Diagnose the run at ``root``: write ``findings.json`` once nothing more will come; until then
    have the next window record what would tell most.

    Raises:
        SubjectError: there is no run that can be read.
        OSError: the findings or the request cannot be written.
    """
    subject = load_subject(root)
    if subject.run is None:
        return
    facts, layout = Facts(subject.run, subject.analysis), RunLayout(subject.path)
    result = diagnosis(facts)
    if subject.run.manifest.status.is_over:
        write_findings(layout.findings, result)
    elif question := question_to_ask(result, facts):
        request(layout, ASK, evidence=question.evidence)


if __name__ == "__main__":
    main()
