"""Reports in brief and as Markdown."""

import html
import os
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from perftui.diagnosis.model import Finding, Severity
from perftui.experiments.journal import Proof, ProvenPair, write_proof
from perftui.experiments.trial_verdict import Outcome
from perftui.facts.place import Place
from perftui.fixes.option import FixOption, Risk
from perftui.report.markdown import code, fenced, folded, plain, render
from perftui.report.report import Report, make_report
from perftui.report.subject import Subject, load_subject
from perftui.report.text import brief_json, brief_text
from perftui.report.text import render as as_text
from perftui.run.layout import trials_of
from perftui.run.manifest import Override, Status
from perftui.trace.text import printable
from tests.core.diagnosis.runs import make_run
from tests.core.report.test_report import TRACE, write_run
from tests.described import described
from tests.tui.recorded import START
from tests.tui.recorded import write_run as write_recorded

RISKS = (Risk.ORDER, Risk.NUMERICS)


BUSY = (
    "Other programs take 2.0 of 2 cores (python 4711), 63 % of the step waiting for a core, "
    "so all times are up to 172 % too long."
)


def report(
    root: str, sentences: list[str], file: str = "/p/train.py", *, is_busy: bool = False
) -> Report:
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
    if is_busy:
        placed += (Finding("busy-host", Severity.WARNING, BUSY, (), 0, 10_000_000),)
    fixes = tuple(
        FixOption(f"fix-{at}", f"do {at}", "", RISKS, override=Override("switch", {}))
        for at in range(1, len(placed) + 1)
    )
    diagnosis = replace(made.diagnosis, findings=placed)
    return replace(made, subject=subject, diagnosis=diagnosis, fixes=fixes)


def test_text_has_the_verdict_what_to_do_the_step_and_the_next_command() -> None:
    found = report("/p/runs/one", ["It waits.", "It copies.", "It logs.", "More."])
    assert brief_text(found).splitlines() == [
        "train.py: 30 steady steps, mean 10 ms",
        "WARNING  It waits, at train.py:1.",
        "  rule-0: up to 10.00x faster if this were fixed, medium confidence",
        "  fix fix-1: do 1",
        "  risk: changes the shuffle of later epochs; may change the last digits of",
        "      results",
        "",
        "step 10.00 ms",
        "  forward                10.00 ms  100.0 %  ==========",
        "",
        "warning  It copies, at train.py:2.",
        "warning  It logs, at train.py:3.",
        "warning  More, at train.py:4.",
        "",
        "next: perftui try fix-1 /p/runs/one",
        "more: perftui report --full /p/runs/one",
    ]


@given(st.lists(st.text(max_size=400), max_size=12), st.booleans())
def test_text_fits_one_screen(sentences: list[str], is_busy: bool) -> None:
    lines = brief_text(report("/p/runs/one", sentences, is_busy=is_busy)).splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80


def test_a_caution_is_always_named_and_so_are_the_findings_without_room() -> None:
    found = brief_text(report("/p/runs/one", ["word " * 60] * 9, is_busy=True))
    assert BUSY.removesuffix(".") in " ".join(found.replace("\n", " ").split())
    assert "busy-host: Other programs take 2.0" in found
    assert "more findings: " in found
    assert ", rule-8" in found


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
    assert brief_text(made).splitlines()[:2] == ["train.py", "no verdict: too little is known"]


READER = MarkdownIt("commonmark").enable("strikethrough")
NAMES = st.text(min_size=1, max_size=30).filter(lambda text: text.strip() == text)
MARKUP = (
    "a|b", "*a*", "_a_", "a_b", "<b>", "`a`", "``", "[a](b)", "![a](b)", "1. a", "12) a", "- a",
    "# a", "> a", "&amp;", "a\\|b", "@ada", "fixes #12", "~~a~~", "void f<int>(T*)", "\x1b[2J",
    "$x$",
)  # fmt: skip


