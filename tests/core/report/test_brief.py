"""Reports of at most 2,000 bytes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perftui.diagnosis.model import Finding, Severity
from perftui.facts.fact import Place
from perftui.fixes.option import FixOption, Risk
from perftui.report.brief import brief_json, brief_text
from perftui.report.report import Report, make_report
from perftui.report.subject import Subject, load_subject
from perftui.run.manifest import Override, Status
from tests.core.diagnosis.runs import make_run
from tests.core.report.test_report import write_run
from tests.described import described

RISKS = (Risk.ORDER, Risk.NUMERICS)


def report(root: str, sentences: list[str], file: str = "/p/train.py") -> Report:
    run = make_run(count=30)
    made = make_report(Subject(Path("run"), run))
    subject = Subject(Path(root), replace(run, root=Path(root)))
    findings = tuple(
        Finding(f"rule-{at}", Severity.WARNING, sentence, (), 9_000_000 - at, 10_000_000)
        for at, sentence in enumerate(sentences)
    )
    placed = tuple(
        replace(one, place=Place(file=file, line=at), fixes=(f"fix-{at}",))
        for at, one in enumerate(findings, 1)
    )
    fixes = tuple(
        FixOption(f"fix-{at}", f"do {at}", "", RISKS, override=Override("switch", {}))
        for at in range(1, len(placed) + 1)
    )
    diagnosis = replace(made.diagnosis, findings=placed)
    return replace(made, subject=subject, diagnosis=diagnosis, fixes=fixes)


def test_text_has_the_verdict_the_next_command_and_three_findings() -> None:
    lines = brief_text(report("/p/runs/one", ["It waits.", "It copies.", "It logs.", "More."]))
    assert lines.splitlines() == [
        "train.py: 30 steady steps, mean 10 ms",
        "WARNING  It waits, at train.py:1.",
        "next: perftui try fix-1 /p/runs/one",
        "1. rule-0 (warning) at /p/train.py:1, 9.0 ms of 10 ms (90 %), medium confidence",
        "   fix fix-1: do 1; changes the shuffle of later epochs; may change the last digits of "
        "results",
        "2. rule-1 (warning) at /p/train.py:2, 9.0 ms of 10 ms (90 %), medium confidence",
        "   It copies.",
        "   fix fix-2: do 2; changes the shuffle of later epochs; may change the last digits of "
        "results",
        "   perftui try fix-2 /p/runs/one",
        "3. rule-2 (warning) at /p/train.py:3, 9.0 ms of 10 ms (90 %), medium confidence",
        "   It logs.",
        "   fix fix-3: do 3; changes the shuffle of later epochs; may change the last digits of "
        "results",
        "   perftui try fix-3 /p/runs/one",
        "1 more finding without --brief",
    ]


def test_json_has_the_same() -> None:
    told = brief_json(report("/p/runs/one", ["It waits.", "It copies.", "It logs.", "More."]))
    assert told.count("\n") == 1
    found = described("brief", told)
    assert found["verdict"] == "It waits, at train.py:1."
    assert found["next"] == ["perftui", "try", "fix-1", "/p/runs/one"]
    assert (len(found["findings"]), found["more_findings"]) == (3, 1)
    second = found["findings"][1]
    assert (second["key"], second["place"]) == ("rule-1@train.py", "/p/train.py:2")
    assert (second["cost_ns"], second["share"], second["fix"]) == (8_999_999, 0.9, "fix-2")
    assert second["changes_numerics"] is True
    assert second["next"] == ["perftui", "try", "fix-2", "/p/runs/one"]


def test_a_run_that_was_recorded_fits_with_all_it_has(tmp_path: Path) -> None:
    root = write_run(tmp_path / "runs", "one")
    made = make_report(load_subject(root))
    assert "next: perftui try loader-workers" in brief_text(made)
    (finding,) = described("brief", brief_json(made))["findings"]
    assert finding["fix"] == "loader-workers"


@pytest.mark.parametrize(
    ("letters", "findings", "commands"), [(60, 3, True), (300, 3, False), (4000, 3, False)]
)
def test_commands_that_leave_no_room_go_before_findings(
    letters: int, findings: int, commands: bool
) -> None:
    root = "/" + "r" * letters
    made = report(root, ["word " * 200] * 5, f"/{'d' * 1000}/f.py")
    found = described("brief", brief_json(made))
    assert (len(found["findings"]), found["more_findings"]) == (findings, 5 - findings)
    assert bool(found["findings"][0]["next"]) is commands
    assert found["findings"][0]["place"] == "f.py:1"
    # A path or a command is there whole or not at all.
    whole = ["perftui", "try", "fix-1", root]
    assert found["next"] == (whole if letters < 400 else None)
    assert found["path"] == (root if letters < 400 else None)


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(st.text(max_size=600), st.lists(st.text(max_size=900), max_size=5), st.text(max_size=600))
def test_it_is_2000_bytes_at_most_and_whole_lines(
    name: str, sentences: list[str], file: str
) -> None:
    root = "/" + name.replace("\0", "")
    made = report(root, sentences, f"/{file}")
    text = brief_text(made)
    assert len(text.encode("utf-8", "backslashreplace")) <= 2_000
    assert text.endswith("\n")
    encoded = brief_json(made)
    assert len(encoded.encode()) <= 2_000
    described("brief", encoded)


def test_what_is_not_known_yet_is_said() -> None:
    going = make_run(root=Path("/p/one"), count=3, status=Status.RUNNING)
    made = make_report(Subject(going.root, going))
    assert brief_text(made).splitlines()[1].startswith("collecting, ")
    assert described("brief", brief_json(made))["progress"].startswith("collecting, ")
    nothing = make_run(root=Path("/p/one"), count=0)
    made = make_report(Subject(nothing.root, nothing))
    assert brief_text(made).splitlines() == ["train.py", "no verdict: too little is known"]
