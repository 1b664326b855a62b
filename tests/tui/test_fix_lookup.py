"""Fixes on screen follow the machine and the source, and are not worked out each second."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from perftui.diagnosis.model import Finding, Severity
from perftui.facts.cpu.machine import MachineFacts, machine_use, ranks_here
from perftui.facts.data_loader.loader import LoaderFacts, training_loader
from perftui.facts.data_loader.loader_work import fetch_cpu
from perftui.facts.fact import Fact, Facts
from perftui.facts.gpu.gpu import has_gpu
from perftui.fixes.fix import CallChange, Fix
from perftui.fixes.model import FixOption, Risk
from perftui.run.manifest import Manifest
from perftui.run.reader import RunSnapshot
from perftui_tui.reading import view
from perftui_tui.reading.view import FixLookup
from tests.facts_given import facts_with

FINDING = Finding("input-in-main-thread", Severity.CRITICAL, "", fixes=("loader-workers",))
IDLE = MachineFacts(cores=4, installed_cores=4, tree_cores=1.0, machine_cores=1.0)


@pytest.fixture
def facts(tmp_path: Path) -> Facts:
    script = tmp_path / "train.py"
    script.write_text("loader = DataLoader(pictures)\n")
    manifest = Manifest("one", ("python", "train.py"), str(tmp_path), 1 << 62, "box")
    loader = LoaderFacts(num_workers=0, dataset="Pictures", file=str(script), line=1)
    run = RunSnapshot(tmp_path, manifest, (), {}, 0)
    return facts_with(
        Facts(run), {training_loader: loader, machine_use: IDLE, fetch_cpu: 1.0, has_gpu: False}
    )


def changed(facts: Facts, given: dict[Fact[Any], Any]) -> Facts:
    known = {fact: value for fact, value in facts.worked_out.items() if isinstance(fact, Fact)}
    return facts_with(facts, {**known, **given})


def workers(lookup: FixLookup, facts: Facts) -> FixOption:
    return lookup.of([FINDING], facts)[FINDING.rule][0]


def test_a_machine_that_fills_up_is_warned_of(facts: Facts) -> None:
    lookup = FixLookup()
    assert Risk.CORES not in workers(lookup, facts).risks
    busy = replace(IDLE, tree_cores=3.6, machine_cores=3.6)
    assert Risk.CORES in workers(lookup, changed(facts, {machine_use: busy})).risks


def test_more_ranks_share_the_cores(facts: Facts) -> None:
    lookup = FixLookup()
    alone = workers(lookup, facts).title
    assert workers(lookup, changed(facts, {ranks_here: 2})).title != alone


@pytest.mark.parametrize(("cores", "again"), [(1.01, 0), (2.5, 1)])
def test_small_changes_are_not_worked_out(
    facts: Facts, monkeypatch: pytest.MonkeyPatch, cores: float, again: int
) -> None:
    lookup = FixLookup()
    lookup.of([FINDING], facts)
    asked: list[str] = []

    def offered(fix: Fix, change: CallChange, about: Facts) -> FixOption:
        asked.append(fix.id)
        return real(fix, change, about)

    real = view.offered
    monkeypatch.setattr(view, "offered", offered)
    lookup.of([FINDING], changed(facts, {machine_use: replace(IDLE, machine_cores=cores)}))
    assert len(asked) == again


def test_a_script_that_changes_is_read_again(facts: Facts, tmp_path: Path) -> None:
    """Under spawn the script itself decides, not the file of the loader."""
    other = tmp_path / "data.py"
    other.write_text("loader = DataLoader(pictures)\n")
    loader = LoaderFacts(0, dataset="Pictures", file=str(other), line=1, start_method="spawn")
    spawning = changed(facts, {training_loader: loader})
    lookup = FixLookup()
    assert "__main__" in workers(lookup, spawning).why_not
    (tmp_path / "train.py").write_text('if __name__ == "__main__":\n    main()\n')
    assert "__main__" not in workers(lookup, spawning).why_not