def shown(markup: str) -> str:
    """The text that a reader sees, without tags that the text itself did not make."""
    found = html.unescape(re.sub(r"</?(code|p)>", "", markup))
    return found.strip("\n")


@pytest.mark.parametrize("text", MARKUP)
def test_markup_in_a_name_is_text(text: str) -> None:
    assert shown(READER.render(plain(text))) == printable(text)
    assert shown(READER.render(code(text))) == printable(text)


@given(NAMES)
def test_any_name_is_shown_as_it_is(text: str) -> None:
    assert shown(READER.render(plain(text))) == printable(text)
    assert shown(READER.render(f"x {code(text)}")) == f"x {printable(text)}"


@given(st.lists(st.text(st.characters(exclude_characters="\n\r")), max_size=5))
def test_a_block_of_code_ends_where_its_text_does(lines: list[str]) -> None:
    made = READER.render("\n".join([*fenced(lines, "diff"), "after"]))
    assert made.endswith("</code></pre>\n<p>after</p>\n")


def test_a_call_to_a_person_and_the_number_of_an_issue_are_no_links() -> None:
    assert "@" not in plain("@torch.no_grad() fixes #12")
    assert "#" not in plain("fixes #12").replace("&#", "")


def test_nothing_is_folded_where_nothing_is() -> None:
    assert list(folded("Notes", [])) == []


def of(path: Path) -> str:
    return render(make_report(load_subject(path)))


def test_a_report_names_finding_cost_fix_and_parts_that_sum(tmp_path: Path) -> None:
    text = of(write_run(tmp_path / "runs", "20260101-000000-train", window=TRACE.encode()))
    made = READER.render(text)
    assert "<details><summary>Operators, kernels and memory</summary>" in made
    assert "## train.py - exited with code 0" in text
    assert "### `input-in-main-thread`, critical: up to " in text
    assert "- **Fix** `loader-workers`: num_workers 0 -> 3" in text
    steps = re.findall(r"^  ([\w ]+?) +([\d.]+) ms +([\d.]+) %$", text, re.MULTILINE)
    assert ("data loader wait", "21.00") in [(name, time) for name, time, _ in steps]
    whole = [float(time) for name, time, _ in steps if name == "step"]
    parts = [float(time) for name, time, _ in steps if name != "step"]
    assert sum(parts) == pytest.approx(sum(whole), abs=1e-6)
    assert "  aten::mm  " in text
    assert "\x1b" not in text


def test_a_fix_stands_as_a_diff_with_what_was_measured(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "from torch.utils.data import DataLoader\n\n\ndef loader(pictures):\n"
        "    return DataLoader(pictures, batch_size=128, shuffle=True)\n"
    )
    os.utime(script, ns=(START - 10**9, START - 10**9))
    root = write_recorded(tmp_path / "runs", script=script, loader_line=5)
    assert "Measured" not in of(root)
    pairs = (ProvenPair(2, 1),) * 6
    said = "2.10x faster (2.00 to 2.20)"
    proof = Proof("loader-workers", "num_workers 0 -> 4", Outcome.FASTER, said, pairs, 1, 2.1)
    write_proof(proof, trials_of(root))
    text = of(root)
    assert "  - Measured: **2.10x faster (2.00 to 2.20)**, 6 pairs of runs with the fix" in text
    measured = (
        "    Measured: 2.10x faster (2.00 to 2.20), 6 pairs of runs with the fix and without."
    )
    plain = as_text(make_report(load_subject(root)))
    assert measured in plain.splitlines()
    assert "2.10x faster (2.00 to 2.20) with a fix, measured. Confidence: high" in plain
    assert not any("up to 1." in each.lower() for each in (plain, text))
    assert "  ```diff\n" in text
    assert "  +    return DataLoader(pictures, batch_size=128, shuffle=True, num_workers=4" in text
    assert "language-diff" in READER.render(text)
