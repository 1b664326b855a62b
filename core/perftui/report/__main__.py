"""Keeps the diagnosis of an ended run beside it: ``python -m perftui.report RUN_DIRECTORY``."""

from __future__ import annotations

import argparse
from pathlib import Path

from perftui.diagnosis.diagnose import diagnosis
from perftui.diagnosis.model import write_findings
from perftui.facts.fact import Facts
from perftui.report.subject import load_subject
from perftui.run.layout import RunLayout


def main() -> None:
    """Diagnose the run in the directory given and write its findings."""
    parser = argparse.ArgumentParser(prog="python -m perftui.report", description=__doc__)
    parser.add_argument("root", type=Path)
    conclude(parser.parse_args().root)


def conclude(root: Path) -> None:
    """Diagnose the run at ``root``, and write ``findings.json`` once nothing more will come.

    Raises:
        SubjectError: there is no run that can be read.
        OSError: the findings cannot be written.
    """
    subject = load_subject(root)
    if subject.run is not None and subject.run.manifest.status.is_over:
        result = diagnosis(Facts(subject.run, subject.analysis))
        write_findings(RunLayout(subject.path).findings, result)


if __name__ == "__main__":
    main()
