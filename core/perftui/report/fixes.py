"""The fixes of a report beside their findings, and what trials measured of them."""

from __future__ import annotations

from collections.abc import Iterator

from perftui import format as fmt
from perftui.diagnosis.model import Finding
from perftui.experiments.proof import Proof, read_proof
from perftui.fixes.model import FixOption
from perftui.report.report import Report
from perftui.run.layout import trials_of


def findings_with_fixes(report: Report) -> Iterator[tuple[Finding, list[FixOption]]]:
    """Each finding with its fixes, without those that an earlier one has too."""
    shown: set[str] = set()
    for finding in report.diagnosis.findings:
        fixes = [fix for fix in report.fixes if fix.fix in finding.fixes]
        yield finding, [fix for fix in fixes if fix.fix not in shown]
        shown |= {fix.fix for fix in fixes}


def state_text(fix: FixOption) -> str:
    """Why a fix is not offered; empty where it is."""
    if fix.is_written:
        return fix.why_not
    return "" if fix.is_possible else "not possible here"


def proof_of_fix(fix: FixOption, report: Report) -> Proof | None:
    """What a trial of that very change found; None where there was none."""
    run = report.subject.run
    found = read_proof(trials_of(run.root), fix.fix) if run is not None else None
    return found if found is not None and found.is_of(fix) else None


def pairs_text(proof: Proof) -> str:
    """``6 pairs of runs with the fix and without``."""
    return f"{fmt.several(len(proof.pairs), 'pair')} of runs with the fix and without"
