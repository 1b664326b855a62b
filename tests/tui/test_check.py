"""`perftui check` on recorded runs and traces: rows, verdicts and exit codes."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from perftui.run.manifest import Override
from perftui_tui.cli import main
from tests.core.report.test_special_reports import three_lines, write_snapshot
from tests.described import described
from tests.tui.recorded import ENDED, SCRIPT, SECOND, START, write_run
from tests.tui.traces import write_trace

Capture = pytest.CaptureFixture[str]

FIRST, NOW = "20231114-221320-train", "20231114-231320-train"
KEY = "input-in-main-thread@train.py:loader"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with the script that was run."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GITHUB_WORKSPACE", raising=False)
    (tmp_path / ".git").mkdir()
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    os.utime(script, ns=(START - SECOND, START - SECOND))
    return tmp_path


def record(place: Path, run_id: str, *, hours: float = 0, **changes: Any) -> Path:
    given = {
        "script": place / "train.py",
        "loader_line": 4,
        "cwd": str(place),
        "started_ns": START + round(hours * 3600) * SECOND,
        **ENDED,
        **changes,
    }
    return write_run(place / ".perftui" / "runs", run_id=run_id, **given)


def checked(capsys: Capture, *words: str | Path) -> tuple[int, str]:
    capsys.readouterr()
    code = main(["check", *map(str, words)])
    return code, capsys.readouterr().out


def rows(printed: str) -> dict[str, tuple[str, str, str]]:
    """By check what was found, the limit and the result."""
    lines = [re.split(r"  +", line.strip()) for line in printed.splitlines()]
    return {line[0]: (line[1], line[2], line[3]) for line in lines if len(line) == 4}


def test_a_critical_finding_fails(place: Path, capsys: Capture) -> None:
    run = record(place, FIRST)
    code, printed = checked(capsys, run)
    assert code == 1
    assert rows(printed)[KEY] == ("critical, 123 ms of 310 ms (40 %)", "no critical", "FAILED")
    assert printed.splitlines()[-1] == "FAILED: 1 of 1 check"
    assert "waiting for data" in printed
    assert checked(capsys) == (1, printed), "the newest run, where none is named"


def test_a_finding_below_the_level_is_shown_and_passes(place: Path, capsys: Capture) -> None:
    run = record(place, FIRST, wait_ms=40)
    code, printed = checked(capsys, run)
    assert (code, rows(printed)[KEY][2]) == (0, "ok")
    assert printed.splitlines()[-1] == "passed: 1 check"
    code, printed = checked(capsys, run, "--fail-on", "warning")
    assert (code, rows(printed)[KEY][1:]) == (1, ("no warning or worse", "FAILED"))


def test_no_finding_is_a_check_of_its_own(place: Path, capsys: Capture) -> None:
    code, printed = checked(capsys, record(place, FIRST, wait_ms=0, workers=4))
    assert (code, rows(printed)["findings"]) == (0, ("none", "no critical", "ok"))


def test_too_few_steps_pass_nothing(place: Path, capsys: Capture) -> None:
    """A critical finding takes 20 steady steps, so its absence does too."""
    code, printed = checked(capsys, record(place, FIRST, steps=18))
    assert (code, rows(printed)["findings"][2]) == (2, "not judged")
    assert re.search(r"findings: \d+ of 20 steady steps are too few to judge", printed)


def test_a_slower_step_fails_where_that_is_certain(place: Path, capsys: Capture) -> None:
    before, after = record(place, FIRST), record(place, NOW, hours=1, wait_ms=160)
    code, printed = checked(capsys, after, "--against", before)
    assert code == 1
    found = rows(printed)
    assert found["step time"] == (
        "mean 310 ms -> 352 ms, 14 % slower",
        "at most 5.0 % slower",
        "FAILED",
    )
    assert found[KEY][1:] == ("no new critical", "ok")
    assert printed.splitlines()[-1] == "FAILED: 1 of 2 checks"
    assert checked(capsys, after, "--against", before, "--max-regression", "14%")[0] == 0
    assert checked(capsys, before, "--against", after)[0] == 0


def test_a_difference_within_noise_is_not_certain(place: Path, capsys: Capture) -> None:
    before, after = record(place, FIRST), record(place, NOW, hours=1, wait_ms=132)
    words = (after, "--against", before, "--max-regression", "3")
    code, printed = checked(capsys, *words)
    assert (code, rows(printed)["step time"][2]) == (0, "not certain")
    assert "two runs of one program differ by up to 6.0 %" in printed
    assert printed.splitlines()[-1] == "passed: 2 checks, 1 not certain (--inconclusive pass)"
    code, printed = checked(capsys, *words, "--inconclusive", "fail")
    last = "FAILED: 1 of 2 checks, 1 not certain (--inconclusive fail)"
    assert (code, printed.splitlines()[-1]) == (1, last)


def test_runs_of_other_work_or_machines_are_not_certain(place: Path, capsys: Capture) -> None:
    before = record(place, FIRST, steps=200)
    after = record(place, NOW, hours=1, steps=200, cpu_name="other", wait_ms=300)
    short = record(place, "20231115-000000-train", hours=2, steps=15, wait_ms=300)
    assert checked(capsys, after, "--against", before)[0] == 1, "one of them is not known"
    code, printed = checked(capsys, short, "--against", before, "--fail-on", "none")
    assert (code, rows(printed)["step time"][2]) == (0, "not certain")
    named = record(place, "20231115-010000-train", hours=3, cpu_name="one", wait_ms=300)
    code, printed = checked(capsys, named, "--against", after)
    assert (code, rows(printed)["step time"][2]) == (0, "not certain")
    assert "CPU other -> one: the step is that of another machine" in printed


def test_a_finding_that_the_baseline_lacks_fails(place: Path, capsys: Capture) -> None:
    before = record(place, FIRST, wait_ms=0, workers=4)
    after = record(place, NOW, hours=1)
    code, printed = checked(capsys, after, "--against", before, "--max-regression", "900%")
    assert (code, rows(printed)[KEY][1:]) == (1, ("no new critical", "FAILED"))
    assert "(not in the baseline)" in printed
    words = ("--against", before, "--max-regression", "900%", "--fail-on", "none")
    code, printed = checked(capsys, after, *words)
    assert (code, list(rows(printed))) == (0, ["check", "step time"])


def test_the_newest_earlier_run_of_the_command_is_found(place: Path, capsys: Capture) -> None:
    """Not a later one, nor one of another command, of a fix on trial, or that failed."""
    record(place, "20231114-200000-train", hours=-2, wait_ms=1)
    before = record(place, FIRST, git_commit="1" * 40, python_version="3.11.2")
    record(place, "20231114-221500-train", hours=0.1, command=("/usr/bin/python3", "other.py"))
    tried = (Override("DataLoader", {"num_workers": 2}),)
    record(place, "20231114-222000-train", hours=0.2, overrides=tried)
    record(place, "20231114-223000-train", hours=0.3, exit_code=1)
    after = record(
        place,
        NOW,
        hours=1,
        git_commit="2" * 40,
        python_version="3.12.1",
        host="node2",
        command=("/opt/python3", "train.py", "--lr", "0.1"),
    )
    record(place, "20231115-010000-train", hours=3)
    code, printed = checked(capsys, after, "--against", "newest")
    assert code == 0
    assert f"against {before}" in printed.splitlines()
    told = "host node1 -> node2, Python 3.11.2 -> 3.12.1, command /usr/bin/python3 -> /opt/python3"
    assert f"  only partly comparable: {told}" in printed.splitlines()
    assert "  source: commit 1111111111 -> 2222222222" in printed.splitlines()


def test_the_first_run_has_nothing_to_be_held_against(place: Path, capsys: Capture) -> None:
    run = record(place, FIRST)
    code, printed = checked(capsys, run, "--against", "newest")
    found = rows(printed)
    assert (code, found["step time"][2], found[KEY][2]) == (0, "not certain", "not certain")
    assert "no earlier run of this command" in printed
    assert checked(capsys, run, "--against", "newest", "--inconclusive", "fail")[0] == 1


def test_what_cannot_be_judged_is_code_2(place: Path, capsys: Capture) -> None:
    going = {"status": "running", "exit_code": None, "ended_ns": None}
    code, printed = checked(capsys, record(place, FIRST, **going))
    assert (code, printed.splitlines()[-1]) == (2, "not judged: 1 of 1 check")
    assert "the training is still running" in printed
    code, printed = checked(capsys, record(place, NOW, steps=0), "--junit", "out.xml")
    assert code == 2
    [[case]] = ElementTree.parse("out.xml").getroot()  # noqa: S314 - written just now
    assert [child.tag for child in case] == ["error"]


def test_traces_are_checked_too(place: Path, capsys: Capture) -> None:
    trace = write_trace(place)
    (place / "other").mkdir()
    other = write_trace(place / "other")
    code, printed = checked(capsys, trace, "--against", other)
    assert code == 0
    assert "step time" in rows(printed)
    assert checked(capsys, trace)[0] in (0, 1)


def test_findings_are_annotated_in_the_repository(
    place: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = record(place, FIRST)
    (place / "below").mkdir()
    monkeypatch.chdir(place / "below")
    _, printed = checked(capsys, run, "--github")
    last = printed.splitlines()[-1]
    head = "::error file=train.py,line=4,title=perftui%3A input-in-main-thread (critical)::"
    assert last.startswith(f"{head}The training spends")
    assert "(40 %25)" in last


def test_junit_holds_what_failed(place: Path, capsys: Capture) -> None:
    run = record(place, FIRST)
    code, _ = checked(capsys, run, "--junit", "results.xml")
    [suite] = ElementTree.parse("results.xml").getroot()  # noqa: S314 - written just now
    [case] = suite
    assert code == 1
    assert case.attrib == {"classname": "perftui", "name": KEY, "file": "train.py", "line": "4"}
    assert "waiting for data" in (case[0].text or "")
    assert (place / "results.xml").stat().st_mode & 0o777 == 0o644


def test_json_is_what_its_schema_says(place: Path, capsys: Capture) -> None:
    before, after = record(place, FIRST), record(place, NOW, hours=1, wait_ms=160)
    code, printed = checked(capsys, after, "--against", before, "--json")
    found = described("check", printed)
    assert (code, found["verdict"], found["against"]) == (1, "failed", str(before))
    assert [one["state"] for one in found["checks"]] == ["ok", "failed"]
    assert found["checks"][0]["file"] == "train.py"
    assert found["ratio"] == pytest.approx(310 / 352, abs=0.01)
    assert json.loads(printed)["fail_on"] == "critical"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["RUN", "--max-regression", "5%"], "--max-regression needs a baseline"),
        (["RUN", "--fail-on", "none"], "--fail-on none leaves nothing to check"),
        (["RUN", "--fail-on", "bad"], "--fail-on needs one of critical, warning, info, none"),
        (["RUN", "--inconclusive", "skip"], "--inconclusive needs one of pass, fail, not 'skip'"),
        (["RUN", "--max-regression", "much"], "such as 5%, not 'much'"),
        (["RUN", "--json", "--github"], "--json and --github both print on stdout"),
        (["RUN", "--against", "RUN"], "cannot be checked against itself"),
        (["RUN", "--against", "nothing"], "no such file: nothing"),
        (["rank0.pt.trace.json", "--against", "newest"], "--against newest needs a run"),
        (["RUN", "--junit", "no/such/out.xml"], "no/such/out.xml cannot be written"),
        (["snapshot.pickle"], "is a memory snapshot"),
        (["RUN", "RUN"], "check takes one path"),
        (["nothing.json"], "no such file: nothing.json"),
    ],
)
def test_what_cannot_be_checked_is_said_and_code_2(
    place: Path, capsys: Capture, words: list[str], told: str
) -> None:
    run = record(place, FIRST)
    write_trace(place)
    write_snapshot(place / "snapshot.pickle", three_lines())
    assert main(["check", *(str(run) if word == "RUN" else word for word in words)]) == 2
    printed = capsys.readouterr()
    assert told in printed.err
    assert printed.out == ""
