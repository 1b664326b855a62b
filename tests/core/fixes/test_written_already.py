"""A fix that the source has since the run is said to be there, not refused for another reason."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from perftui.diagnosis.diagnose import diagnosis
from perftui.facts.fact import Facts
from perftui.fixes.apply import applied_to, apply_patch, patch_store
from perftui.fixes.catalogue import options
from perftui.fixes.fix import LineChange, stands_in_source
from perftui.fixes.model import FixOption, Patch, Risk
from tests.core.diagnosis.runs import make_run

SCRIPT = "from torch.utils.data import DataLoader\nloader = DataLoader(data)\n"
WRITTEN = SCRIPT.replace("(data)", "(data, num_workers=4, persistent_workers=True)")
BEGAN = 1_700_000_000_000_000_000


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    os.utime(path, ns=(BEGAN - 1, BEGAN - 1))
    return path


def workers(script: Path) -> FixOption:
    loader = {"num_workers": 0, "file": str(script), "line": 2, "start_method": "fork"}
    run = make_run(
        phases={"input_wait": 60, "forward": 40},
        loaders=(loader,),
        cwd=str(script.parent),
        root=script.parent / "runs" / "one",
        started_ns=BEGAN,
    )
    facts = Facts(run, None)
    found = diagnosis(facts).top
    assert found is not None
    return options(found, facts)[0]


def write(script: Path) -> FixOption:
    option = workers(script)
    assert option.patch is not None
    store = patch_store(script.parent / "runs" / "one")
    apply_patch(option.patch, store, option.title, option.fix)
    return option


def told(script: Path) -> tuple[bool, bool, bool]:
    option = workers(script)
    assert option.patch is None
    return option.is_written, option.is_triable, option.is_reversible


def test_what_was_written_for_the_run_stands_in_the_source(script: Path) -> None:
    assert not write(script).is_written
    option = workers(script)
    assert told(script) == (True, False, True)
    assert option.why_not == option.why_not_tried == "written already, so run it again"


def test_it_still_stands_there_below_another_patch_of_the_file(script: Path) -> None:
    write(script)
    now = script.read_bytes()
    store = patch_store(script.parent / "runs" / "one")
    apply_patch(Patch(script, now, now + b"more = 1\n"), store, "more", "another-fix")
    assert [one.fix for one in applied_to(script, store)] == ["another-fix", "loader-workers"]
    script.write_text(script.read_text().replace(", persistent_workers=True", "") + "more = 2\n")
    assert list(applied_to(script, store)) == []


def test_what_somebody_wrote_by_hand_stands_in_the_source_on_whatever_line(script: Path) -> None:
    script.write_text(f"import os\n\n\n{WRITTEN}")
    assert told(script) == (True, False, True)


@pytest.mark.parametrize(
    "source",
    [
        SCRIPT + "more = 1\n",
        SCRIPT.replace("(data)", "(data, num_workers=4)"),
        WRITTEN + "other = DataLoader(data)\n",
        WRITTEN.replace("DataLoader(data", "Loader(data"),
        "loader = (\n",
    ],
    ids=["elsewhere", "in part", "one of two", "unknown call", "broken"],
)
def test_another_edit_is_no_fix(script: Path, source: str) -> None:
    script.write_text(source)
    assert told(script) == (False, True, True)
    assert workers(script).why_not == "train.py was edited after this run: run it again"


def test_what_the_run_had_already_is_not_news(script: Path) -> None:
    script.write_text(WRITTEN)
    os.utime(script, ns=(BEGAN - 1, BEGAN - 1))
    assert not workers(script).is_written


def test_some_risks_are_of_numbers_and_others_are_not() -> None:
    rounded = {Risk.NUMERICS, Risk.REPEATABLE, Risk.PRECISION, Risk.HALF}
    others = {Risk.NORMS, Risk.DROPOUT}
    # A new one has to be put on either side.
    same = {
        *(Risk.MEMORY, Risk.RANDOMNESS, Risk.ORDER, Risk.UNUSED, Risk.SHARED, Risk.START),
        *(Risk.SELDOM, Risk.PACE, Risk.PROFILE, Risk.DRAWS, Risk.CORES, Risk.UNCHECKED),
    }
    assert {risk for risk in Risk if risk.is_numeric} == rounded | others
    assert set(Risk) == rounded | others | same
    assert FixOption("x", "x", "x", (Risk.MEMORY, Risk.NUMERICS)).changes_numerics
    assert not FixOption("x", "x", "x", (Risk.MEMORY, Risk.ORDER)).changes_numerics


def test_a_line_that_was_taken_out_is_known_by_its_record(script: Path) -> None:
    run = make_run(root=script.parent / "runs" / "one", started_ns=BEGAN)
    change = LineChange("no x", str(script), 2, lambda *_: (), "take x out")
    facts, before = Facts(run), script.read_bytes()
    assert not stands_in_source("x-off", change, facts)
    patch = Patch(script, before, before.replace(b"loader", b"other"))
    apply_patch(patch, patch_store(run.root), "no x", "x-off")
    assert stands_in_source("x-off", change, facts)
    assert not stands_in_source("y-off", change, facts)
