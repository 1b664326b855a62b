"""Fixes on screen follow the machine and the source, and are not worked out each second."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from perftui.diagnosis.evidence import Evidence
from perftui.diagnosis.loader_facts import LoaderFacts
from perftui.diagnosis.machine_facts import MachineFacts
from perftui.diagnosis.model import Finding, Severity
from perftui.fixes.model import FixOption, Risk
from perftui.run.manifest import Manifest
from perftui_tui.reading import fix_lookup
from perftui_tui.reading.fix_lookup import FixLookup

FINDING = Finding("input-in-main-thread", Severity.CRITICAL, "", fixes=("loader-workers",))
IDLE = MachineFacts(cores=4, installed_cores=4, tree_cores=1.0, machine_cores=1.0)


@pytest.fixture
def evidence(tmp_path: Path) -> Evidence:
    script = tmp_path / "train.py"
    script.write_text("loader = DataLoader(pictures)\n")
    manifest = Manifest("one", ("python", "train.py"), str(tmp_path), 1 << 62, "box")
    loader = LoaderFacts(num_workers=0, dataset="Pictures", file=str(script), line=1)
    return Evidence(manifest=manifest, loader=loader, machine=IDLE, fetch_cpu=1.0)


def workers(lookup: FixLookup, evidence: Evidence) -> FixOption:
    return lookup.of([FINDING], evidence)[FINDING.rule][0]


def test_a_machine_that_fills_up_is_warned_of(evidence: Evidence) -> None:
    lookup = FixLookup()
    assert Risk.CORES not in workers(lookup, evidence).risks
    busy = replace(IDLE, tree_cores=3.6, machine_cores=3.6)
    assert Risk.CORES in workers(lookup, replace(evidence, machine=busy)).risks


def test_more_ranks_share_the_cores(evidence: Evidence) -> None:
    lookup = FixLookup()
    alone = workers(lookup, evidence).title
    assert workers(lookup, replace(evidence, ranks_here=2)).title != alone


@pytest.mark.parametrize(("cores", "again"), [(1.01, 0), (2.5, 1)])
def test_small_changes_are_not_worked_out(
    evidence: Evidence, monkeypatch: pytest.MonkeyPatch, cores: float, again: int
) -> None:
    lookup = FixLookup()
    before = lookup.of([FINDING], evidence)
    asked: list[Sequence[str]] = []

    def options(finding: Finding, _: Evidence) -> tuple[FixOption, ...]:
        asked.append(finding.fixes)
        return before[finding.rule]

    monkeypatch.setattr(fix_lookup, "options", options)
    lookup.of([FINDING], replace(evidence, machine=replace(IDLE, machine_cores=cores)))
    assert len(asked) == again


def test_a_script_that_changes_is_read_again(evidence: Evidence, tmp_path: Path) -> None:
    """Under spawn the script itself decides, not the file of the loader."""
    assert evidence.loader is not None
    other = tmp_path / "data.py"
    other.write_text("loader = DataLoader(pictures)\n")
    spawning = replace(
        evidence, loader=replace(evidence.loader, file=str(other), start_method="spawn")
    )
    lookup = FixLookup()
    assert "__main__" in workers(lookup, spawning).why_not
    (tmp_path / "train.py").write_text('if __name__ == "__main__":\n    main()\n')
    assert "__main__" not in workers(lookup, spawning).why_not
