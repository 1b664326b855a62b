"""The command that a report tells to run next, and the key of a finding."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from perftui.diagnosis.model import Finding, Severity
from perftui.facts.place import Place
from perftui.facts.question import Evidence, Question
from perftui.fixes.option import FixOption, Patch
from perftui.report import as_json
from perftui.report.findings_as_json import finding_key, fix_object
from perftui.report.next_command import (
    best_fix,
    comparison_command,
    confidence_command,
    fixes_after,
    next_command,
    next_of,
)
from perftui.report.report import Report, make_report
from perftui.report.subject import Subject, load_subject
from perftui.run.manifest import Override, Status
from tests.core.diagnosis.runs import make_run
from tests.core.report.test_report import write_run
from tests.described import described

ROOT = Path("/p/runs/one")
FINDING = Finding("input-bound", Severity.WARNING, "It waits.", fixes=("a", "b"))
OVERRIDE = Override("DataLoader", {"num_workers": 2})


def option(fix: str, **changes: Any) -> FixOption:
    return FixOption(fix, fix, fix, **changes)


def patch(path: str = "/p/train.py") -> Patch:
    return Patch(Path(path), b"", b"x")


def report(*fixes: FixOption, findings: Sequence[Finding] = (FINDING,), **run: Any) -> Report:
    made = make_report(Subject(ROOT, make_run(**{"root": ROOT, "count": 30, **run})))
    diagnosis = replace(made.diagnosis, findings=tuple(findings))
    return replace(made, fixes=fixes, diagnosis=diagnosis)


def test_a_fix_is_tried_before_it_is_written_and_the_best_one_first() -> None:
    both = report(option("a", patch=patch()), option("b", override=OVERRIDE))
    assert next_of(FINDING, both) == ["perftui", "try", "b", "/p/runs/one"]
    written = report(option("a", patch=patch()), option("b", patch=patch()))
    assert next_of(FINDING, written) == ["perftui", "apply", "a", "/p/runs/one"]
    by_its_text = report(option("b", patch=patch(), script_word=1))
    assert next_of(FINDING, by_its_text) == ["perftui", "try", "b", "/p/runs/one"]


def test_other_fixes_of_the_same_finding_follow_one_that_gains_nothing() -> None:
    many = Finding("slow", Severity.WARNING, "It is slow.", fixes=("a", "b", "c", "d"))
    found = report(
        option("a", override=OVERRIDE),
        option("b", why_not="it is computed"),
        option("c", override=OVERRIDE),
        option("e", override=OVERRIDE),
        findings=(many, replace(many, rule="other", fixes=("c", "e"))),
    )
    assert fixes_after("a", found) == ("c",)
    assert fixes_after("b", found) == ("c",)
    assert fixes_after("c", found) == ()
    assert fixes_after("e", found) == ()
    assert fixes_after("x", found) == ()


def test_by_hand_there_is_no_command() -> None:
    by_hand = report(option("a", why_not="it is computed", advice="num_workers=2"))
    assert next_of(FINDING, by_hand) is next_command(by_hand) is None
    told = fix_object(by_hand.fixes[0], by_hand.diagnosis)
    assert (told["triable"], told["reversible"]) == (False, False)
    assert told["why_not_tried"] == "it is computed"


def test_a_trace_has_nothing_to_run(tmp_path: Path) -> None:
    found = report(option("a", override=OVERRIDE))
    found = replace(found, subject=replace(found.subject, run=None))
    assert next_of(FINDING, found) is next_command(found) is None
    assert comparison_command(found) is None


def test_what_is_written_already_has_to_be_seen_again() -> None:
    found = report(option("a", is_written=True), option("b", override=OVERRIDE))
    assert next_of(FINDING, found) == ["perftui", "diagnose", "/p/runs/one"]
    only = report(option("a", is_written=True))
    best = best_fix(FINDING, only)
    assert best is not None
    assert best.fix == "a"


def test_an_edited_source_has_to_be_seen_again_where_nothing_can_be_done(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("")
    edited = report(option("a", file=str(script)), started_ns=1)
    assert next_of(FINDING, edited) == ["perftui", "diagnose", "/p/runs/one"]
    tried = report(option("a", file=str(script), override=OVERRIDE), started_ns=1)
    assert next_of(FINDING, tried) == ["perftui", "try", "a", "/p/runs/one"]


def test_of_the_report_it_is_that_of_the_first_finding_that_has_one() -> None:
    first = replace(FINDING, rule="launch-bound", fixes=())
    found = report(option("b", override=OVERRIDE), findings=(first, FINDING))
    assert next_of(first, found) is None
    assert next_command(found) == ["perftui", "try", "b", "/p/runs/one"]


@pytest.mark.parametrize(
    ("run", "share", "is_next"),
    [
        ({}, 0.05, True),
        ({}, 0.04, False),
        ({"status": Status.RUNNING}, 0.5, False),
        ({"profile": {"shapes": True}}, 0.5, False),
    ],
)
def test_of_a_question_it_is_the_option_that_answers(
    run: dict[str, Any], share: float, is_next: bool
) -> None:
    asking = Question(Evidence.SHAPES, "whether attention could be faster", share)
    finding = replace(FINDING, question=asking, fixes=())
    found = report(findings=(finding,), **run)
    command = ["perftui", "diagnose", "--shapes", "/p/runs/one"] if is_next else None
    assert next_of(finding, found) == next_command(found) == command


CUT_SHORT = {"profile": {"max_steps": 12}}
LONGER = ["--max-steps", "28"]


@pytest.mark.parametrize(
    ("wanted", "steps", "run", "options"),
    [
        ("8 more steady steps", 12, CUT_SHORT, LONGER),
        ("8 more steady steps", 12, {"status": Status.KILLED}, LONGER),
        ("8 more steady steps", 12, {}, None),
        ("8 more steady steps", 12, {"profile": {"max_steps": 500}}, None),
        ("8 more steady steps", 12, {**CUT_SHORT, "status": Status.RUNNING}, None),
        # Of a window, which has fewer steps than the run.
        ("15 more steady steps", 5, {}, ["--window", "20"]),
        ("15 more steady steps", 5, CUT_SHORT, ["--window", "20", "--max-steps", "42"]),
        ("20 more steady steps", 0, CUT_SHORT, None),
        ("why oneDNN is not used", 12, CUT_SHORT, None),
        ("", 12, CUT_SHORT, None),
    ],
)
def test_confidence_is_raised_by_a_command_where_one_can(
    wanted: str, steps: int, run: dict[str, Any], options: list[str] | None
) -> None:
    finding = replace(FINDING, would_raise_confidence=wanted, steps=steps, fixes=())
    found = report(findings=(finding,), **{"count": 12, **run})
    command = options and ["perftui", "diagnose", *options, "/p/runs/one"]
    assert confidence_command(finding, found) == next_command(found) == command


def test_a_repeated_run_is_compared_with_the_one_it_repeats(tmp_path: Path) -> None:
    root = write_run(tmp_path, "two")
    made = make_report(load_subject(root))
    assert made.subject.run is not None
    for parent, there in (("one", False), ("../two", False), ("two", True)):
        manifest = replace(made.subject.run.manifest, parent=parent)
        run = replace(made.subject.run, manifest=manifest)
        again = replace(made, subject=replace(made.subject, run=run))
        wanted = ["perftui", "compare", str(root), str(root)] if there else None
        assert comparison_command(again) == wanted


def test_json_has_them_for_each_finding_and_for_the_report(tmp_path: Path) -> None:
    root = write_run(tmp_path / "runs", "one")
    told = described("report", as_json.encode(make_report(load_subject(root))))
    command = ["perftui", "try", "loader-workers", str(root)]
    assert told["findings"][0]["next"] == told["next"] == command
    assert told["findings"][0]["key"] == "input-in-main-thread@train.py"
    assert told["compare"] is told["findings"][0]["would_raise_confidence_command"] is None
    fix = told["fixes"][0]
    assert (fix["triable"], fix["reversible"], fix["written"]) == (True, True, False)
    assert (fix["changes_numerics"], fix["why_not_tried"]) == (False, None)


SOURCE = """\
import torch

class Images:
    size = 3

    def __getitem__(self, index):
        def read():
            return index
        return [read() for _ in range(3)]

def loader(data):
    return data

loader(Images())
"""


def key(path: Path, line: int) -> str:
    return finding_key(at(Place(file=str(path), line=line)))


def at(place: Place | None) -> Finding:
    return Finding("input-bound", Severity.WARNING, "It waits.", place=place)


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text(SOURCE)
    return path


@pytest.mark.parametrize(
    ("line", "function"),
    [
        (1, "<module>"),
        (4, "Images"),
        (8, "Images.__getitem__.read"),
        (9, "Images.__getitem__"),
        (12, "loader"),
        (14, "<module>"),
        (99, "<module>"),
    ],
)
def test_a_line_is_named_by_its_function(script: Path, line: int, function: str) -> None:
    assert key(script, line) == f"input-bound@train.py:{function}"


def test_lines_that_move_and_copies_elsewhere_have_the_same_key(
    script: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy" / "train.py"
    copy.parent.mkdir()
    copy.write_text(f"# one\n# two\n{SOURCE}")
    assert key(script, 9) == key(copy, 11)
    other = replace(at(Place(file=str(script), line=9)), rule="input-uneven")
    assert finding_key(other) != key(script, 9)


def test_what_cannot_be_read_here_is_named_by_the_file(script: Path) -> None:
    assert key(Path("/nowhere/train.py"), 3) == "input-bound@train.py"
    script.write_text("def (:\n")
    assert key(script, 1) == "input-bound@train.py"
    assert key(script.with_suffix(".so"), 1) == "input-bound@train.so"


def test_without_a_line_the_operator_counts_and_long_names_end_in_a_digest() -> None:
    assert finding_key(at(Place(operator="aten::sort"))) == "input-bound@aten::sort"
    assert finding_key(at(Place(rank=3))) == "input-bound"
    assert finding_key(at(None)) == "input-bound"
    long = [finding_key(at(Place(operator="k" * 300 + end))) for end in ("a", "b", "a")]
    assert long[0] == long[2] != long[1]
    assert max(map(len, long)) == 109
